# SPDX-License-Identifier: Apache-2.0
"""Streams, threads and numbers of a pipeline."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from tests.pipeline.programs import (
    DEVICE,
    EXECUTORS,
    host,
    identity,
    pipeline,
    random_inputs,
    relu,
    same,
    to_torch,
)
from tt_cnn.pipeline import (
    ModelExecutor,
    MultiCQTracedModelOverlappedInputExecutor,
    MultiCQTracedModelPipelinedIOExecutor,
    Pipeline,
    TracedModelExecutor,
    work,
)
from tt_cnn.pipeline.executors.timing import Timing, time_verbs
from tt_cnn.pipeline.statistics import PipelineStats, StatsBook
from tt_cnn.virtual.engines.creation import ENGINES
from tt_cnn.virtual.engines.engine import Engine


@pytest.fixture
def device(open_card: Callable[..., Any]) -> Any:
    return open_card(**DEVICE)


@pytest.fixture(params=EXECUTORS)
def pipe(device: Any, request: pytest.FixtureRequest) -> Iterator[Pipeline]:
    """Compiled, for each executor."""
    with pipeline(request.param, relu, device) as made:
        yield made.compile(host(random_inputs(1)[0]))


# --- streams -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_flight", [1, 2, 3, 7])
def test_a_stream_gives_outputs_in_order_while_inputs_arrive(pipe: Pipeline, in_flight: int) -> None:
    values = random_inputs(20)
    taken: list[int] = []

    def arriving() -> Iterator[Any]:
        for i, x in enumerate(values):
            taken.append(i)
            yield host(x)

    outputs: list[torch.Tensor] = []
    for output in pipe.stream(arriving(), in_flight=in_flight):
        assert len(taken) <= len(outputs) + in_flight
        outputs.append(to_torch(output))
    assert same(outputs, [torch.relu(x) for x in values])
    assert taken == list(range(20))
    assert pipe.pop_all() == []


def test_a_stream_keeps_no_more_than_what_is_in_flight(pipe: Pipeline) -> None:
    alive: weakref.WeakSet[Any] = weakref.WeakSet()

    def arriving() -> Iterator[Any]:
        for x in random_inputs(60):
            made = host(x)
            alive.add(made)
            yield made

    most = 0
    for output in pipe.stream(arriving(), in_flight=2):
        alive.add(output)
        most = max(most, len(alive))
        del output
    assert most <= 8  # inputs and outputs in flight, those in the hands of the loops, and what queues still hold


def test_a_consumer_may_stop_early(device: Any, pipe: Pipeline) -> None:
    values = random_inputs(12)
    stopped: list[bool] = []

    def arriving() -> Iterator[Any]:
        try:
            for x in values:
                yield host(x)
        finally:
            stopped.append(True)

    for i, output in enumerate(pipe.stream(arriving())):
        assert same(to_torch(output), torch.relu(values[i]))
        if i == 3:
            break
    gc.collect()
    assert stopped
    assert all(not queue.pending for queue in device.queues)
    again = [to_torch(o) for o in pipe.stream([host(x) for x in values])]
    assert same(again, [torch.relu(x) for x in values])
    batch = pipe.enqueue([host(x) for x in values]).pop_all()
    assert same([to_torch(o) for o in batch], [torch.relu(x) for x in values])
    assert pipe.stats().inputs == 4 + 12 + 12


def test_a_producer_that_fails_ends_the_stream(pipe: Pipeline) -> None:
    values = random_inputs(5)

    def arriving() -> Iterator[Any]:
        for x in values:
            yield host(x)
        raise OSError("the camera is gone")

    outputs = []
    with pytest.raises(OSError, match="the camera is gone"):
        for output in pipe.stream(arriving()):
            outputs.append(to_torch(output))
    assert same(outputs, [torch.relu(x) for x in values[: len(outputs)]])
    assert len(pipe.enqueue([host(x) for x in values]).pop_all()) == 5


def test_a_stream_has_the_pipeline_for_itself(pipe: Pipeline) -> None:
    inputs = [host(x) for x in random_inputs(5)]
    stream = pipe.stream(inputs)
    next(stream)
    with pytest.raises(RuntimeError, match="enqueue was called inside a stream"):
        pipe.enqueue(inputs)
    with pytest.raises(RuntimeError, match="stream was called inside a stream"):
        next(pipe.stream(inputs))
    stream.close()  # type: ignore[attr-defined]
    assert len(pipe.enqueue(inputs).pop_all()) == 5


def test_cleanup_ends_a_stream(pipe: Pipeline) -> None:
    stream = pipe.stream([host(x) for x in random_inputs(9)])
    next(stream)
    pipe.cleanup()
    with pytest.raises(RuntimeError, match="The pipeline was cleaned up; stream needs a new one"):
        list(stream)
    assert pipe.stats().wall == pipe.stats().wall  # the clock stands


def test_bad_widths_of_a_stream(pipe: Pipeline) -> None:
    with pytest.raises(ValueError, match="in_flight is 0; it must be 1 or more"):
        pipe.stream([], in_flight=0)
    assert list(pipe.stream([])) == []


def test_progress_bars(pipe: Pipeline, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    inputs = [host(x) for x in random_inputs(4)]
    assert len(list(pipe.stream(inputs, progress=True))) == 4
    assert len(list(pipe.stream(iter(inputs), progress=True))) == 4
    assert "streaming" in capsys.readouterr().err
    assert len(pipe.enqueue(inputs).pop_all(progress=True)) == 4
    assert "reading outputs" in capsys.readouterr().err


# --- threads -----------------------------------------------------------------------------------------------------


def _in_threads(*jobs: Callable[[], None]) -> None:
    errors: list[BaseException] = []

    def guarded(job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert not errors, errors


def test_threads_get_their_own_outputs(pipe: Pipeline) -> None:
    def batches(seed: int) -> Callable[[], None]:
        def job() -> None:
            for turn in range(5):
                values = random_inputs(4, seed=100 * seed + turn)
                outputs = pipe.enqueue([host(x) for x in values]).pop_all()
                assert same([to_torch(o) for o in outputs], [torch.relu(x) for x in values])

        return job

    def streaming() -> None:
        values = random_inputs(15, seed=7)
        outputs = [to_torch(o) for o in pipe.stream([host(x) for x in values])]
        assert same(outputs, [torch.relu(x) for x in values])

    _in_threads(batches(1), batches(2), streaming, batches(3), streaming)
    assert pipe.stats().inputs == 3 * 5 * 4 + 2 * 15


def test_one_thread_may_pop_what_another_enqueued(pipe: Pipeline) -> None:
    values = random_inputs(4)
    _in_threads(lambda: pipe.enqueue([host(x) for x in values]) and None)
    assert same([to_torch(o) for o in pipe.pop_all()], [torch.relu(x) for x in values])


def test_a_thread_that_waits_for_a_stream_learns_of_the_end(pipe: Pipeline) -> None:
    stream = pipe.stream([host(x) for x in random_inputs(5)])
    next(stream)
    seen: list[str] = []

    def waiting() -> None:
        try:
            pipe.enqueue([host(x) for x in random_inputs(2)])
        except RuntimeError as error:
            seen.append(str(error))

    thread = threading.Thread(target=waiting)
    thread.start()
    time.sleep(0.05)
    pipe.cleanup()
    thread.join(10)
    assert seen == ["The pipeline was cleaned up; enqueue needs a new one."]


# --- numbers -----------------------------------------------------------------------------------------------------


def test_stats_count_what_went_through(pipe: Pipeline) -> None:
    assert pipe.stats().inputs == 0
    assert pipe.stats().fps == pipe.stats().wall == pipe.stats().latency_p99 == 0.0
    start = time.perf_counter()
    pipe.enqueue([host(x) for x in random_inputs(10)]).pop_all()
    list(pipe.stream([host(x) for x in random_inputs(10)]))
    elapsed = time.perf_counter() - start
    stats = pipe.stats()
    assert stats.inputs == 20
    assert 0 < stats.wall <= elapsed
    assert stats.fps == pytest.approx(20 / stats.wall)
    assert 0 < stats.latency_median <= stats.latency_p99 <= elapsed
    assert 0 < stats.transfer < elapsed and 0 < stats.compute < elapsed
    assert 0 <= stats.overlapped <= min(stats.transfer, stats.compute)
    assert str(stats).startswith("20 inputs in ")
    time.sleep(0.02)
    assert pipe.stats().wall == stats.wall  # idle time does not count
    pipe.cleanup()
    assert pipe.stats() == stats


def test_latencies_are_those_that_the_consumer_sees(device: Any) -> None:
    with pipeline(ModelExecutor, identity, device) as pipe:
        pipe.compile(host(random_inputs(1)[0]))
        for output in pipe.stream([host(x) for x in random_inputs(5)], in_flight=1):
            assert output is not None
            time.sleep(0.1)  # after it was delivered, so not part of its latency
        assert pipe.stats().latency_median < 0.1


class SlowEngine(Engine):
    """Writes and reads that take a while and leave the CPU alone."""

    seconds_each = 0.01

    def upload(self, host: torch.Tensor) -> torch.Tensor:
        time.sleep(self.seconds_each)
        return host

    download = upload


def test_transfers_and_their_overlap_are_measured(
    open_card: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ENGINES, "slow", SlowEngine)
    device = open_card(engine="slow", **DEVICE)
    for executor in (TracedModelExecutor, MultiCQTracedModelPipelinedIOExecutor):
        with pipeline(executor, identity, device) as pipe:
            pipe.compile(host(random_inputs(1)[0]))
            pipe.enqueue([host(x) for x in random_inputs(5)]).pop_all()
            stats = pipe.stats()
            assert 0.1 <= stats.transfer <= stats.wall + 0.05
            assert 0 < stats.compute < stats.wall
            if executor is TracedModelExecutor:
                assert stats.overlapped == 0.0
            else:
                assert 0 < stats.overlapped <= stats.compute
        assert device.timers == []


def test_a_real_card_is_timed_verb_by_verb(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not tell when its commands ran: the overlap is what the verbs take alone beyond the wall time."""
    monkeypatch.setattr(work, "is_virtual", lambda: False)
    alone = Timing(write=0.2, compute=0.1, read=0.1)
    asked = []
    monkeypatch.setattr(work, "time_verbs", lambda *given: asked.append(given) or alone)
    with pipeline(MultiCQTracedModelOverlappedInputExecutor, identity, device) as pipe:
        sample = host(random_inputs(1)[0])
        pipe.compile(sample)
        assert asked == [(pipe.executor, sample)]
        pipe.enqueue([host(x) for x in random_inputs(10)]).pop_all()
        stats = pipe.stats()
        assert (stats.transfer, stats.compute) == (pytest.approx(3.0), pytest.approx(1.0))
        assert stats.overlapped == pytest.approx(1.0)
    slow = work.EstimatedWork(pipe.executor, sample)
    assert slow.work(10, wall=3.5).overlapped == pytest.approx(0.5)
    assert slow.work(10, wall=9.0).overlapped == slow.work(0, wall=0.0).overlapped == 0.0


