# SPDX-License-Identifier: Apache-2.0
"""Prepared weights of grouped convolutions: those of the full convolution that does the same."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tt_cnn.virtual.ops.conv2d.preparation import prepared_weights, weights_of
from tt_cnn.virtual.ops.conv2d.problem import Convolution
from tt_cnn.virtual.ops.matmul.weight_layout import WeightLayout

SHARDS = {"height": 1, "width": 1, "interleaved": 1, "block": 2}


@pytest.mark.parametrize("scheme", SHARDS)
@pytest.mark.parametrize(("groups", "inner", "out_of_group"), [(64, 1, 1), (16, 4, 2), (3, 2, 5)])
def test_they_are_those_of_a_full_convolution(scheme: str, groups: int, inner: int, out_of_group: int) -> None:
    torch.manual_seed(0)
    inputs, outputs, kernel = groups * inner, groups * out_of_group, (3, 3)
    layout = WeightLayout(
        outputs,
        inputs,
        kernel,
        groups,
        rows=64 * 9,
        columns=64,
        scheme=scheme,
        in_shards=SHARDS[scheme],
        in_padded=64,
        row_block=64 * 9 // SHARDS[scheme] if scheme == "block" else 64 * 3,
    )
    weights = torch.randn(outputs, inner, *kernel)
    full = torch.zeros(outputs, inputs, *kernel)
    for channel in range(outputs):
        first = channel // out_of_group * inner
        full[channel, first : first + inner] = weights[channel]
    prepared = prepared_weights(weights, layout)
    assert torch.equal(prepared, prepared_weights(full, replace(layout, groups=1)))
    conv = Convolution(1, 8, 8, inputs, outputs, kernel, (1, 1), (1, 1, 1, 1), (1, 1), groups)
    assert torch.equal(weights_of(prepared, layout, conv), weights)
