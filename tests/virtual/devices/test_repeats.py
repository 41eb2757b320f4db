# SPDX-License-Identifier: Apache-2.0
"""Calls on the same tensors again: one command, as long as it would be planned and placed the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tt_cnn import ttnn


@pytest.fixture
def card(open_card: Callable[..., Any]) -> Any:
    return open_card()


def staged(card: Any) -> tuple[Any, Any, Callable[[float], float]]:
    """Two tensors, and a call that writes a number into the one and moves it to the other."""
    host = ttnn.from_torch(torch.zeros(1, 1, 64, 64), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT)
    source = ttnn.to_device(host, card, ttnn.DRAM_MEMORY_CONFIG)
    target = ttnn.to_memory_config(source, ttnn.L1_MEMORY_CONFIG)

    def move(value: float) -> float:
        filled = ttnn.from_torch(torch.full((1, 1, 64, 64), value), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT)
        ttnn.copy_host_to_device_tensor(filled, source)
        ttnn.to_memory_config(source, ttnn.L1_MEMORY_CONFIG, output_tensor=target)
        return float(ttnn.to_torch(target).float().unique())

    return source, target, move


def plans_made(card: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    from tt_cnn.virtual.ops import operation

    made, make_plan = [], operation.make_plan

    def noted(device: Any, op: Any, *rest: Any) -> Any:
        made.append(op.name)
        return make_plan(device, op, *rest)

    monkeypatch.setattr(operation, "make_plan", noted)
    return made


def test_the_same_call_is_planned_once_and_runs_every_time(card: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, move = staged(card)
    made = plans_made(card, monkeypatch)
    assert [move(value) for value in (1.0, 2.0, 3.0)] == [1.0, 2.0, 3.0]
    assert made == ["to_memory_config"] * len(made) and len(made) <= 2  # the first call built the program


def test_other_memory_means_another_placement(card: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    source, _, move = staged(card)
    move(1.0), move(2.0)
    made = plans_made(card, monkeypatch)
    kept = ttnn.to_memory_config(source, ttnn.L1_MEMORY_CONFIG)
    assert move(3.0) == 3.0 and len(made) == 2
    ttnn.deallocate(kept)
    assert move(4.0) == 4.0 and len(made) == 3
    card.disable_and_clear_program_cache()
    assert move(5.0) == 5.0 and len(made) == 4


def test_every_command_is_told_to_those_who_listen(card: Any) -> None:
    _, _, move = staged(card)
    move(1.0), move(2.0)
    with card.record_commands() as commands:
        move(3.0), move(4.0)
    moves = [command for command in commands if command.name == "ttnn.to_memory_config"]
    assert len(moves) == 2 and moves[0] is not moves[1]
