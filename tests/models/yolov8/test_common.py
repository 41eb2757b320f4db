# SPDX-License-Identifier: Apache-2.0
"""Weights on their way to the card: folded, filled up, split; the convolutions compute what they did."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.nn.functional import conv2d, silu

from tt_cnn import ttnn
from tt_cnn.models import model_entry
from tt_cnn.models.yolov8.reference.model import C2f, ConvNormAct
from tt_cnn.models.yolov8.tt.common import preprocess


@pytest.fixture
def narrow_c2f() -> C2f:
    """Halves of 24 channels: less than a tile."""
    torch.manual_seed(0)
    module = C2f(40, 48, blocks=1, residual=True)
    for norm in module.modules():
        if isinstance(norm, torch.nn.BatchNorm2d):
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2.0)
    return module.eval()


def _run(parameters: Any, x: torch.Tensor) -> torch.Tensor:
    weight, bias = (ttnn.to_torch(parameters[name]) for name in ("weight", "bias"))
    return silu(conv2d(x, weight, bias.reshape(-1), padding=weight.shape[-1] // 2))


def test_a_filled_and_split_c2f_computes_the_same(narrow_c2f: C2f) -> None:
    parameters = preprocess(narrow_c2f)
    x = torch.randn(1, 40, 8, 8)
    filled = torch.nn.functional.pad(x, (0, 0, 0, 0, 0, 24))
    kept, worked = (_run(parameters[name], filled) for name in ("conv1_kept", "conv1_worked"))
    assert kept.shape[1] == worked.shape[1] == 32
    block = parameters.blocks[0] if 0 in parameters.blocks else parameters.blocks["0"]
    last = worked + _run(block.conv2, _run(block.conv1, worked))
    output = _run(parameters.conv2, torch.cat((kept, worked, last), dim=1))
    with torch.no_grad():
        torch.testing.assert_close(output[:, :48], narrow_c2f(x), rtol=1e-4, atol=1e-4)
    assert not output[:, 48:].any(), "SiLU keeps zeros"


def test_a_pictures_channels_are_not_filled() -> None:
    parameters = preprocess(ConvNormAct(3, 40, 3).eval())
    assert tuple(parameters.weight.shape) == (64, 3, 3, 3)


def _convolutions(parameters: Any) -> Iterator[Any]:
    if "weight" in parameters:
        yield parameters
        return
    for inside in parameters if isinstance(parameters, list) else parameters.values():
        yield from _convolutions(inside)


def test_every_convolution_is_there() -> None:
    """Those of the reference; the first of each of the eight C2fs counts twice."""
    reference = model_entry("yolov8s").reference().eval()
    found = list(_convolutions(preprocess(reference)))
    assert len(found) == sum(isinstance(module, torch.nn.Conv2d) for module in reference.modules()) + 8
    assert all(each.weight.shape[1] % 32 == 0 or each.weight.shape[1] == 3 for each in found)
