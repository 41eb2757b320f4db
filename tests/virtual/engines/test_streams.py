# SPDX-License-Identifier: Apache-2.0
"""Engines whose jobs only launch work: queues run them at once, and marks say when they are done."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tt_cnn import ttnn
from tt_cnn.pipeline import work
from tt_cnn.pipeline.executors.timing import Timing
from tt_cnn.virtual.engines import Engine, creation, streams


class Late(Engine):
    """Reads bring zeros until somebody has waited for a mark that was made after them."""

    streams = True

    def __init__(self, numerics: str) -> None:
        super().__init__(numerics)
        self.under_way: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.threads: set[int] = set()
        self.waited: list[tuple[int, int]] = []

    def mark(self, queue: int) -> Any:
        return queue, list(self.under_way)

    mark_of_reads = mark

    def after(self, mark: Any, queue: int) -> None:
        self.waited.append((queue, mark[0]))

    def finish(self, mark: Any) -> None:
        with torch.inference_mode():
            for host, value in mark[1]:
                host.copy_(value)

    def download(self, value: torch.Tensor) -> torch.Tensor:
        self.threads.add(threading.get_ident())
        host = torch.zeros_like(value)
        self.under_way.append((host, value))
        return host


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch, open_card: Callable[..., Any]) -> Any:
    monkeypatch.setitem(creation.ENGINES, "late", Late)
    return open_card(engine="late", num_command_queues=2)


def tensor(device: Any, value: float) -> Any:
    return ttnn.from_torch(torch.full((32, 32), value), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)


def test_jobs_run_on_the_callers_thread(card: Any) -> None:
    tensor(card, 1.0).cpu(blocking=False)
    assert card.engine.threads == {threading.get_ident()}
    assert all(queue._worker is None for queue in card.queues)


@pytest.mark.parametrize("blocking", [True, False])
def test_what_was_read_is_waited_for(card: Any, blocking: bool) -> None:
    host = tensor(card, 3.0).cpu(blocking=blocking)
    if not blocking:
        assert not card.engine.under_way[-1][0].any()
        ttnn.synchronize_device(card)
    assert ttnn.to_torch(host).unique().tolist() == [3.0]


def test_an_event_brings_what_was_read_before_it(card: Any) -> None:
    host = tensor(card, 2.0).cpu(blocking=False)
    ttnn.event_synchronize(ttnn.record_event(card, 0))
    assert card.engine.under_way[-1][0].unique().tolist() == [2.0]
    assert ttnn.to_torch(host).unique().tolist() == [2.0]


def test_queues_wait_for_each_others_marks(card: Any) -> None:
    ttnn.wait_for_event(1, ttnn.record_event(card, 0))
    assert card.engine.waited == [(1, 0)]


def test_a_pipelines_work_is_estimated_from_its_second_input(card: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one compiles the trace; and no command is timed while inputs stream."""
    seconds = iter([Timing(9.0, 9.0, 9.0), Timing(0.25, 2.0, 0.25)])
    monkeypatch.setattr(work, "time_verbs", lambda executor, host: next(seconds))
    watched = work.watch(SimpleNamespace(device=card, dram_input=None), None)  # type: ignore[arg-type]
    assert watched.work(4, wall=8.0) == work.Work(transfer=2.0, compute=8.0, overlapped=2.0)
    assert not card.timers


class Stream:
    """In place of one on a GPU."""

    device_index = stream_id = device_type = 0

    def __init__(self, _: Any = None) -> None:
        self.events = 0
        self.waits_for: list[Any] = []


class Numbered:
    """An event, by its number on its stream."""

    def record(self, stream: Stream) -> None:
        stream.events += 1
        self.number = stream.events

    def wait(self, stream: Stream) -> None:
        stream.waits_for.append(self)


def test_a_mark_is_made_once_until_there_is_more_to_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(streams, "_Event", Numbered)
    monkeypatch.setattr(streams, "set_stream", lambda *_: None)
    monkeypatch.setattr(streams, "_current_stream", lambda _: (0, 0, 0))
    queue = streams.Streams(torch.device("cpu"))
    assert [queue.mark().number, queue.mark().number] == [1, 1]
    queue.wait_for(other := Numbered())  # a mark after it stands for that too
    assert [queue.mark().number, queue.mark().number] == [2, 2] and queue.work.waits_for == [other]
    with streams.QueueScope(queue):
        assert queue.mark().number == 3
    scopes = streams.QueueScopes([queue])
    with scopes:
        scopes.on(0)
        assert [queue.mark().number, queue.mark().number] == [4, 4]
        scopes.on(0)
        assert queue.mark().number == 5
