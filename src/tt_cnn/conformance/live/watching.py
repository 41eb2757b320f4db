# SPDX-License-Identifier: Apache-2.0
"""Watching the cards that a program opens, under the real library and on the virtual card."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Protocol

from tt_cnn.conformance.live.graph_reading import Node, call_graphs, read_steps, with_dry_run
from tt_cnn.conformance.live.recording import CardFacts, LiveCall, LiveStep, Recording

OPENING = ("open_device", "CreateDevice", "open_mesh_device")
CLOSING = ("close_device", "CloseDevice", "close_mesh_device")
MOCKED = "TT_METAL_MOCK_CLUSTER_DESC_PATH"
"""Set where the real library runs without a card."""


class Watcher(Protocol):
    """Told when a card was opened, and before it is closed."""

    def opened(self, device: Any) -> None: ...

    def closing(self, device: Any) -> None:
        """`None` at the end of the program, whatever it has left open."""


@contextmanager
def watched(ttnn: ModuleType, packages: tuple[str, ...], watcher: Watcher) -> Iterator[None]:
    """The functions that open and close cards tell the watcher, wherever in these packages a module holds them."""
    replaced: list[tuple[ModuleType, str, Any]] = []
    for name in (*OPENING, *CLOSING):
        original = getattr(ttnn, name, None)
        if original is None:
            continue
        reported = _telling(original, watcher, name in OPENING)
        for module in [m for n, m in sys.modules.items() if n.split(".")[0] in packages and m is not None]:
            if vars(module).get(name) is original:
                replaced.append((module, name, original))
                setattr(module, name, reported)
    try:
        yield
    finally:
        watcher.closing(None)
        for module, name, original in replaced:
            setattr(module, name, original)


def _telling(original: Callable[..., Any], watcher: Watcher, opens: bool) -> Callable[..., Any]:
    def opening(*args: Any, **kwargs: Any) -> Any:
        device = original(*args, **kwargs)
        watcher.opened(device)
        return device

    def closing(device: Any, *args: Any, **kwargs: Any) -> Any:
        watcher.closing(device)
        return original(device, *args, **kwargs)

    return opening if opens else closing


class GraphWatcher:
    """The real library: a graph is captured from the opening of a card to its closing, which would lose it."""

    def __init__(self, ttnn: ModuleType, mode: Any, program_cache: bool) -> None:
        self.ttnn, self.mode, self.program_cache = ttnn, mode, program_cache
        self.graphs: list[list[Node]] = []
        self.card: CardFacts | None = None
        self._open: list[Any] = []
        self._capturing = False

    def opened(self, device: Any) -> None:
        self._open.append(device)
        if not self.program_cache:
            device.disable_and_clear_program_cache()
        if self.card is None:
            self.card = facts_of(device)
        if not self._capturing:
            self.ttnn.graph.begin_graph_capture(self.mode)
            self._capturing = True

    def closing(self, device: Any) -> None:
        if self._capturing:
            self._capturing = False
            self.graphs.append(self.ttnn.graph.end_graph_capture() or [])
        self._open = [one for one in self._open if one is not device]

    def close_all(self) -> None:
        """What the program has left open: it will be run again."""
        for device in self._open:
            self.ttnn.close_device(device)
        self._open = []


def facts_of(device: Any) -> CardFacts:
    grid = device.compute_with_storage_grid_size()
    return CardFacts(device.arch().name, (int(grid.x), int(grid.y)), int(device.get_num_devices()))


def is_mocked() -> bool:
    return bool(os.environ.get(MOCKED))


def steps_of_graphs(graphs: Sequence[Sequence[Node]]) -> tuple[list[LiveStep], list[LiveCall]]:
    """Of all cards that were opened one after the other."""
    steps: list[LiveStep] = []
    calls: list[LiveCall] = []
    for graph in graphs:
        more_steps, more_calls = read_steps(graph)
        for step in more_steps:
            step.call += len(calls)
        steps += more_steps
        calls += more_calls
    return steps, calls


def add_dry_run(recording: Recording, graphs: Sequence[Sequence[Node]], ttnn: ModuleType) -> None:
    """What only a dry run tells: see `graph_reading.with_dry_run`."""
    steps, _ = steps_of_graphs(graphs)
    peaks = [peak_of_graph(ttnn, part) for graph in graphs for part in call_graphs(graph)]
    note = with_dry_run(recording.steps, recording.calls, steps, peaks)
    if note:
        recording.notes.append(note)


def peak_of_graph(ttnn: ModuleType, graph: list[Node]) -> dict[str, int]:
    """As the corpora write it."""
    usage = ttnn.graph.extract_resource_usage_per_core(graph)
    return {
        "cb": usage.peak_cb,
        "l1": usage.peak_l1,
        "staging": usage.peak_dataflow_buffer,
        "total": usage.peak_total,
    }


def message_of(error: BaseException) -> str:
    """The sentence of a refusal: the real library wraps it into its check, its place and a backtrace."""
    reported = getattr(error, "message", None)
    text = reported if isinstance(reported, str) else str(error)
    wrapped = re.search(r"TT_(?:FATAL|THROW) @ [^\n]*\ninfo:\n(.*?)(?:\nbacktrace|\Z)", text, re.DOTALL)
    return (wrapped[1] if wrapped else text).strip()
