# SPDX-License-Identifier: Apache-2.0
"""Parts of networks of inverted residuals on the card, each given the reference's values, and their layers alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from tt_cnn import ttnn
from tt_cnn.models import create_tt, model_entry
from tt_cnn.models.inverted_residuals import InvertedResidualNetwork
from tt_cnn.testing import comp_pcc, verify_conv2d_from_config, verify_linear_from_config
from tt_cnn.testing.layers import verify_avgpool2d_from_config

LAYERS = ("expand", "depthwise", "project")


@dataclass
class Network:
    """A reference in parts, the same on the card, and the reference's values behind each part for one picture."""

    stem: nn.Module
    blocks: Sequence[nn.Module]
    head: nn.Module
    classifier: nn.Module
    stages: Sequence[Any]
    """Rows of the architecture's table."""
    images: torch.Tensor
    model: InvertedResidualNetwork

    @classmethod
    def of(
        cls, name: str, parts: tuple[nn.Module, Sequence[nn.Module], nn.Module, nn.Module], stages: Any, model: Any
    ) -> Network:
        return cls(*parts, stages, model_entry(name).example_input(), model)

    @torch.no_grad()
    def pcc_of_stem(self) -> float:
        output = self.model.stem(self.model.place(self.images))
        return _pcc(self.stem(self.images), output)

    @torch.no_grad()
    def pcc_of_stage(self, number: int) -> float:
        """The blocks of one stage, one after the other, from what the reference has before them."""
        first = sum(stage.blocks for stage in self.stages[:number])
        members = slice(first, first + self.stages[number].blocks)
        values = self._before_block(first)
        x = self._placed(values)
        for block in self.model.blocks[members]:
            x = block(x)
        for reference in self.blocks[members]:
            values = reference(values)
        return _pcc(values, x)

    @torch.no_grad()
    def pcc_of_head(self) -> float:
        values = self._before_block(len(self.blocks))
        found = self.model.classify(self._placed(values))
        return _pcc(self.classifier(self.head(values).mean((2, 3))), found)

    def verify_convolution(self, name: str, pcc: float) -> float:
        """`stem`, `head`, or a layer of a block as in `3.expand`, with random inputs."""
        block, _, layer = name.rpartition(".")
        part: Any = self.model.blocks[int(block)] if block else self.model
        conv = part.stem.layer if name == "stem" else getattr(part, layer)
        torch.manual_seed(0)
        return verify_conv2d_from_config(conv.configuration, self.model.device, pcc)

    def verify_pool(self, pcc: float) -> float:
        torch.manual_seed(0)
        return verify_avgpool2d_from_config(self.model.pool.configuration, self.model.device, pcc)

    def verify_linear(self, pcc: float) -> float:
        torch.manual_seed(0)
        return verify_linear_from_config(self.model.classifier.configuration, self.model.device, pcc)

    def _before_block(self, index: int) -> torch.Tensor:
        values = self.stem(self.images)
        for block in self.blocks[:index]:
            values = block(values)
        return values

    def _placed(self, values: torch.Tensor) -> Any:
        rows = values.permute(0, 2, 3, 1).reshape(1, 1, -1, values.shape[1])
        return ttnn.from_torch(
            rows,
            dtype=ttnn.bfloat16,
            layout=ttnn.TILE_LAYOUT,
            device=self.model.device,
            memory_config=ttnn.L1_MEMORY_CONFIG,
        )


def network_on(
    name: str, reference: nn.Module, parts: Any, stages: Any, device: Any, precision: Any = "tuned"
) -> Network:
    return Network.of(name, parts, stages, create_tt(name, device, reference, precision=precision))


def distinct_convolutions(stages: Sequence[Any]) -> list[str]:
    """The convolutions of the first two blocks of every stage: those that follow have the same configurations."""
    names, index = ["stem"], 0
    for stage in stages:
        for block in range(index, index + min(2, stage.blocks)):
            names += [f"{block}.{layer}" for layer in LAYERS if layer != "expand" or stage.expansion != 1]
        index += stage.blocks
    return [*names, "head"]


def _pcc(expected: torch.Tensor, output: Any) -> float:
    found = ttnn.to_torch(output).float()
    if expected.ndim == 4:
        batch, channels, height, width = expected.shape
        found = found.reshape(batch, height, width, channels).permute(0, 3, 1, 2)
    return float(comp_pcc(expected, found.reshape(expected.shape))[1])
