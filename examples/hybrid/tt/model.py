"""Hybrid on the card."""

from __future__ import annotations

from typing import Any

from torch import nn

from tt_cnn.models.brought_up import BroughtUpPictureModel, TorchShape, settings_for
from tt_cnn.models.layer_factory import LayerFactory
from tt_cnn.models.tt_model import Precision

from .config import LAYERS


class TtAttention:
    def __init__(self, layers: LayerFactory, module: Any, name: str) -> None:
        self.qkv = layers.linear(f"{name}.qkv", module.qkv)
        self.attention = layers.attention(f"{name}.attention", 2, 32, 1, scale=0.1767766953)
        self.proj = layers.linear(f"{name}.proj", module.proj)

    def __call__(self, x: Any) -> Any:
        x = self.qkv(x)
        x = self.attention(x)
        return self.proj(x)


class TtMlp:
    def __init__(self, layers: LayerFactory, module: Any, name: str) -> None:
        self.fc1 = layers.linear(f"{name}.fc1", module.fc1, activation=nn.GELU())
        self.fc2 = layers.linear(f"{name}.fc2", module.fc2)

    def __call__(self, x: Any) -> Any:
        x = self.fc1(x)
        return self.fc2(x)


class TtBlock:
    def __init__(self, layers: LayerFactory, module: Any, name: str) -> None:
        self.norm1 = layers.layer_norm(f"{name}.norm1", module.norm1)
        self.attn = TtAttention(layers, module.attn, f"{name}.attn")
        self.add = layers.add(f"{name}.add")
        self.norm2 = layers.layer_norm(f"{name}.norm2", module.norm2)
        self.skip = None
        if layers.has(f"{name}.skip"):
            self.skip = layers.placement(f"{name}.skip")
        self.mlp = TtMlp(layers, module.mlp, f"{name}.mlp")
        self.add_2 = layers.add(f"{name}.add_2")

    def __call__(self, x: Any) -> Any:
        y = self.norm1(x)
        y = self.attn(y)
        x = self.add(x, y)
        z = self.norm2(x)
        if self.skip is not None:
            x = self.skip(x)
        z = self.mlp(z)
        return self.add_2(x, z)


class TtHybrid(BroughtUpPictureModel):
    """(1, 3, 64, 64) to (1, 10)."""

    outputs = ("output",)
    output_shapes = (TorchShape((1, 10)),)

    def __init__(
        self,
        reference: Any,
        device: Any,
        *,
        resolution: tuple[int, int] = (64, 64),
        batch_size: int = 1,
        precision: Precision = "tuned",
    ) -> None:
        self.device, self.resolution, self.batch_size = device, resolution, batch_size
        layers = LayerFactory(reference, device, batch_size, settings_for(LAYERS, precision))
        self.picture = layers.picture("picture")
        self.stem = [
            layers.conv2d("stem.0", reference.stem[0], reference.stem[1], activation=nn.SiLU()),
            layers.conv2d("stem.3", reference.stem[3], reference.stem[4], activation=nn.SiLU()),
            layers.conv2d("stem.6", reference.stem[6], reference.stem[7]),
        ]
        self.pos = layers.conv2d("pos", reference.pos)
        self.add = layers.add("add")
        self.blocks = [TtBlock(layers, block, f"blocks.{index}") for index, block in enumerate(reference.blocks)]
        self.norm = layers.layer_norm("norm", reference.norm)
        self.mean = layers.function("mean", "mean", dim=2, keepdim=True)
        self.head = layers.linear("head", reference.head)

    def __call__(self, x: Any) -> Any:
        x = self.picture(x)
        for layer in self.stem:
            x = layer(x)
        y = self.pos(x)
        x = self.add(x, y)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        x = self.mean(x)
        return self.head(x)
