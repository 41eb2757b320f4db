# SPDX-License-Identifier: Apache-2.0
"""`benchmarks/floors.py` counts products as torch does, and a processor does more of bytes than of floats."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from floors import products_of, products_per_second

MODEL = nn.Sequential(
    nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 16, 3, groups=16, padding=1), nn.Conv2d(16, 8, 3, stride=2),
    nn.ConvTranspose2d(8, 6, 2, stride=2), nn.Conv2d(6, 4, 1), nn.Flatten(), nn.Linear(4 * 18 * 22, 10),
)  # fmt: skip


def test_products_are_those_that_torch_counts() -> None:
    example = torch.randn(2, 3, 20, 24)
    with FlopCounterMode(display=False) as counter, torch.inference_mode():
        MODEL(example)
    assert products_of(MODEL, example) == counter.get_total_flops() / 2


def test_winograd_leaves_a_quarter_of_plain_3x3_kernels() -> None:
    example = torch.randn(1, 3, 20, 24)
    first = 20 * 24 * 16 * 3 * 9
    assert products_of(MODEL, example, winograd=True) == products_of(MODEL, example) - first * 3 / 4


def test_rates_are_those_of_a_processor() -> None:
    assert 1e9 < products_per_second("float32") < 1e13
    assert products_per_second("int8") > 1e8
