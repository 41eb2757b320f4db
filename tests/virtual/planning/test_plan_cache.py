# SPDX-License-Identifier: Apache-2.0
"""Plans and placements that come again: the same as if nothing had been kept."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

from tests.virtual.networks.noting import PlanOnlyCard
from tt_cnn.virtual import ttnn
from tt_cnn.virtual.ops import operation

CALLS, PASSES = 40, 6


class Forgetful(PlanOnlyCard):
    """Keeps neither plans nor placements."""

    def __init__(self) -> None:
        super().__init__()
        self.plans.limit = 0
        self.placements.LIMIT = 0  # type: ignore[misc]

    def placement_key(self, *_: Any) -> None:
        return None


def addresses(card: PlanOnlyCard, seed: int) -> list[Any]:
    """Of what calls give, with all blocks of memory after each of them: the same calls by chance, again and again."""
    weight, bias = ttnn.from_torch(torch.zeros(32, 16, 3, 3)), ttnn.from_torch(torch.zeros(1, 1, 1, 32))
    found: list[Any] = []
    for number in range(PASSES):
        draw, live = random.Random(seed), list[Any]()
        for _ in range(CALLS):
            memory = draw.choice([ttnn.L1_MEMORY_CONFIG, ttnn.DRAM_MEMORY_CONFIG])
            what = draw.choice(["new", "relu", "conv", "move", "drop", "drop", "clear"])
            if what == "new" or not live:
                rows = draw.choice([256, 1024])
                spec = ttnn.TensorSpec((1, 1, rows, 16), ttnn.bfloat16, ttnn.TILE_LAYOUT, memory.buffer_type)
                live.append(ttnn.allocate_tensor_on_device(spec, card))
            elif what == "drop":
                live.pop(draw.randrange(len(live))).deallocate()
                live = [x for x in live if x.is_allocated()]  # a move to where it is gives the same tensor
            elif what == "clear":
                if number == PASSES // 2:
                    card.clear_program_cache()
            else:
                live.append(called(what, draw.choice(live), weight, bias, card, memory))
            found.append([x.buffer_address() for x in live])
            found.append([card.memory_view(kind).block_table for kind in card.memory.regions])
        for x in live:
            x.deallocate()
    return found


def called(what: str, x: Any, weight: Any, bias: Any, card: PlanOnlyCard, memory: Any) -> Any:
    if what == "relu":
        return ttnn.relu(x, memory_config=memory)
    if what == "move":
        return ttnn.to_memory_config(x, memory)
    side = 16 if x.shape[2] == 256 else 32
    if x.shape[3] != 16:
        return ttnn.relu(x)
    return ttnn.conv2d(
        input_tensor=x,
        weight_tensor=weight,
        bias_tensor=bias,
        device=card,
        in_channels=16,
        out_channels=32,
        batch_size=1,
        input_height=side,
        input_width=side,
        kernel_size=(3, 3),
        padding=(1, 1),
    )


@pytest.mark.parametrize("seed", range(1, 5))
def test_kept_placements_are_those_that_would_be_made_again(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    card = PlanOnlyCard()
    again: list[Any] = []
    place_again = card.place_again
    monkeypatch.setattr(card, "place_again", lambda *a: again.append(a) or place_again(*a))
    assert addresses(card, seed) == addresses(Forgetful(), seed)
    assert again


def test_a_plan_that_never_asked_for_the_memory_serves_in_any(monkeypatch: pytest.MonkeyPatch) -> None:
    card = PlanOnlyCard()
    made: list[str] = []
    plan_call = operation.plan_call
    monkeypatch.setattr(operation, "plan_call", lambda c, op, *rest: made.append(op.name) or plan_call(c, op, *rest))
    spec = ttnn.TensorSpec((1, 1, 64, 64), ttnn.bfloat16, ttnn.TILE_LAYOUT, ttnn.BufferType.L1)
    kept = [ttnn.relu(ttnn.allocate_tensor_on_device(spec, card)) for _ in range(3)]
    assert made == ["relu"] and len({t.buffer_address() for t in kept}) == 3


def advice(error: Exception) -> str:
    """What stands after TT-NN's sentence, which has the program's number."""
    return str(error).partition("\n")[2]


def test_advice_is_about_the_memory_that_the_call_found() -> None:
    """And says the same when it is read after memory was given back."""
    card = PlanOnlyCard()
    room = card.memory.regions[ttnn.BufferType.L1].size
    rows = room * card.card.cores // 2048 // 32 * 32
    spec = ttnn.TensorSpec((1, 1, rows // 3, 1024), ttnn.bfloat16, ttnn.TILE_LAYOUT, ttnn.BufferType.L1)
    first, second = (ttnn.allocate_tensor_on_device(spec, card) for _ in range(2))
    errors = []
    for _ in range(2):
        with pytest.raises(RuntimeError) as caught:
            ttnn.relu(first, memory_config=ttnn.L1_MEMORY_CONFIG)
        errors.append(caught.value)
    at_once = advice(errors[0])
    second.deallocate()
    assert "held by" in at_once and "DRAM" in at_once
    assert advice(errors[1]) == at_once
