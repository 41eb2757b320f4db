# SPDX-License-Identifier: Apache-2.0
"""Pages and sticks that are moved and waited for once, beside published times of single calls (microseconds)."""

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
from tt_cnn.virtual.cost.streams import crowd_cycles, stream_cycles
from tt_cnn.virtual.ops.shape.slice.program import Box, unevenness
from tt_cnn.virtual.ops.sliding_window.boundaries import shard_boundaries
from tt_cnn.virtual.ops.sliding_window.tables import gathering
from tt_cnn.virtual.ops.sliding_window.time import ZEROS_BYTES, filling_cycles
from tt_cnn.virtual.ops.sliding_window.window import SlidingWindow
from tt_cnn.virtual.types.tensor_spec import Spec

ROWS, TILES = ttnn.ROW_MAJOR_LAYOUT, ttnn.TILE_LAYOUT
DRAM, L1 = ttnn.DRAM_MEMORY_CONFIG, ttnn.L1_MEMORY_CONFIG
HEIGHT, WIDTH = ttnn.ShardStrategy.HEIGHT, ttnn.ShardStrategy.WIDTH


def tensor(device: Any, shape: list[int], memory: Any = DRAM, layout: Any = TILES) -> Any:
    return ttnn.empty(shape, ttnn.bfloat16, layout, device=device, memory_config=memory)


def shards(shape: list[int], grid: tuple[int, int], strategy: Any = HEIGHT) -> Any:
    return ttnn.create_sharded_memory_config(shape, ttnn.CoreGrid(x=grid[0], y=grid[1]), strategy)


def to_shards(device: Any, shape: list[int], grid: tuple[int, int], memory: Any = DRAM, strategy: Any = HEIGHT) -> Any:
    return ttnn.interleaved_to_sharded(tensor(device, shape, memory), shards(shape, grid, strategy))


def from_shards(device: Any, shape: list[int], grid: tuple[int, int], memory: Any = DRAM, layout: Any = TILES) -> Any:
    return ttnn.sharded_to_interleaved(tensor(device, shape, shards(shape, grid), layout), memory)


@pytest.mark.parametrize(
    ("card", "op", "call", "microseconds"),
    [
        ("n150", "InterleavedToSharded", lambda d: to_shards(d, [1, 1, 102400, 32], (8, 8)), 31.9),
        ("n150", "InterleavedToSharded", lambda d: to_shards(d, [1, 1, 102400, 64], (8, 8)), 62.2),
        ("n150", "InterleavedToSharded", lambda d: to_shards(d, [1, 1, 32, 4096], (8, 4), strategy=WIDTH), 2.13),
        ("p150", "InterleavedToSharded", lambda d: to_shards(d, [1, 1, 32, 16384], (8, 1), strategy=WIDTH), 3.54),
        ("n150", "ShardedToInterleaved", lambda d: from_shards(d, [1, 1, 102400, 32], (8, 8)), 47.5),
        ("n150", "ShardedToInterleaved", lambda d: from_shards(d, [1, 1, 25600, 64], (8, 8), layout=ROWS), 34.8),
        ("n150", "Slice", lambda d: ttnn.slice(tensor(d, [32, 32, 4, 128]), [0] * 4, [32, 32, 4, 64]), 64.2),
        ("n150", "Slice", lambda d: ttnn.slice(tensor(d, [1, 32, 1, 6144]), [0] * 4, [1, 32, 1, 4096]), 92.7),
        ("p150", "Slice", lambda d: ttnn.slice(tensor(d, [1, 1, 128, 16384]), [0] * 4, [1, 1, 128, 8192]), 11.5),
        ("n150", "Concat", lambda d: ttnn.concat([tensor(d, [1, 1, 1600, 256], L1)] * 2, 3), 10.8),
        ("p150", "Concat", lambda d: ttnn.concat([tensor(d, [1, 32, 8192, 64]), tensor(d, [1, 32, 8192, 64])], 3), 345),
        (
            "n150",
            "ConvertToCHW",
            lambda d: ttnn.experimental.convert_to_chw(
                tensor(d, [1, 1, 131072, 32], shards([1, 1, 131072, 32], (8, 8)))
            ),
            38.1,
        ),
    ],
)
def test_streams_take_what_was_published(card: str, op: str, call: Callable[[Any], Any], microseconds: float) -> None:
    device = PlanOnlyCard(card)
    found = kernel_cost(only(steps_of(device, lambda: call(device)), op), device.card)
    assert found.ns / 1e3 == pytest.approx(microseconds, rel=0.25)


