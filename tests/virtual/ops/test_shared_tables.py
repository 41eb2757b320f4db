# SPDX-License-Identifier: Apache-2.0
"""Which convolutions share sliding-window tables in L1_SMALL: as the real library did, with its program cache on.

Recorded on a mocked n150: a 3x3 convolution of 40x40 pixels and 32 channels, height sharded, takes 192 bytes a core for
its halo and 32 for its own table. A second one that differs in one thing took what stands here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from tt_cnn.virtual import ttnn

FIRST = 224
ALL, OWN, NOTHING = 224, 32, 0
"""Halo and convolution again; the convolution alone; both shared."""


@pytest.fixture
def card() -> Iterator[Any]:
    device = ttnn.open_device(device_id=0, l1_small_size=65536)
    yield device
    ttnn.close_device(device)


def used(card: Any) -> int:
    return ttnn.get_memory_view(card, ttnn.BufferType.L1_SMALL).total_bytes_allocated_per_bank


def convolve(card: Any, out: int = 32, compute: dict[str, Any] | None = None, **config: Any) -> None:
    x = ttnn.from_torch(torch.zeros(1, 1, 1600, 32), dtype=ttnn.bfloat16, device=card)
    weight = ttnn.from_torch(torch.zeros(out, 32, 3, 3), dtype=ttnn.float32)
    height = ttnn.TensorMemoryLayout.HEIGHT_SHARDED
    options = {"weights_dtype": ttnn.bfloat16, "shard_layout": height} | config
    ttnn.conv2d(
        input_tensor=x,
        weight_tensor=weight,
        device=card,
        in_channels=32,
        out_channels=out,
        batch_size=1,
        input_height=40,
        input_width=40,
        kernel_size=(3, 3),
        stride=(1, 1),
        padding=(1, 1),
        conv_config=ttnn.Conv2dConfig(**options),
        compute_config=ttnn.init_device_compute_kernel_config(card.arch(), **(compute or {})),
        slice_config=ttnn.Conv2dL1FullSliceConfig,
    )


@pytest.mark.parametrize(
    ("change", "taken"),
    [
        ({}, NOTHING),
        ({"compute": {"math_fidelity": ttnn.MathFidelity.HiFi4}}, ALL),
        ({"compute": {"fp32_dest_acc_en": True}}, ALL),
        ({"compute": {"packer_l1_acc": True}}, ALL),
        ({"compute": {"math_approx_mode": False}}, ALL),
        ({"weights_dtype": ttnn.bfloat8_b}, OWN),
        ({"enable_act_double_buffer": True}, OWN),
        ({"out": 64}, OWN),
        ({"deallocate_activation": True}, NOTHING),
    ],
)
def test_a_second_convolution_takes_the_tables_that_it_cannot_share(
    card: Any, change: dict[str, Any], taken: int
) -> None:
    convolve(card)
    assert used(card) == FIRST
    convolve(card, **change)
    assert used(card) - FIRST == taken
    convolve(card)
    assert used(card) - FIRST == taken
