# SPDX-License-Identifier: Apache-2.0
"""Single commands that fail in a stream: exactly the inputs that depend on them raise, all others are right."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from tests.pipeline.programs import DEVICE, EXECUTORS, TRACED, host, pipeline, random_inputs, to_torch
from tt_cnn import ttnn
from tt_cnn.pipeline import Executor, MultiCQTracedModelPipelinedIOExecutor, Pipeline
from tt_cnn.virtual.queues.queue import Command

INPUTS = 50


class Broken(Exception):
    """What the tests make commands raise."""


def model(x: Any) -> Any:
    return ttnn.multiply(ttnn.relu(x), 2.0)


def reference(x: torch.Tensor) -> torch.Tensor:
    return 2 * x.relu()


@pytest.fixture(params=["torch", "cpu"])
def device(request: pytest.FixtureRequest, open_card: Callable[..., Any]) -> Any:
    return open_card(**DEVICE, engine=request.param, numerics="native")


def outcomes(outputs: Iterator[Any]) -> list[torch.Tensor | str]:
    found: list[torch.Tensor | str] = []
    for output in outputs:
        try:
            found.append(to_torch(output))
        except Broken as error:
            found.append(str(error))
    return found


class Breaker:
    """Makes the commands with these numbers fail, counted from `start` on."""

    def __init__(self, device: Any) -> None:
        self._device, self._enqueue, self._execute = device, device.enqueue, device.execute_trace
        self.names: list[str] = []
        self.at: set[int] = set()
        device.enqueue, device.execute_trace = self.enqueue, self.execute_trace

    def start(self, at: set[int]) -> None:
        self.names, self.at = [], at

    def _wait(self, queue: int | None) -> None:
        ttnn.event_synchronize(ttnn.record_event(self._device, queue))

    def writes(self) -> list[int]:
        """The numbers of the commands that wrote inputs."""
        return [i for i, name in enumerate(self.names) if name in ("ttnn.to_device", "ttnn.copy_host_to_device_tensor")]

    def _broken(self, name: str) -> bool:
        self.names.append(name)
        return len(self.names) - 1 in self.at

    def enqueue(self, command: Command, wait: bool = False) -> int:
        if not self._broken(command.name):
            return int(self._enqueue(command, wait))
        self._wait(command.queue)  # the same command may be enqueued already
        kept, command.run = command.run, _broken
        try:
            return int(self._enqueue(command, wait))
        finally:
            self._wait(command.queue)
            command.run = kept  # the same command may be enqueued again

    def execute_trace(self, trace_id: Any, cq_id: int | None, blocking: bool) -> None:
        if not self._broken("replay"):
            return self._execute(trace_id, cq_id, blocking)
        trace = self._device.traces[int(trace_id)]
        last = trace.commands[-1]
        self._wait(cq_id)
        kept, last.run = last.run, _broken
        hosts = [part.run for part in getattr(trace.replay, "parts", ()) if hasattr(part.run, "host")]
        engines = [one.host for one in hosts]
        for one in hosts:
            one.host = _broken_engine
        try:
            self._execute(trace_id, cq_id, blocking)
            self._wait(cq_id)
        finally:
            last.run = kept
            for one, engine in zip(hosts, engines, strict=True):
                one.host = engine


def _broken() -> None:
    raise Broken("broken on purpose")


def _broken_engine(values: Any) -> Any:
    raise RuntimeError("no engine")


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_failed_command_of_a_stream_takes_exactly_its_own_input_with_it(
    device: Any, executor: type[Executor]
) -> None:
    inputs = random_inputs(INPUTS)
    expected = [reference(x) for x in inputs]
    hosts = [host(x) for x in inputs]
    with pipeline(executor, model, device) as pipe:
        pipe.compile(hosts[0])
        breaker = Breaker(device)
        breaker.start(set())
        assert all(isinstance(one, torch.Tensor) for one in outcomes(pipe.stream(hosts)))
        names = list(breaker.names)
        assert len(names) % INPUTS == 0
        each = len(names) // INPUTS
        assert "replay" in names or executor not in TRACED
        for number in [*range(each), *range(23 * each, 24 * each), *range(49 * each, 50 * each)]:
            breaker.start({number})
            found = outcomes(pipe.stream(hosts))
            failed = [i for i, one in enumerate(found) if isinstance(one, str)]
            assert len(found) == INPUTS and len(failed) == 1, (names[number], number, failed)
            assert abs(failed[0] - number // each) <= 1, "pipelined reads belong to the input before"
            for i, one in enumerate(found):
                assert isinstance(one, str) or torch.equal(one.float(), expected[i].float()), (names[number], i)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_batches_hold_the_error_in_the_output_that_failed(device: Any, executor: type[Executor]) -> None:
    inputs = random_inputs(6)
    with pipeline(executor, model, device) as pipe:
        pipe.compile(host(inputs[0]))
        breaker = Breaker(device)
        pipe.enqueue([host(x) for x in inputs]).pop_all()
        breaker.start({breaker.writes()[2]})
        outputs = pipe.enqueue([host(x) for x in inputs]).pop_all()
        for _ in range(2):
            found = outcomes(iter(outputs))
            assert [isinstance(one, str) for one in found] == [False, False, True, False, False, False]


def test_threads_that_share_a_pipeline_each_get_their_own_errors(device: Any) -> None:
    inputs = random_inputs(8)
    with pipeline(MultiCQTracedModelPipelinedIOExecutor, model, device) as pipe:
        pipe.compile(host(inputs[0]))
        breaker = Breaker(device)
        pipe.enqueue([host(x) for x in inputs]).pop_all()
        breaker.start({breaker.writes()[1]})
        found: dict[str, list[torch.Tensor | str]] = {}
        first_is_in = threading.Event()

        def work(name: str) -> None:
            if name == "second":
                first_is_in.wait()
            pipe.enqueue([host(x) for x in inputs[:4]])
            first_is_in.set()
            found[name] = outcomes(iter(pipe.pop_all()))

        threads = [threading.Thread(target=work, args=(name,)) for name in ("first", "second")]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    assert [isinstance(one, str) for one in found["first"]] == [False, True, False, False]
    for x, one in zip(inputs, found["second"], strict=False):
        assert isinstance(one, torch.Tensor) and torch.equal(one.float(), reference(x).float())


@pytest.mark.parametrize("preallocated", [False, True])
@pytest.mark.parametrize("executor", EXECUTORS)
def test_an_enqueue_that_raises_in_its_midst_hands_nothing_over(
    device: Any, executor: type[Executor], preallocated: bool
) -> None:
    inputs = random_inputs(4)
    with pipeline(executor, model, device) as pipe:
        pipe.compile(host(inputs[0]))
        if preallocated:
            pipe.preallocate_output_tensors_on_host(6)
        write, calls = pipe.executor.write, []

        def fails_at_the_third(*args: Any) -> None:
            calls.append(1)
            if len(calls) == 3:
                raise Broken("in the midst")
            write(*args)

        pipe.enqueue([host(x) for x in inputs[:2]])
        pipe.executor.write = fails_at_the_third  # type: ignore[method-assign]
        with pytest.raises(Broken):
            pipe.enqueue([host(x) for x in inputs])
        pipe.enqueue([host(x) for x in inputs])
        outputs = pipe.pop_all()
        expected = [*inputs[:2], *inputs]
        assert len(outputs) == 6
        for x, one in zip(expected, outputs, strict=True):
            assert torch.equal(to_torch(one).float(), reference(x).float())
        assert pipe.stats().inputs == 6


def test_the_end_of_a_stream_that_nobody_reads_still_tells_of_a_failure(device: Any) -> None:
    inputs = [host(x) for x in random_inputs(4)]
    pipe: Pipeline = pipeline(MultiCQTracedModelPipelinedIOExecutor, model, device)
    pipe.compile(inputs[0])
    Breaker(device).start({0})
    for _ in pipe.stream(inputs):
        pass
    with pytest.raises(Broken):
        pipe.cleanup()
