# SPDX-License-Identifier: Apache-2.0
"""A model of layers that no step of the search knows, between convolutions that it does."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tt_cnn import ttnn
from tt_cnn.builder import (
    ActivationConfiguration,
    AttentionConfiguration,
    BatchNorm2dConfiguration,
    ChannelShuffleConfiguration,
    Conv2dConfiguration,
    GlobalAvgPool2dConfiguration,
    GroupNormConfiguration,
    LayerNormConfiguration,
    LinearConfiguration,
    MultiplyConfiguration,
    PixelUnshuffleConfiguration,
    PReLUConfiguration,
    SqueezeExciteConfiguration,
    TtActivation,
    TtAttention,
    TtBatchNorm2d,
    TtChannelShuffle,
    TtConv2d,
    TtGlobalAvgPool2d,
    TtGroupNorm,
    TtLayerNorm,
    TtLinear,
    TtMultiply,
    TtPixelUnshuffle,
    TtPReLU,
    TtSqueezeExcite,
)
from tt_cnn.models.registry import ModelEntry
from tt_cnn.models.tt_model import TtModel

NAME = "all_kinds_for_tests"
SIZE, CHANNELS, HEADS, CLASSES = 28, 64, 2, 10


class Reference(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, CHANNELS // 4, 3, padding=1)
        self.fold = nn.PixelUnshuffle(2)
        self.norm = nn.BatchNorm2d(CHANNELS)
        self.prelu = nn.PReLU(CHANNELS)
        self.depthwise = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, groups=CHANNELS)
        self.reduce, self.expand = nn.Conv2d(CHANNELS, 16, 1), nn.Conv2d(16, CHANNELS, 1)
        self.shuffle = nn.ChannelShuffle(2)
        self.groups = nn.GroupNorm(4, CHANNELS)
        self.tokens = nn.LayerNorm(CHANNELS)
        self.qkv, self.project = nn.Linear(CHANNELS, 3 * CHANNELS), nn.Linear(CHANNELS, CHANNELS)
        self.classify = nn.Linear(CHANNELS, CLASSES)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.prelu(self.norm(self.fold(self.stem(images))))
        x = self.depthwise(x)
        x = x * torch.sigmoid(self.expand(F.relu(self.reduce(x.mean((2, 3), keepdim=True)))))
        x = self.groups(self.shuffle(x))
        x = (x * F.silu(x)).flatten(2).transpose(1, 2)
        q, k, v = self.qkv(self.tokens(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        x = self.project(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2))
        return self.classify(x.mean(1))


class OnCard(TtModel):
    outputs = ("classes",)

    def __init__(
        self, reference: Reference, device: Any, *, resolution: tuple[int, int], batch_size: int, precision: str
    ) -> None:
        self.device, self.resolution, self.batch_size = device, resolution, batch_size
        self.l1_input_memory_config = ttnn.L1_MEMORY_CONFIG
        self.dram_input_memory_config = self.dram_output_memory_config = ttnn.DRAM_MEMORY_CONFIG
        height, width = resolution
        half = (height // 2, width // 2)
        precise = {"math_fidelity": ttnn.MathFidelity.HiFi4, "fp32_dest_acc_en": True}
        freed = {"deallocate_input": True}
        r = reference
        conv = {"deallocate_activation": True, **precise}
        silu = ttnn.UnaryWithParam(ttnn.UnaryOpType.SILU)
        settings: dict[str, tuple[Any, Any]] = {
            "stem": (TtConv2d, Conv2dConfiguration.from_torch(r.stem, *resolution, batch_size, **precise)),
            "fold": (
                TtPixelUnshuffle,
                PixelUnshuffleConfiguration.from_torch(r.fold, *resolution, batch_size, CHANNELS // 4, **freed),
            ),
            "norm": (TtBatchNorm2d, BatchNorm2dConfiguration.from_torch(r.norm, in_place=True)),
            "prelu": (TtPReLU, PReLUConfiguration.from_torch(r.prelu, **freed)),
            "depthwise": (TtConv2d, Conv2dConfiguration.from_torch(r.depthwise, *half, batch_size, **conv)),
            "se": (
                TtSqueezeExcite,
                SqueezeExciteConfiguration.from_torch(
                    r.reduce, r.expand, nn.ReLU(), nn.Sigmoid(), batch_size, precise, in_place=True
                ),
            ),
            "shuffle": (TtChannelShuffle, ChannelShuffleConfiguration.from_torch(r.shuffle, CHANNELS, **freed)),
            "groups": (TtGroupNorm, GroupNormConfiguration.from_torch(r.groups, batch_size, **freed)),
            "act": (TtActivation, ActivationConfiguration(silu)),
            "gate": (TtMultiply, MultiplyConfiguration(deallocate_input=True, deallocate_other=True)),
            "tokens": (
                TtLayerNorm,
                LayerNormConfiguration.from_torch(r.tokens, memory_config=ttnn.L1_MEMORY_CONFIG, **freed),
            ),
            "qkv": (TtLinear, LinearConfiguration.from_torch(r.qkv, **precise)),
            "attention": (TtAttention, AttentionConfiguration(HEADS, CHANNELS // HEADS, batch_size, **freed)),
            "project": (TtLinear, LinearConfiguration.from_torch(r.project, **precise)),
            "average": (
                TtGlobalAvgPool2d,
                GlobalAvgPool2dConfiguration(*half, CHANNELS, batch_size, as_mean=True),
            ),
            "classify": (TtLinear, LinearConfiguration.from_torch(r.classify, **precise)),
        }
        self.parts = {name: layer(configuration, device, name) for name, (layer, configuration) in settings.items()}

    def __call__(self, x: Any) -> Any:
        run = self.parts
        for name in ("stem", "fold", "norm", "prelu", "depthwise", "se", "shuffle", "groups"):
            x = run[name](x)
        x = run["gate"](x, run["act"](x))
        for name in ("tokens", "qkv", "attention", "project", "average", "classify"):
            x = run[name](x)
        return x

    def to_host_input(self, images: torch.Tensor) -> Any:
        rows = images.permute(0, 2, 3, 1).reshape(1, 1, -1, 3)
        return ttnn.from_torch(rows, dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT)

    def to_torch(self, outputs: Any) -> tuple[torch.Tensor, ...]:
        return (ttnn.to_torch(outputs).float().reshape(self.batch_size, -1)[:, :CLASSES],)


def mixed_entry() -> ModelEntry:
    return ModelEntry(
        name=NAME,
        title="All kinds of layers",
        task="classification",
        reference=Reference,
        tt=OnCard,
        gates={"classes": 0.99},
        resolutions=((SIZE, SIZE),),
        batch_sizes=(1, 2),
    )
