# SPDX-License-Identifier: Apache-2.0
"""Calls that pipelines make again on a card whose queues only launch work: the same work in the same order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.pipeline.programs import host, pipeline, random_inputs, relu, same, to_torch
from tt_cnn.pipeline.executors import (
    Executor,
    MultiCQTracedModelOverlappedInputExecutor,
    MultiCQTracedModelPipelinedIOExecutor,
    TracedModelExecutor,
)
from tt_cnn.virtual.engines import Engine, creation
from tt_cnn.virtual.errors.card_error import HazardError

TRACED = [TracedModelExecutor, MultiCQTracedModelOverlappedInputExecutor, MultiCQTracedModelPipelinedIOExecutor]


class Scopes:
    """Entered once; says whose queue the work is for."""

    def __init__(self, log: list[tuple[Any, ...]]) -> None:
        self._log = log
        self.entered = 0

    def __enter__(self) -> None:
        self.entered += 1

    def on(self, queue: int) -> None:
        self._log.append(("on", queue))

    def __exit__(self, *error: Any) -> None:
        self.entered -= 1


class Launching(Engine):
    """Notes what is asked of it, in order."""

    streams = True

    def __init__(self, numerics: str) -> None:
        super().__init__(numerics)
        self.log: list[tuple[Any, ...]] = []
        self.scopes = Scopes(self.log)

    def scope(self, queue: int) -> Any:
        self.log.append(("on", queue))
        return super().scope(queue)

    def scope_of_all(self) -> Any:
        return self.scopes

    def mark(self, queue: int) -> Any:
        self.log.append(("mark", queue))
        return None

    def after(self, mark: Any, queue: int) -> None:
        self.log.append(("after", queue))

    def upload(self, value: torch.Tensor) -> torch.Tensor:
        self.log.append(("upload", float(value.sum())))
        return value

    def download(self, value: torch.Tensor) -> torch.Tensor:
        self.log.append(("download", float(value.sum())))
        return value


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch, open_card: Callable[..., Any]) -> Any:
    monkeypatch.setitem(creation.ENGINES, "launching", Launching)
    return open_card(engine="launching", num_command_queues=2, hazards="raise")


def streamed(card: Any, executor: type[Executor], again: bool) -> tuple[list[torch.Tensor], list[tuple[Any, ...]], int]:
    """Outputs, what the engine was asked for meanwhile, and how often the calls were made again."""
    inputs = random_inputs(6)
    with pipeline(executor, relu, card) as pipe:
        pipe.compile(host(inputs[0]))
        if not again:
            pipe.executor.again = None
        made, entered = 0, Scopes.__enter__
        card.engine.log.clear()

        def counted(scopes: Scopes) -> None:
            nonlocal made
            made += 1
            entered(scopes)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Scopes, "__enter__", counted)
            outputs = [to_torch(one) for one in pipe.stream([host(x) for x in inputs])]
        return outputs, list(card.engine.log), made


@pytest.mark.parametrize("executor", TRACED)
def test_the_same_work_in_the_same_order(card: Any, executor: type[Executor]) -> None:
    ordinary, expected, none = streamed(card, executor, again=False)
    outputs, found, made = streamed(card, executor, again=True)
    assert (none, made) == (0, 6) and card.engine.scopes.entered == 0
    assert found == expected and ("mark", 0) in found
    assert same(outputs, ordinary) and same(outputs, [torch.relu(x) for x in random_inputs(6)])


def test_who_looks_at_commands_gets_the_calls_themselves(card: Any) -> None:
    inputs, names = random_inputs(3), []
    with pipeline(MultiCQTracedModelOverlappedInputExecutor, relu, card) as pipe:
        pipe.compile(host(inputs[0]))
        assert pipe.executor.again.usable
        with card.record_commands() as commands:
            assert not pipe.executor.again.usable
            outputs = pipe.enqueue([host(x) for x in inputs]).pop_all()
            names = [command.name for command in commands]
        assert same([to_torch(o) for o in outputs], [torch.relu(x) for x in inputs])
    assert len(names) == 12 and names[0] == "ttnn.copy_host_to_device_tensor"


def test_a_missing_wait_is_a_hazard_as_ever(card: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs, executor = random_inputs(3), MultiCQTracedModelOverlappedInputExecutor
    with pipeline(executor, relu, card) as pipe:
        pipe.compile(host(inputs[0]))
        pipe.enqueue([host(inputs[0])]).pop_all()
        monkeypatch.setattr(executor, "wait", lambda *_: None)
        assert pipe.executor.again.usable
        with pytest.raises(HazardError, match="nothing orders the two"):
            pipe.enqueue([host(x) for x in inputs])


def test_a_failed_write_fails_what_comes_after_it(card: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = random_inputs(2)
    with pipeline(MultiCQTracedModelOverlappedInputExecutor, relu, card) as pipe:
        pipe.compile(host(inputs[0]))

        def broken(_: torch.Tensor) -> torch.Tensor:
            raise MemoryError("no room on the host")

        with monkeypatch.context() as patch:
            patch.setattr(card.engine, "upload", broken)
            (output,) = pipe.enqueue([host(inputs[0])]).pop_all()
        with pytest.raises(MemoryError, match="copy_host_to_device_tensor on queue 1 failed"):
            to_torch(output)
        (output,) = pipe.enqueue([host(inputs[1])]).pop_all()
        assert same(to_torch(output), torch.relu(inputs[1]))
