# SPDX-License-Identifier: Apache-2.0
"""The programs of halos, pools and upsampling: what they decided, and their buffers by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.virtual.cost.layers import only, steps_of
from tests.virtual.networks.noting import PlanOnlyCard
from tt_cnn.virtual import ttnn
from tt_cnn.virtual.ops.pool.program import PoolProgram
from tt_cnn.virtual.ops.sliding_window.halo import HaloProgram
from tt_cnn.virtual.ops.upsample.bilinear import BilinearProgram
from tt_cnn.virtual.ops.upsample.nearest import NearestProgram
from tt_cnn.virtual.planning.plan import Step

MINUS_INFINITY = 0xFF80
SLICED = ttnn.Op2DSliceConfig(slice_type=ttnn.Op2DSliceConfig.SliceTypeEnum.DRAMSliceHeight, num_slices=3)


def planned(shape: tuple[int, ...], call: Callable[[ttnn.Tensor], Any]) -> list[Step]:
    device = PlanOnlyCard()
    x = ttnn.from_torch(torch.zeros(shape), dtype=ttnn.bfloat16, device=device)
    return steps_of(device, lambda: call(x))


def average(kernel: int, **options: Any) -> PoolProgram:
    steps = planned(
        (1, 1, 400, 64), lambda x: ttnn.avg_pool2d(x, 1, 20, 20, 64, [kernel, kernel], [1, 1], [0, 0], **options)
    )
    program = only(steps, "Pool2D").program
    assert isinstance(program, PoolProgram)
    return program


def maximum(x: ttnn.Tensor, **options: Any) -> Any:
    return ttnn.max_pool2d(x, 1, 30, 30, 32, [3, 3], [1, 1], [1, 1], [1, 1], **options)


def test_the_halo_of_a_maximum_is_padded_with_the_lowest_number() -> None:
    steps = planned((1, 1, 900, 32), maximum)
    halo, pool = only(steps, "Halo").program, only(steps, "Pool2D").program
    assert isinstance(halo, HaloProgram) and isinstance(pool, PoolProgram)
    assert halo.padding_value == MINUS_INFINITY and halo.window == pool.pool.window


def test_windows_larger_than_a_tile_are_summed_up_in_float32() -> None:
    assert not average(5).in_parts and not average(5).fp32_sums
    assert average(6).in_parts and average(6).fp32_sums


def test_a_compute_configuration_says_how_sums_are_kept() -> None:
    config = ttnn.WormholeComputeKernelConfig(math_fidelity=ttnn.MathFidelity.LoFi)
    program = average(6, compute_kernel_config=config)
    assert program.in_parts and not program.fp32_sums
    assert program.fidelity is program.sums_at is ttnn.MathFidelity.LoFi
    assert average(6).fidelity is None and average(6).sums_at is ttnn.MathFidelity.HiFi4


def test_every_slice_has_its_own_program() -> None:
    steps = planned((1, 1, 900, 32), lambda x: maximum(x, dram_slice_config=SLICED))
    programs = [step.program for step in steps if isinstance(step.program, PoolProgram)]
    assert [program.pool.height for program in programs] == [11, 12, 11]


@pytest.mark.parametrize(("mode", "kind"), [("nearest", NearestProgram), ("bilinear", BilinearProgram)])
def test_upsampling_keeps_what_it_was_asked(mode: str, kind: type) -> None:
    steps = planned((1, 8, 8, 64), lambda x: ttnn.upsample(x, 2, mode=mode))
    program = only(steps, "Upsample").program
    assert isinstance(program, kind) and program.decisions["upsampling"].whole == (2, 2)


CALLS: dict[str, Callable[[ttnn.Tensor], Any]] = {
    "maximum": maximum,
    "indices": lambda x: maximum(x, return_indices=True),
    "tiled": lambda x: maximum(x, output_layout=ttnn.TILE_LAYOUT, config_tensor_in_dram=True),
    "several scalars": lambda x: ttnn.avg_pool2d(
        x, 1, 30, 30, 32, [6, 6], [1, 1], [1, 1], count_include_pad=False, config_tensor_in_dram=True
    ),
    "nearest": lambda x: ttnn.upsample(ttnn.reshape(x, (1, 30, 30, 32)), 2),
    "bilinear": lambda x: ttnn.upsample(ttnn.reshape(x, (1, 30, 30, 32)), 2, mode="bilinear"),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_buffers_have_names_of_their_own(call: Callable[[ttnn.Tensor], Any]) -> None:
    kinds = (HaloProgram, PoolProgram, NearestProgram, BilinearProgram)
    programs = [step.program for step in planned((1, 1, 900, 32), call) if isinstance(step.program, kinds)]
    assert programs
    for program in programs:
        names = [buffer.name for buffer in program.buffers]
        assert all(names) and len(set(names)) == len(names)
        assert program.buffer("input")
