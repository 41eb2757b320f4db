# SPDX-License-Identifier: Apache-2.0
"""A model with two outputs, small enough to be run in a test, one of whose layers cannot be lowered."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tt_cnn import ttnn
from tt_cnn.builder import Conv2dConfiguration, TtConv2d
from tt_cnn.models.registry import ModelEntry
from tt_cnn.models.tt_model import TtModel

NAME = "two_outputs_for_tests"
SIZE = 32
CHANNELS = 64
PLANTED = "second"
"""One of its output channels is 4096 times as large as the 15 others that share an exponent with it."""
RANGE = 4096.0


class Reference(nn.Module):
    """Layers named as the card's are; `left` and `right` are the outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, CHANNELS, 3, padding=1)
        self.second = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1)
        self.third = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1)
        self.left = nn.Conv2d(CHANNELS, 32, 1)
        self.right = nn.Conv2d(CHANNELS, 32, 1)

    def plant(self) -> Reference:
        """Every sixteenth channel large behind `second`, and made small again by `third`."""
        with torch.no_grad():
            self.second.weight[::16] *= RANGE
            assert self.second.bias is not None
            self.second.bias[::16] *= RANGE
            self.third.weight[:, ::16] /= RANGE
        return self

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = F.relu(self.third(F.relu(self.second(F.relu(self.first(images))))))
        return self.left(x), self.right(x)


class OnCard(TtModel):
    outputs = ("left", "right")

    def __init__(
        self, reference: Reference, device: Any, *, resolution: tuple[int, int], batch_size: int, precision: str
    ) -> None:
        self.device, self.resolution, self.batch_size = device, resolution, batch_size
        self.l1_input_memory_config = ttnn.L1_MEMORY_CONFIG
        relu = ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU)
        self.first, self.second, self.third, self.left, self.right = (
            TtConv2d(
                Conv2dConfiguration.from_torch(
                    getattr(reference, name),
                    *resolution,
                    batch_size,
                    activation=None if name in self.outputs else relu,
                    math_fidelity=ttnn.MathFidelity.HiFi4,
                    fp32_dest_acc_en=True,
                    packer_l1_acc=True,
                ),
                device,
                name,
            )
            for name in ("first", "second", "third", "left", "right")
        )

    def __call__(self, x: Any) -> tuple[Any, Any]:
        x = self.third(self.second(self.first(x)))
        return self.left(x), self.right(x)

    def to_host_input(self, images: torch.Tensor) -> Any:
        rows = images.permute(0, 2, 3, 1).reshape(1, 1, -1, 3)
        return ttnn.from_torch(rows, dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT)

    def to_torch(self, outputs: Any) -> tuple[torch.Tensor, ...]:
        height, width = self.resolution
        values = (ttnn.to_torch(output).float() for output in outputs)
        return tuple(v.reshape(self.batch_size, height, width, -1).permute(0, 3, 1, 2) for v in values)


ENTRY = ModelEntry(
    name=NAME,
    title="Two outputs",
    task="segmentation",
    reference=Reference,
    tt=OnCard,
    gates={"left": 0.99, "right": 0.99},
    resolutions=((SIZE, SIZE),),
    batch_sizes=(1, 2),
)
"""Known by its name in tests that use the fixture `small_model`."""


def small_reference(seed: int = 0, planted: bool = False) -> Reference:
    torch.manual_seed(seed)
    reference = Reference().eval()
    return reference.plant() if planted else reference
