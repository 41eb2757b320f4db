# SPDX-License-Identifier: Apache-2.0
"""RepVGG: trained with a 3x3, a 1x1 and an identity branch, run as one 3x3 convolution. Named as the authors' code."""

from __future__ import annotations

from collections import OrderedDict

import torch
import torch.nn.functional as F
from torch import nn

from tt_cnn.zoo.registry import register_architecture

PAPER = "Ding, Zhang, Ma, Han, Ding, Sun 2021"


class RepVGGBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int = 1, deploy: bool = False) -> None:
        super().__init__()
        self.deploy = deploy
        self.nonlinearity = nn.ReLU()
        if deploy:
            self.rbr_reparam = nn.Conv2d(inputs, outputs, 3, stride, 1)
            return
        self.rbr_identity = nn.BatchNorm2d(inputs) if inputs == outputs and stride == 1 else None
        self.rbr_dense = conv_bn(inputs, outputs, 3, stride)
        self.rbr_1x1 = conv_bn(inputs, outputs, 1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.deploy:
            return self.nonlinearity(self.rbr_reparam(x))
        identity = 0 if self.rbr_identity is None else self.rbr_identity(x)
        return self.nonlinearity(self.rbr_dense(x) + self.rbr_1x1(x) + identity)

    def fused(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Weight and bias of the one convolution that gives the sum of the branches."""
        dense, one = _folded(*self.rbr_dense), _folded(*self.rbr_1x1)
        weight, bias = dense[0] + F.pad(one[0], [1, 1, 1, 1]), dense[1] + one[1]
        if self.rbr_identity is not None:
            channels = weight.shape[0]
            passing = torch.eye(channels, dtype=weight.dtype).view(channels, channels, 1, 1)
            factor, shift = _factor_and_shift(self.rbr_identity)
            weight, bias = weight + F.pad(passing * factor, [1, 1, 1, 1]), bias + shift
        return weight, bias


def _folded(conv: nn.Module, norm: nn.Module) -> tuple[torch.Tensor, torch.Tensor]:
    assert isinstance(conv, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d)
    factor, shift = _factor_and_shift(norm)
    return conv.weight * factor, shift


def _factor_and_shift(norm: nn.BatchNorm2d) -> tuple[torch.Tensor, torch.Tensor]:
    """What a batch norm multiplies with, (channels, 1, 1, 1), and then adds."""
    assert norm.running_mean is not None and norm.running_var is not None
    factor = norm.weight / (norm.running_var + norm.eps).sqrt()
    return factor.view(-1, 1, 1, 1), norm.bias - norm.running_mean * factor


def conv_bn(inputs: int, outputs: int, kernel: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        OrderedDict[str, nn.Module](
            conv=nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), bn=nn.BatchNorm2d(outputs)
        )
    )


class RepVGG(nn.Module):
    def __init__(
        self, blocks: tuple[int, ...], widths: tuple[int, ...], deploy: bool = False, classes: int = 1000
    ) -> None:
        super().__init__()
        stem = min(64, widths[0])
        self.stage0 = RepVGGBlock(3, stem, 2, deploy)
        self.stage1 = self._stage(stem, widths[0], blocks[0], deploy)
        self.stage2 = self._stage(widths[0], widths[1], blocks[1], deploy)
        self.stage3 = self._stage(widths[1], widths[2], blocks[2], deploy)
        self.stage4 = self._stage(widths[2], widths[3], blocks[3], deploy)
        self.gap = nn.AdaptiveAvgPool2d(output_size=1)
        self.linear = nn.Linear(widths[3], classes)

    @staticmethod
    def _stage(inputs: int, width: int, count: int, deploy: bool) -> nn.Sequential:
        rest = [RepVGGBlock(width, width, 1, deploy) for _ in range(count - 1)]
        return nn.Sequential(RepVGGBlock(inputs, width, 2, deploy), *rest)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.stage0(x)
        out = self.stage1(out)
        out = self.stage2(out)
        out = self.stage3(out)
        out = self.stage4(out)
        out = self.gap(out)
        out = out.view(out.size(0), -1)
        return self.linear(out)


def deployed_weights(trained: nn.Module) -> dict[str, torch.Tensor]:
    """The state of the deployed form: the branches of every block in one convolution, all else as it is."""
    state = dict(trained.state_dict())
    for name, module in trained.named_modules():
        if isinstance(module, RepVGGBlock):
            state = {key: value for key, value in state.items() if not key.startswith(f"{name}.")}
            weight, bias = module.fused()
            state |= {f"{name}.rbr_reparam.weight": weight.detach(), f"{name}.rbr_reparam.bias": bias.detach()}
    return state


A0 = ((2, 4, 14, 1), (48, 96, 192, 1280))
"""Blocks and channels of the stages."""


@register_architecture("RepVGG-A0, as trained", PAPER, licence="MIT", parameters=9.11, gmacs=1.52)
def repvgg_a0() -> nn.Module:
    return RepVGG(*A0)


@register_architecture("RepVGG-A0, as deployed", PAPER, licence="MIT", parameters=8.31, gmacs=1.36)
def repvgg_a0_deploy() -> nn.Module:
    return RepVGG(*A0, deploy=True)
