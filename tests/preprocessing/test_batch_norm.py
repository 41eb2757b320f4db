# SPDX-License-Identifier: Apache-2.0
"""Folding gives one convolution for two modules, and torch.fx finds the pairs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from tt_cnn.preprocessing import find_conv_batch_norm_pairs, fold_batch_norm2d_into_conv2d


def trained(bn: nn.BatchNorm2d) -> nn.BatchNorm2d:
    """Statistics as after training, in eval mode."""
    torch.manual_seed(1)
    assert bn.running_mean is not None and bn.running_var is not None
    bn.running_mean.normal_()
    bn.running_var.uniform_(0.5, 2)
    if bn.affine:
        nn.init.normal_(bn.weight)
        nn.init.normal_(bn.bias)
    return bn.eval()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("kind", [nn.Conv2d, nn.ConvTranspose2d])
def test_the_folded_convolution_does_what_both_did(kind: Any, groups: int, affine: bool, bias: bool) -> None:
    torch.manual_seed(0)
    conv = kind(8, 12, 3, stride=2, padding=1, groups=groups, bias=bias)
    bn = trained(nn.BatchNorm2d(12, affine=affine))
    image = torch.randn(2, 8, 9, 7)
    with torch.no_grad():
        expected = bn(conv(image))
        weight, shift = fold_batch_norm2d_into_conv2d(conv, bn)
        folded = kind(8, 12, 3, stride=2, padding=1, groups=groups)
        folded.weight.copy_(weight)
        folded.bias.copy_(shift)
        torch.testing.assert_close(folded(image), expected, rtol=1e-4, atol=1e-5)
    assert weight.shape == conv.weight.shape and shift.shape == (12,) and not weight.requires_grad


def test_what_cannot_be_folded_is_said() -> None:
    with pytest.raises(RuntimeError, match="BatchNorm2d must have track_running_stats=True to be folded into Conv2d"):
        fold_batch_norm2d_into_conv2d(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4, track_running_stats=False))
    with pytest.raises(ValueError, match="has 5 features; it must have 4"):
        fold_batch_norm2d_into_conv2d(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(5))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(self.conv(x))) + x


class Shared(nn.Module):
    """Pairs that must not be folded: a batch norm used twice, an output used twice, one before a convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third, self.fourth = (nn.Conv2d(4, 4, 1) for _ in range(4))
        self.twice, self.beside, self.before = (nn.BatchNorm2d(4) for _ in range(3))
        self.batch = nn.BatchNorm2d(4, track_running_stats=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.twice(self.first(x)) + self.twice(self.second(x))
        y = self.third(x)
        return self.batch(self.fourth(self.before(self.beside(y) + y)))


class Branching(nn.Module):
    """A branch on data, which torch.fx cannot trace; the block inside can be."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(4, 4, 1)
        self.stem_norm = nn.BatchNorm2d(4)
        self.blocks = nn.ModuleList([Block(), Block()])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem_norm(self.stem(x))
        for block in self.blocks:
            if x.sum() > 0:
                x = block(x)
        return x


def test_pairs_are_found_through_modules_of_all_kinds() -> None:
    model = nn.Sequential(Block(), nn.Sequential(nn.ConvTranspose2d(4, 4, 2), nn.BatchNorm2d(4)), nn.ReLU())
    pairs = find_conv_batch_norm_pairs(model)
    assert pairs.batch_norm_of == {"0.conv": "0.norm", "1.0": "1.1"}
    assert pairs.warning(model) == ""


def test_only_batch_norms_that_alone_follow_a_convolution_are_folded() -> None:
    assert find_conv_batch_norm_pairs(Shared()).batch_norm_of == {}


def test_a_module_that_cannot_be_traced_hides_no_block_inside_it() -> None:
    model = Branching()
    pairs = find_conv_batch_norm_pairs(model)
    assert pairs.batch_norm_of == {"blocks.0.conv": "blocks.0.norm", "blocks.1.conv": "blocks.1.norm"}
    warning = pairs.warning(model)
    assert "the model: TraceError" in warning and "not folded: stem_norm." in warning
    assert "custom_preprocessor" in warning