def test_sticks_of_block_floats_are_in_the_format_of_the_output() -> None:
    device = PlanOnlyCard("n150")
    where = shards([1, 1, 131072, 32], (8, 8))

    def nanoseconds(dtype: Any) -> float:
        x = ttnn.typecast(tensor(device, [1, 1, 131072, 32], where), dtype)
        steps = steps_of(device, lambda: ttnn.experimental.convert_to_chw(x, dtype=ttnn.bfloat16))
        return kernel_cost(only(steps, "ConvertToCHW"), device.card).ns

    assert 0 < nanoseconds(ttnn.bfloat8_b) <= nanoseconds(ttnn.bfloat16)


def test_a_core_alone_issues_and_many_crowd_the_banks() -> None:
    figures = figures_of(CARDS["n150"])
    spec = Spec(ttnn.Shape([1, 1, 3200, 1024]), ttnn.bfloat16, TILES, DRAM)
    alone, crowded = (stream_cycles(figures, spec, 50, 2048, pages, read=True) for pages in (50, 3200))
    assert alone < 0.2 * crowded
    assert crowded == pytest.approx(figures.dram_latency_cycles + 3200 * 2048 / figures.dram_read_bytes_per_cycle)


def test_small_writes_keep_a_bank_busy() -> None:
    figures = figures_of(CARDS["n150"])
    spec = Spec(ttnn.Shape([1, 1, 25600, 64]), ttnn.bfloat16, ROWS, DRAM)
    small, smaller = (crowd_cycles(figures, spec, 25600, size, read=False) for size in (128, 64))
    assert small == smaller


@pytest.mark.parametrize(
    ("ends", "padded", "banks", "expected"),
    [
        ((32, 32, 32, 64), (32, 32, 32, 128), 12, 2.0),  # two of four tiles: half of the banks
        ((32, 32, 32, 64), (32, 32, 32, 128), 7, 1.0),
        ((1, 32, 32, 1024), (1, 32, 32, 6144), 12, 1.125),  # 32 tiles from the same bank on in every row
        ((1, 1, 32, 32), (1, 1, 32, 64), 12, 1.0),
    ],
)
def test_slices_leave_banks_idle(ends: tuple[int, ...], padded: tuple[int, ...], banks: int, expected: float) -> None:
    assert unevenness(Box((0,) * 4, ends, (1,) * 4), padded, banks) == pytest.approx(expected, rel=0.01)


def test_padding_is_dealt_to_both_processors_of_a_core() -> None:
    """Every stick of padding is filled by one of a core's processors; the first half of its runs by the first."""
    window = SlidingWindow(1, (6, 6), (3, 3), (1, 1), (1, 1, 1, 1))
    bounds = shard_boundaries(window, 3, False)
    work = gathering(window, 3, bounds.most_sticks, 12, tiled=False)
    padded = {y * 8 + x for y in range(8) for x in range(8) if y in (0, 7) or x in (0, 7)}
    for core in range(3):
        own = range(int(bounds.input_start[core]), int(bounds.input_end[core]) + 1)
        runs = [0]
        for stick in own:
            runs[-1] += stick in padded
            if stick not in padded and runs[-1]:
                runs.append(0)
        runs = [run for run in runs if run]
        for processor, half in enumerate((runs[: len(runs) // 2], runs[len(runs) // 2 :])):
            dealt = work.pads[1][work.pads[0] == 2 * core + processor]
            assert dealt.tolist() == half


def test_padding_that_is_not_zero_is_copied_stick_by_stick() -> None:
    """A max pool of 159x159 pixels and 32 channels: the first core's second processor fills the row above the image,
    162 sticks, where eight sticks of zeros are one read."""
    figures = figures_of(CARDS["p150"])
    window = SlidingWindow(1, (159, 159), (3, 3), (1, 1), (1, 1, 1, 1))
    work = gathering(window, 20, 1605, 1280, tiled=False)
    zeros, others = (filling_cycles(work, 64, piece, figures).max() for piece in (ZEROS_BYTES, 64))
    assert others > 162 * figures.local_issue_cycles > 4 * zeros


def test_a_halo_sends_a_row_to_either_side() -> None:
    """320 pixels a row, five rows a core: each core's neighbours get a row of it."""
    window = SlidingWindow(1, (320, 320), (3, 3), (1, 1), (1, 1, 1, 1))
    work = gathering(window, 64, 2254, 1600, tiled=True)
    assert work.remote_sticks == 63 * 2 * 320
    assert work.transfers.max() == 35  # of one processor: 25 blocks of its own, ten for others
    assert work.sticks.max() == 35 * 32
