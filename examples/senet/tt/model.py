"""SENet on the card."""

from __future__ import annotations

from typing import Any

from torch import nn

from tt_cnn.models.brought_up import BroughtUpPictureModel, TorchShape, settings_for
from tt_cnn.models.layer_factory import LayerFactory
from tt_cnn.models.tt_model import Precision

from .config import LAYERS


class TtSEBlock:
    def __init__(self, layers: LayerFactory, module: Any, name: str) -> None:
        self.conv1 = layers.conv2d(f"{name}.conv1", module.conv1, module.bn1, activation=nn.ReLU())
        self.conv2 = layers.conv2d(f"{name}.conv2", module.conv2, module.bn2)
        self.se = layers.squeeze_excite(
            f"{name}.se.squeeze_excite",
            module.se.fc1,
            module.se.fc2,
            nn.ReLU(),
            nn.Sigmoid(),
        )
        self.shortcut = None
        if layers.has(f"{name}.shortcut.0"):
            self.shortcut = layers.conv2d(f"{name}.shortcut.0", module.shortcut[0], module.shortcut[1])
        self.add = layers.add(f"{name}.add", activation=nn.ReLU())

    def __call__(self, x: Any) -> Any:
        y = self.conv1(x)
        y = self.conv2(y)
        y = self.se(y)
        if self.shortcut is not None:
            x = self.shortcut(x)
        return self.add(y, x)


class TtSENet(BroughtUpPictureModel):
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
        self.stem = layers.conv2d("stem.0", reference.stem[0], reference.stem[1], activation=nn.ReLU())
        self.blocks = [TtSEBlock(layers, block, f"blocks.{index}") for index, block in enumerate(reference.blocks)]
        self.adaptive_avg_pool2d = layers.global_avg_pool2d("adaptive_avg_pool2d")
        self.head = layers.linear("head", reference.head)

    def __call__(self, x: Any) -> Any:
        x = self.picture(x)
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        x = self.adaptive_avg_pool2d(x)
        return self.head(x)
