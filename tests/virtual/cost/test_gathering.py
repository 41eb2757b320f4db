# SPDX-License-Identifier: Apache-2.0
"""Programs between row shards, row by row: where each row comes from, and what that takes."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from tests.virtual.cost.layers import only, steps_of
from tests.virtual.networks.noting import PlanOnlyCard
from tt_cnn.virtual import ttnn
from tt_cnn.virtual.arch import CARDS
from tt_cnn.virtual.cost.figures import figures_of
from tt_cnn.virtual.cost.kernel import kernel_cost
from tt_cnn.virtual.ops.pool.time import _rows_in_one_part
from tt_cnn.virtual.ops.shape.gather_time import Gathered, boxed_rows, exchanged_rows
from tt_cnn.virtual.planning.plan import Step

FIGURES = figures_of(CARDS["n150"])


def counted(sources: list[int | None], source_height: int, output_height: int) -> Gathered:
    """Row by row, as the kernels go: `sources` are the source's rows, None for padding."""
    read, runs, filled = {}, {}, {}
    crossing, last = 0, None
    for place, row in enumerate(sources):
        core = place // output_height
        if row is None:
            filled[core] = filled.get(core, 0) + 1
            last = None
            continue
        read[core] = read.get(core, 0) + 1
        owner = row // source_height
        if last != (row - 1, core, owner):
            runs[core] = runs.get(core, 0) + 1
        last = row, core, owner
        crossing += owner != core
    return Gathered(*(max(found.values(), default=0) for found in (read, runs, filled)), crossing)


@pytest.mark.parametrize("begins", [(0, 0, 0, 0), (1, 0, 2, 0), (0, -1, -2, 0), (0, 2, 0, 0)])
@pytest.mark.parametrize("heights", [(6, 5), (12, 4), (4, 16)])
def test_rows_of_a_box_come_from_where_they_are(begins: tuple[int, ...], heights: tuple[int, int]) -> None:
    source, output = (2, 3, 8, 16), (1, 4, 5, 16)
    sources: list[int | None] = []
    for place in product(*map(range, output[:-1])):
        n, c, h = (begin + index for begin, index in zip(begins, place, strict=False))
        inside = 0 <= n < source[0] and 0 <= c < source[1] and 0 <= h < source[2]
        sources.append((n * source[1] + c) * source[2] + h if inside else None)
    assert boxed_rows(source, output, begins, (1,) * 4, heights) == counted(sources, *heights)


@pytest.mark.parametrize("heights", [(8, 8), (4, 12), (24, 6)])
def test_exchanged_rows_come_from_where_they_are(heights: tuple[int, int]) -> None:
    n, c, h = 2, 3, 8
    sources: list[int | None] = [(i * c + k) * h + j for i, j, k in product(range(n), range(h), range(c))]
    assert exchanged_rows((n, c, h, 16), heights) == counted(sources, *heights)


def shards(device: Any, shape: list[int], height: int) -> Any:
    config = ttnn.create_sharded_memory_config(
        (height, shape[-1]),
        ttnn.CoreGrid(x=8, y=8),
        ttnn.ShardStrategy.HEIGHT,
        use_height_and_width_as_shard_shape=True,
    )
    return ttnn.empty(shape, ttnn.bfloat16, ttnn.ROW_MAJOR_LAYOUT, device=device, memory_config=config)


def cycles(step: Step) -> float:
    return kernel_cost(step, CARDS["n150"]).ns - FIGURES.launch_ns


def test_two_processors_exchange_regular_rows() -> None:
    """The last step but one of the fold before ResNet50: 4096 rows of 32 bytes a core, each a read."""
    device = PlanOnlyCard("n150")
    x = shards(device, [16, 128, 128, 16], 4096)
    step = only(steps_of(device, lambda: ttnn.transpose(x, 1, 2)), "Transpose")
    assert step.program.factory == "TransposeHCShardedProgramFactory"
    assert cycles(step) == pytest.approx(4096 / 2 * FIGURES.l1_read_issue_cycles + FIGURES.l1_latency_cycles)


def test_neighbouring_rows_of_a_slice_are_one_read() -> None:
    """The last step of that fold takes 29 reads of up to 115 rows, where 3306 rows would take 61 us."""
    device = PlanOnlyCard("n150")
    x = shards(device, [16, 128, 128, 16], 4096)
    step = only(steps_of(device, lambda: ttnn.slice(x, [0, 0, 0, 0], [16, 115, 115, 16])), "Slice")
    assert step.program.factory == "SliceRmShardedProgramFactory"
    size = step.outputs[0].spec.shard.shape[0] * 32
    assert cycles(step) == pytest.approx(size / FIGURES.l1_read_bytes_per_cycle + FIGURES.l1_latency_cycles, rel=0.02)


def test_rows_of_windows_that_end_in_another_part_are_read_stick_by_stick() -> None:
    assert _rows_in_one_part(3, 3, 32) == 3
    assert _rows_in_one_part(9, 9, 32) == 7  # rows 3 and 7 begin at 27 and 31 of 32
    assert _rows_in_one_part(13, 13, 32) == 8


def test_large_windows_take_longer_than_their_sticks() -> None:
    """13x13 sticks are 6 times those of 5x5 and 19 times those of 3x3, which are read in one piece each row."""
    device = PlanOnlyCard("n150", l1_small_size=32768)
    x = ttnn.empty([1, 1, 100, 512], ttnn.bfloat16, ttnn.ROW_MAJOR_LAYOUT, device=device)

    def pool(k: int) -> float:
        call = lambda: ttnn.max_pool2d(x, 1, 10, 10, 512, [k, k], [1, 1], [k // 2, k // 2], [1, 1])  # noqa: E731
        return cycles(only(steps_of(device, call), "Pool2D"))

    three, five, nine, thirteen = map(pool, (3, 5, 9, 13))
    assert three < five < nine < thirteen
    assert thirteen > 2 * nine
