# SPDX-License-Identifier: Apache-2.0
"""The steps in a graph that the real library captured (`ttnn.graph`, TT-NN 0.81.1).

A device operation is a function with a program factory. What is allocated inside it before its program is enqueued
belongs to it, and so does what is given back after. A graph of RunMode.NORMAL has addresses, but neither dataflow
buffers nor circular buffers of programs that only borrow memory; one of RunMode.NO_DISPATCH has all buffers and no
addresses. `with_dry_run` takes from each what the other lacks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any

from tt_cnn.conformance.live.recording import LiveCall, LiveStep, Memory, Ranges

Node = dict[str, Any]

_ENQUEUED = ("circular_buffer_deallocate_all", "program_execution")
"""The first of these in a device operation: all that its program needs has been allocated."""
_MOVE = "Move"
"""Brings a tensor to another address. All addresses of a dry run are the same, so that nothing moves there."""


def read_steps(graph: Sequence[Node]) -> tuple[list[LiveStep], list[LiveCall]]:
    """The steps and calls of a graph, in order."""
    reading = _Reading(graph)
    for node in graph:
        reading.read(node)
    return reading.finish()


@dataclass
class _Open:
    """A function that has started."""

    name: str
    step: LiveStep | None = None
    enqueued: bool = False


@dataclass
class _Reading:
    graph: Sequence[Node]
    steps: list[LiveStep] = field(default_factory=list)
    calls: list[LiveCall] = field(default_factory=list)
    stack: list[_Open] = field(default_factory=list)
    taken: list[Memory] = field(default_factory=list)
    """Allocated since the last program."""
    last: LiveStep | None = None
    """The step whose program was enqueued last."""
    called: bool = False
    """The outermost function has a step already."""

    def read(self, node: Node) -> None:
        kind, params = node["node_type"], node["params"] or {}
        if kind == "function_start":
            self._start(node, params)
        elif kind == "function_end":
            self._end(node)
        elif kind == "buffer_allocate":
            self.taken.append(_memory(params))
            if self._step is not None:
                self._step.own.append([*_memory(params), int(params["num_cores"]), params["layout"]])
        elif kind == "buffer_deallocate":
            if self.last is not None:
                self.last.frees.append(_memory(params))
        elif kind in _ENQUEUED:
            self._enqueue()
        elif kind in _BUFFERS and self._step is not None:
            _BUFFERS[kind](self._step, params)

    @property
    def _step(self) -> LiveStep | None:
        """The innermost device operation that is open."""
        return next((one.step for one in reversed(self.stack) if one.step is not None), None)

    def _start(self, node: Node, params: dict[str, Any]) -> None:
        if not self.stack:
            self.called = False
        step = None
        if "program_factory_type" in params:
            if not self.called:
                self.calls.append(LiveCall(self.stack[0].name if self.stack else params["name"]))
                self.called = True
            self.calls[-1].steps += 1
            step = LiveStep(
                op=operation_name(params["name"]),
                factory=params["program_factory_type"].rpartition("::")[2],
                call=len(self.calls) - 1,
                inputs=[tensor_spec(self.graph[t]["params"]) for t in node["input_tensors"]],
                cached=bool(params.get("program_cache_hit")),
            )
            self.steps.append(step)
        self.stack.append(_Open(params["name"], step))

    def _end(self, node: Node) -> None:
        ended = self.stack.pop()
        if ended.step is None:
            return
        if not ended.enqueued:
            self._take(ended.step)
        connected = [self.graph[c] for c in node["connections"]]
        ended.step.outputs = [tensor_spec(n["params"]) for n in connected if n["node_type"] == "tensor"]

    def _enqueue(self) -> None:
        one = next((one for one in reversed(self.stack) if one.step is not None), None)
        if one is not None and one.step is not None and not one.enqueued:
            one.enqueued = True
            self._take(one.step)

    def _take(self, step: LiveStep) -> None:
        step.buffers, self.taken, self.last = self.taken, [], step

    def finish(self) -> tuple[list[LiveStep], list[LiveCall]]:
        return self.steps, self.calls


def operation_name(function: str) -> str:
    """`HaloDeviceOperation` is `Halo`; `Pool2D` and `BatchNormOperation` have shorter endings or none."""
    return re.sub(r"(Device)?Operation$", "", function)


def _memory(params: dict[str, Any]) -> Memory:
    return [int(params["buffer_type"]), int(params["address"]), int(params["max_size_per_bank"])]


def _circular(step: LiveStep, params: dict[str, Any]) -> None:
    borrowed = int(params.get("globally_allocated", "0"))
    step.cbs.append([int(params["address"]), int(params["size"]), borrowed, core_ranges(params["core_range_set"])])


def _dataflow(step: LiveStep, params: dict[str, Any]) -> None:
    assert step.staging is not None
    borrowed = int(params.get("borrows_memory", "0"))
    step.staging.append([int(params["size"]), borrowed, core_ranges(params["core_range_set"])])


_BUFFERS: dict[str, Callable[[LiveStep, dict[str, Any]], None]] = {
    "circular_buffer_allocate": _circular,
    "dataflow_buffer_allocate": _dataflow,
}


def core_ranges(text: str) -> Ranges:
    """`{[0-0 - 7-1], [0-2 - 1-2]}` as [[[0, 0], [7, 1]], [[0, 2], [1, 2]]]."""
    found = re.findall(r"(\d+)-(\d+) - (\d+)-(\d+)", text)
    return [[[int(a), int(b)], [int(c), int(d)]] for a, b, c, d in found]


def tensor_spec(params: dict[str, Any]) -> dict[str, Any]:
    """A tensor of the graph as the corpora write specs; the graph has no padded shapes."""
    spec: dict[str, Any] = {
        "shape": [int(d) for d in re.findall(r"\d+", params["shape"])],
        "dtype": params["dtype"].rpartition("::")[2],
        "layout": params["layout"].rpartition("::")[2],
    }
    config = params.get("memory_config")
    if config is None:
        return {**spec, "host": True}
    spec["memory_layout"] = _word(config, r"memory_layout=TensorMemoryLayout::(\w+)")
    spec["buffer_type"] = _word(config, r"buffer_type=BufferType::(\w+)")
    shard = re.search(r"shard_spec=ShardSpec\{grid=(\[.*?\]), shape=\[(\d+), (\d+)\], orientation=\w+::(\w+)", config)
    if shard is not None:
        corner = r'"start":\{"x":(\d+),"y":(\d+)\},"end":\{"x":(\d+),"y":(\d+)\}'
        spec["shard_shape"] = [int(shard[2]), int(shard[3])]
        spec["orientation"] = shard[4]
        spec["grid"] = [[[int(a), int(b)], [int(c), int(d)]] for a, b, c, d in re.findall(corner, shard[1])]
    spec["address"] = _address(params)
    return spec


def _address(params: dict[str, Any]) -> int | None:
    """A tensor under another shape than it was made with has the address of its chips alone."""
    if "address" in params:
        return int(params["address"])
    found = re.search(r'"address":(\d+)', params.get("device_tensors", ""))
    return int(found[1]) if found else None


def _word(text: str, pattern: str) -> str:
    found = re.search(pattern, text)
    return found[1] if found else ""


def with_dry_run(
    steps: Sequence[LiveStep], calls: Sequence[LiveCall], dry: Sequence[LiveStep], peaks: Sequence[dict[str, int]]
) -> str:
    """Add to the steps and calls of a run what only a dry run of the same program tells: staging, borrowed, peaks.

    `peaks` are those of the calls that dispatched something. Returns why not where the dry run took another way, as a
    whole or with another program for a step (a dry run takes no memory, so more of L1 is free when a program is
    chosen); such steps then say that their staging is not known, and their calls that their peak is not.
    """
    for step in steps:
        step.staging = None
    dispatched = [step for step in steps if step.op != _MOVE]
    others = [step for step in dry if step.op != _MOVE]
    if [step.op for step in dispatched] != [step.op for step in others]:
        return f"a dry run took another way ({len(others)} steps beside moves, {len(dispatched)} in the run)"
    alike = [step.factory == other.factory for step, other in zip(dispatched, others, strict=True)]
    for step, other in compress(zip(dispatched, others, strict=True), alike):
        step.staging = other.staging
        if not step.cbs and other.cbs:
            step.cbs = [[None, size, borrowed, cores] for _, size, borrowed, cores in other.cbs]
    dispatching = sorted({step.call for step in dispatched})
    if len(peaks) != len(dispatching):
        return f"calls in a dry run: {len(peaks)}, in the run: {len(dispatching)}, so peaks are not known"
    unlike = {step.call for step, same in zip(dispatched, alike, strict=True) if not same}
    for call, peak in zip(dispatching, peaks, strict=True):
        calls[call].peak = None if call in unlike else peak
    if not unlike:
        return ""
    others_count = alike.count(False)
    which = "1 step has" if others_count == 1 else f"{others_count} steps have"
    return f"{which} another program in a dry run: staging and peak"


def call_graphs(graph: Sequence[Node]) -> Iterator[list[Node]]:
    """The nodes of each outermost function that dispatched something, renumbered as a graph of its own."""
    part: list[Node] = []
    depth = 0
    for node in graph:
        kind = node["node_type"]
        if kind == "function_start":
            depth += 1
        if depth:
            part.append(node)
        if kind == "function_end":
            depth -= 1
            if not depth:
                if any("program_factory_type" in (one["params"] or {}) for one in part):
                    yield [{**one, "counter": number, "connections": []} for number, one in enumerate(part)]
                part = []
