"""UNet on the card."""

from __future__ import annotations

from typing import Any

from torch import nn

from tt_cnn.models.brought_up import BroughtUpPictureModel, TorchShape, settings_for
from tt_cnn.models.layer_factory import LayerFactory
from tt_cnn.models.tt_model import Precision

from .config import LAYERS


class TtUNet(BroughtUpPictureModel):
    """(1, 3, 64, 64) to (1, 2, 64, 64)."""

    outputs = ("output",)
    output_shapes = (TorchShape((1, 2, 64, 64)),)

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
        self.downs = [
            layers.conv2d("downs.0.0", reference.downs[0][0], reference.downs[0][1], activation=nn.ReLU()),
            layers.conv2d("downs.0.3", reference.downs[0][3], reference.downs[0][4], activation=nn.ReLU()),
        ]
        self.pool = layers.max_pool2d("pool", reference.pool)
        self.skip = layers.placement("skip")
        self.downs_2 = [
            layers.conv2d("downs.1.0", reference.downs[1][0], reference.downs[1][1], activation=nn.ReLU()),
            layers.conv2d("downs.1.3", reference.downs[1][3], reference.downs[1][4], activation=nn.ReLU()),
        ]
        self.pool_2 = layers.max_pool2d("pool_2", reference.pool)
        self.bottleneck = [
            layers.conv2d("bottleneck.0", reference.bottleneck[0], reference.bottleneck[1], activation=nn.ReLU()),
            layers.conv2d("bottleneck.3", reference.bottleneck[3], reference.bottleneck[4], activation=nn.ReLU()),
        ]
        self.ups_0 = layers.conv_transpose2d("ups.0", reference.ups[0])
        self.concat = layers.concat("concat")
        self.decoders = [
            layers.conv2d("decoders.0.0", reference.decoders[0][0], reference.decoders[0][1], activation=nn.ReLU()),
            layers.conv2d("decoders.0.3", reference.decoders[0][3], reference.decoders[0][4], activation=nn.ReLU()),
        ]
        self.ups_1 = layers.conv_transpose2d("ups.1", reference.ups[1])
        self.concat_2 = layers.concat("concat_2")
        self.decoders_2 = [
            layers.conv2d("decoders.1.0", reference.decoders[1][0], reference.decoders[1][1], activation=nn.ReLU()),
            layers.conv2d("decoders.1.3", reference.decoders[1][3], reference.decoders[1][4], activation=nn.ReLU()),
        ]
        self.final = layers.conv2d("final", reference.final)

    def __call__(self, x: Any) -> Any:
        x = self.picture(x)
        for layer in self.downs:
            x = layer(x)
        y = self.pool(x)
        x = self.skip(x)
        for layer in self.downs_2:
            y = layer(y)
        z = self.pool_2(y)
        for layer in self.bottleneck:
            z = layer(z)
        z = self.ups_0(z)
        y = self.concat([y, z])
        for layer in self.decoders:
            y = layer(y)
        y = self.ups_1(y)
        x = self.concat_2([x, y])
        for layer in self.decoders_2:
            x = layer(x)
        return self.final(x)