def test_a_timing_that_fails_leaves_nothing_behind(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise RuntimeError("no clock")

    monkeypatch.setattr(work, "is_virtual", lambda: False)
    monkeypatch.setattr(work, "time_verbs", fails)
    pipe = pipeline(TracedModelExecutor, identity, device)
    with pytest.raises(RuntimeError, match="no clock"):
        pipe.compile(host(random_inputs(1)[0]))
    assert not device.traces and pipe.executor.dram_input is None


@pytest.mark.parametrize("executor", EXECUTORS, ids=lambda e: e.__name__)
def test_verbs_are_timed_alone(device: Any, executor: Any) -> None:
    with pipeline(executor, identity, device) as pipe:
        sample = host(random_inputs(1)[0])
        pipe.compile(sample)
        alone = time_verbs(pipe.executor, sample)
        assert min(alone) > 0 and alone.transfer == alone.write + alone.read


def test_an_endless_stream_does_not_fill_the_memory_with_latencies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StatsBook, "KEPT", 10)
    book = StatsBook()
    for age in (0.0,) * 20 + (100.0,) * 10:
        book.has_finished(book.handed_over() - age)
    assert book.finished == 30
    assert 100 <= book.summary(None).latency_median < 101  # of the last ten


@pytest.mark.parametrize(("inputs", "said"), [(0, "0 inputs in"), (1, "1 input in"), (2, "2 inputs in")])
def test_statistics_count_in_words(inputs: int, said: str) -> None:
    stats = PipelineStats(inputs, 1.0, float(inputs), 0.1, 0.2, 0.3, 0.4, 0.1)
    assert str(stats).startswith(f"{said} 1.000 s, ")
