# SPDX-License-Identifier: Apache-2.0
"""Findings about transposed convolutions and matmuls: planted, found, applied, and faster."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.reports.planted import Program, check, found, image, profiled
from tt_cnn import ttnn
from tt_cnn.reports.findings import find
from tt_cnn.reports.recording import PlanningCard


def transposed(
    card: PlanningCard,
    side: int,
    channels: int,
    *,
    math_fidelity: Any = ttnn.MathFidelity.LoFi,
    memory_config: Any = None,
    **config: Any,
) -> Program:
    """One that doubles a square image, with all that the findings look for as it should be, but for `config`."""
    good = {
        "weights_dtype": ttnn.bfloat8_b,
        "shard_layout": ttnn.TensorMemoryLayout.HEIGHT_SHARDED,
        "enable_act_double_buffer": True,
        "enable_weights_double_buffer": True,
    }
    weight = ttnn.from_torch(torch.zeros(channels, channels, 2, 2), ttnn.float32)
    bias = ttnn.from_torch(torch.zeros(1, 1, 1, channels), ttnn.float32)

    def run(x: Any) -> Any:
        return ttnn.conv_transpose2d(
            input_tensor=x,
            weight_tensor=weight,
            bias_tensor=bias,
            device=card,
            in_channels=channels,
            out_channels=channels,
            batch_size=1,
            input_height=side,
            input_width=side,
            kernel_size=(2, 2),
            stride=(2, 2),
            dtype=ttnn.bfloat16,
            conv_config=ttnn.Conv2dConfig(**{**good, **config}),
            compute_config=ttnn.WormholeComputeKernelConfig(math_fidelity=math_fidelity, packer_l1_acc=True),
            memory_config=memory_config,
            dram_slice_config=ttnn.Conv2dL1FullSliceConfig,
        )

    return run


TRANSPOSED: dict[str, tuple[int, int, dict[str, Any]]] = {
    "few cores": (6, 256, {}),
    "weights": (
        16,
        512,
        {"weights_dtype": ttnn.bfloat16, "shard_layout": ttnn.TensorMemoryLayout.BLOCK_SHARDED},
    ),
    "fidelity": (48, 128, {"math_fidelity": ttnn.MathFidelity.HiFi4}),
    "block height": (80, 32, {"act_block_h_override": 32}),
    "double buffering": (80, 64, {"enable_act_double_buffer": False}),
}


@pytest.mark.parametrize("kind", TRANSPOSED)
def test_a_transposed_convolution_that_could_be_faster(card: PlanningCard, kind: str) -> None:
    side, channels, planted = TRANSPOSED[kind]
    before = profiled(card, lambda: image(card, side * side, channels), transposed(card, side, channels, **planted))
    finding = found(before, kind)
    changed = {**planted, **finding.change}
    after = profiled(card, lambda: image(card, side * side, channels), transposed(card, side, channels, **changed))
    check(before, after, finding)
    assert kind == "few cores" or kind not in [one.kind for one in find(after, least_ns=1.0)]


def product(
    card: PlanningCard,
    inner: int,
    outer: int,
    *,
    weights_dtype: Any = ttnn.bfloat8_b,
    math_fidelity: Any = ttnn.MathFidelity.LoFi,
    core_grid: Any = (8, 8),
) -> Program:
    """A linear layer between interleaved tensors."""
    weight = ttnn.from_torch(torch.zeros(inner, outer), weights_dtype, layout=ttnn.TILE_LAYOUT, device=card)
    bias = ttnn.from_torch(torch.zeros(1, outer), ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=card)

    def run(x: Any) -> Any:
        return ttnn.linear(
            x,
            weight,
            bias=bias,
            memory_config=ttnn.L1_MEMORY_CONFIG,
            dtype=ttnn.bfloat16,
            core_grid=None if core_grid is None else ttnn.CoreGrid(x=core_grid[0], y=core_grid[1]),
            compute_kernel_config=ttnn.WormholeComputeKernelConfig(math_fidelity=math_fidelity, packer_l1_acc=True),
        )

    return run


PRODUCTS: dict[str, tuple[int, int, int, dict[str, Any]]] = {
    "few cores": (1024, 512, 512, {"core_grid": (2, 2)}),
    "weights": (512, 1024, 1024, {"weights_dtype": ttnn.bfloat16}),
    "fidelity": (1024, 1024, 1024, {"math_fidelity": ttnn.MathFidelity.HiFi4}),
    "matmul program": (2048, 512, 512, {"core_grid": None}),
}


@pytest.mark.parametrize("kind", PRODUCTS)
def test_a_linear_layer_that_could_be_faster(card: PlanningCard, kind: str) -> None:
    rows, inner, outer, planted = PRODUCTS[kind]
    before = profiled(card, lambda: image(card, rows, inner), product(card, inner, outer, **planted))
    finding = found(before, kind)
    changed = {**planted, **finding.change}
    after = profiled(card, lambda: image(card, rows, inner), product(card, inner, outer, **changed))
    check(before, after, finding)
    assert kind not in [one.kind for one in find(after, least_ns=1.0)]


def test_few_cores_of_a_product_are_told_in_plain_words(card: PlanningCard) -> None:
    profile = profiled(card, lambda: image(card, 1024, 512), product(card, 512, 512, core_grid=(2, 2)))
    said = str(found(profile, "few cores"))
    assert "runs on 4 of 64 cores: 1024x512 times 512x512; core_grid=ttnn.CoreGrid(x=8, y=8) would use 64 and" in said


def test_a_product_of_two_results_has_no_weights_to_make_smaller(card: PlanningCard) -> None:
    def program(x: Any) -> Any:
        y = ttnn.relu(x)
        z = ttnn.relu(x)
        return ttnn.matmul(y, z, memory_config=ttnn.L1_MEMORY_CONFIG, core_grid=ttnn.CoreGrid(x=8, y=8))

    profile = profiled(card, lambda: image(card, 512, 512), program)
    assert "weights" not in [one.kind for one in find(profile, least_ns=1.0)]
