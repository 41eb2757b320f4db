# SPDX-License-Identifier: Apache-2.0
"""When numbers agree with a kernel's: `values` and `error`."""

from __future__ import annotations

import math

import pytest
import torch

from tt_cnn.conformance.reference import REFERENCES, unary
from tt_cnn.conformance.statistics import pcc, rms, same_bits, same_numbers
from tt_cnn.conformance.value_calls import converted_weight
from tt_cnn.conformance.values import judge_error, judge_values
from tt_cnn.virtual.types import DataType

TRUTH = torch.linspace(-1, 1, 101)


def noisy(scale: float, seed: int = 0) -> torch.Tensor:
    noise = torch.randn(TRUTH.shape, generator=torch.Generator().manual_seed(seed))
    return TRUTH + scale * noise


def test_equal_numbers_agree_whatever_torch_says() -> None:
    real = torch.tensor([1.0, math.nan, math.inf])
    assert judge_values(real.clone(), real, torch.zeros(3)).agrees


@pytest.mark.parametrize(("share", "agrees"), [(0.3, True), (0.4, False)])
def test_values_must_be_three_times_nearer_than_torch(share: float, agrees: bool) -> None:
    real = noisy(1e-3)
    assert judge_values(real + share * (TRUTH - real), real, TRUTH).agrees is agrees


def test_specials_must_stand_at_the_same_places() -> None:
    real = torch.cat([TRUTH, torch.tensor([math.inf])])
    assert not judge_values(torch.cat([TRUTH, torch.tensor([3e38])]), real, real + 1).agrees


@pytest.mark.parametrize(("scale", "agrees"), [(0.6e-3, False), (0.8e-3, True), (1.3e-3, True), (1.6e-3, False)])
def test_the_error_must_have_the_size_of_the_kernels_error(scale: float, agrees: bool) -> None:
    assert judge_error(noisy(scale), noisy(1e-3), TRUTH, DataType.BFLOAT16).agrees is agrees


def test_the_correlation_with_the_kernel_depends_on_the_format() -> None:
    found, real = noisy(0.012, seed=1), noisy(0.012, seed=2)
    assert 0.999 <= pcc(found, real) < 0.9999
    assert judge_error(found, real, TRUTH, DataType.BFLOAT8_B).agrees
    assert not judge_error(found, real, TRUTH, DataType.BFLOAT16).agrees


def test_another_shape_never_agrees() -> None:
    assert not judge_values(TRUTH[:5], TRUTH, TRUTH).agrees
    assert not judge_error(TRUTH[:5], TRUTH, TRUTH, DataType.BFLOAT16).agrees


def test_statistics() -> None:
    assert rms(torch.tensor([3.0, math.inf]), torch.tensor([0.0, math.inf])) == 3.0
    assert same_numbers(torch.tensor([0.0]), torch.tensor([-0.0]))
    assert not same_bits(torch.tensor([0.0]), torch.tensor([-0.0]))
    assert same_bits(torch.tensor([math.nan]), torch.tensor([-math.nan]))
    assert pcc(TRUTH, 2 * TRUTH + 1) == pytest.approx(1)
    assert pcc(torch.ones(4), torch.ones(4)) == 1 and pcc(torch.ones(4), torch.zeros(4)) == 0


def test_block_formats_share_exponents_along_output_channels() -> None:
    weight = torch.zeros(16, 1, 1, 2)
    weight[:, 0, 0, 0] = torch.arange(1, 17) * 0.01
    weight[0, 0, 0, 1] = 1000.0  # another input position: another row of the matrix
    weight[3, 0, 0, 1] = 0.001  # lost beside 1000 in the same row
    held = converted_weight(weight, DataType.BFLOAT8_B)
    assert held[3, 0, 0, 1] == 0 and held[0, 0, 0, 1] == 1000
    assert (held[:, 0, 0, 0] - weight[:, 0, 0, 0]).abs().max() < 0.002


def test_references_know_shapes_of_convolutions_and_pools() -> None:
    x = torch.randn(2, 6, 4, 3)
    a = {"n": 2, "h": 6, "w": 4, "k": 3, "s": 2, "p": 1, "activation": "relu"}
    y = REFERENCES["conv2d"]([x, torch.randn(5, 3, 3, 3), torch.zeros(1, 1, 1, 5)], a)
    assert y.shape == (1, 1, 2 * 3 * 2, 5) and (y >= 0).all()
    assert REFERENCES["max_pool2d"]([x], a).shape == (1, 1, 12, 3)
    assert REFERENCES["upsample"]([x], {"scale_factor": 2, "mode": "nearest"}).shape == (2, 12, 8, 3)
    assert unary("sin")(torch.zeros(1)) == 0
