# SPDX-License-Identifier: Apache-2.0
"""Readers, compute kernels and writers in a row, beside published times of single calls (microseconds)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.virtual.cost.layers import only, steps_of
from tests.virtual.networks.noting import PlanOnlyCard
from tt_cnn.virtual import ttnn
from tt_cnn.virtual.arch import CARDS
from tt_cnn.virtual.cost.figures import figures_of
from tt_cnn.virtual.cost.kernel import kernel_cost
from tt_cnn.virtual.cost.pipeline import Block, Pages, Share, crowded_cycles, pipeline_cycles, reading_cycles
from tt_cnn.virtual.types.tensor_spec import Spec

ROWS, TILES = ttnn.ROW_MAJOR_LAYOUT, ttnn.TILE_LAYOUT
DRAM, L1 = ttnn.DRAM_MEMORY_CONFIG, ttnn.L1_MEMORY_CONFIG


def tensor(device: Any, shape: list[int], memory: Any = DRAM, layout: Any = TILES, dtype: Any = ttnn.bfloat16) -> Any:
    return ttnn.empty(shape, dtype, layout, device=device, memory_config=memory)


@pytest.mark.parametrize(
    ("op", "call", "microseconds"),
    [
        ("Unary", lambda d: ttnn.relu(tensor(d, [1, 1, 25600, 128])), 72.2),
        ("Unary", lambda d: ttnn.relu(tensor(d, [1, 1, 6400, 512], L1), memory_config=L1), 39.3),
        ("Unary", lambda d: ttnn.exp(tensor(d, [89, 128, 896])), 327.7),
        ("BinaryNg", lambda d: ttnn.add(tensor(d, [1, 1, 6400, 512]), tensor(d, [1, 1, 6400, 512])), 110.8),
        ("BinaryNg", lambda d: ttnn.add(tensor(d, [1, 1, 25600, 256]), tensor(d, [1, 1, 1, 256])), 218.0),
        ("Typecast", lambda d: ttnn.typecast(tensor(d, [64, 8, 32, 128], dtype=ttnn.float32), ttnn.bfloat16), 66.0),
        ("Clone", lambda d: ttnn.clone(tensor(d, [1, 1, 6400, 512])), 64.8),
        ("Tilize", lambda d: ttnn.tilize(tensor(d, [1, 1, 1600, 512], layout=ROWS)), 20.6),
        ("Tilize", lambda d: ttnn.tilize(tensor(d, [1, 1, 256, 1024], layout=ROWS, dtype=ttnn.float32)), 61.0),
        ("Tilize", lambda d: ttnn.tilize(tensor(d, [1, 1, 32, 4096], layout=ROWS)), 16.2),
        ("Transpose", lambda d: ttnn.transpose(tensor(d, [32, 5, 32, 128]), 1, 2), 102.3),
    ],
)
def test_streams_on_wormhole_take_what_was_published(op: str, call: Callable[[Any], Any], microseconds: float) -> None:
    device = PlanOnlyCard("n150")
    found = kernel_cost(only(steps_of(device, lambda: call(device)), op), device.card)
    assert found.ns / 1e3 == pytest.approx(microseconds, rel=0.2)


def page(shape: list[int], memory: Any = DRAM) -> Spec:
    return Spec(ttnn.Shape(shape), ttnn.bfloat16, TILES, memory)


def test_a_pipeline_fills_and_drains() -> None:
    """One block passes reader, compute kernel and writer one after the other; many take the slowest's time each."""
    figures = figures_of(CARDS["n150"])
    tiles = page([64, 64])
    block = Block([Pages(tiles, 1, 2048)], [Pages(tiles, 1, 2048)], compute=5000)
    one, many = (pipeline_cycles(figures, Share.each(n, 1), block).total for n in (1, 101))
    assert many - one == pytest.approx(100 * 5000)
    assert one > 5000 + figures.dram_latency_cycles + figures.dram_write_latency_cycles


def test_a_reader_that_waits_for_each_page_is_slower() -> None:
    figures = figures_of(CARDS["n150"])
    tiles = page([64, 64])
    together, apart = (reading_cycles(figures, Block([Pages(tiles, 32, 64, wait)])) for wait in (32, 1))
    assert apart - together == pytest.approx(31 * (figures.dram_latency_cycles + figures.handover_cycles))


def test_many_cores_crowd_the_banks() -> None:
    """Small pages use a bank longer than their bytes take."""
    figures = figures_of(CARDS["n150"])
    tiles = page([64, 64])
    large, small = (Block([Pages(tiles, number, 2048 / number)]) for number in (1, 32))
    assert crowded_cycles(figures, small, 64)[0] > 8 * crowded_cycles(figures, large, 64)[0]
    assert crowded_cycles(figures, large, 64)[0] == 64 * crowded_cycles(figures, large, 1)[0]


def test_cores_without_a_block_do_not_count() -> None:
    assert Share.of(10, 64) == Share(1, 10, 1.0)
    assert Share.of(80, 64) == Share(2, 64, 1.25)
    assert pipeline_cycles(figures_of(CARDS["n150"]), Share.of(0, 64), Block(compute=1)).total == 0
