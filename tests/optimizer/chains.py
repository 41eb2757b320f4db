# SPDX-License-Identifier: Apache-2.0
"""Small random networks on a planning card: convolutions one after the other, some beside a skip that joins again."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple

import torch

from tt_cnn import ttnn
from tt_cnn.builder import (
    Conv2dConfiguration,
    HeightShardedStrategyConfiguration,
    L1FullSliceStrategyConfiguration,
    PlacementConfiguration,
    TtConv2d,
    TtPlacement,
)
from tt_cnn.builder.overrides import overriding
from tt_cnn.optimizer.prediction import PlannedNetwork
from tt_cnn.reports.collection import no_collection
from tt_cnn.reports.profiling import PlannedModel
from tt_cnn.reports.recording import PlanningCard

Join = Literal["", "add", "concat"]


class Link(NamedTuple):
    """One convolution, and how its input comes to its output."""

    out_channels: int
    kernel: int
    stride: int
    join: Join


class Chain(NamedTuple):
    size: int
    channels: int
    links: tuple[Link, ...]


def random_chain(source: random.Random, most: int = 5) -> Chain:
    size, channels = source.choice((8, 14, 16, 28, 40, 56)), source.choice((32, 64, 96, 128, 256))
    start = Chain(size, channels, ())
    links: list[Link] = []
    for _ in range(source.randint(2, most)):
        kernel = source.choice((1, 3, 3, 5))
        stride = 2 if source.random() < 0.25 and size >= 14 else 1
        out = source.choice((32, 64, 96, 128, 256))
        join: Join = source.choice(("", "", "add", "concat")) if stride == 1 else ""
        if join == "add":
            out = channels
        links.append(Link(out, kernel, stride, join))
        size = (size + stride - 1) // stride
        channels = out + channels if join == "concat" else out
    return start._replace(links=tuple(links))


class ChainModel:
    """Called as the models of the registry are."""

    resolution, batch_size, chips, outputs = (32, 32), 1, 1, ("y",)

    def __init__(
        self, chain: Chain, device: Any, memory_config: Any = ttnn.L1_MEMORY_CONFIG, skips: Any = None
    ) -> None:
        self.chain, self.device = chain, device
        self.l1_input_memory_config = memory_config
        self.placements = {}
        size, channels = chain.size, chain.channels
        self.convolutions = []
        with overriding() as made:
            for number, link in enumerate(chain.links):
                configuration = Conv2dConfiguration.with_random_weights(
                    size,
                    size,
                    channels,
                    link.out_channels,
                    1,
                    (link.kernel, link.kernel),
                    stride=(link.stride, link.stride),
                    padding=(link.kernel // 2, link.kernel // 2),
                    sharding_strategy=HeightShardedStrategyConfiguration(reshard_if_not_optimal=True),
                    slice_strategy=L1FullSliceStrategyConfiguration(),
                )
                self.convolutions.append(TtConv2d(configuration, device, f"conv{number}"))
                if link.join:
                    self.placements[number] = TtPlacement(PlacementConfiguration(skips), device, f"skip{number}")
                size = configuration.output_size[0]
                channels = link.out_channels + channels * (link.join == "concat")
        self.layers = {layer.name: layer for layer in made.layers}

    def blank_input(self) -> torch.Tensor:
        return torch.zeros(self.batch_size * self.chips, 3, *self.resolution)

    def place_host_input(self, host: Any) -> Any:
        return ttnn.to_device(host, self.device, memory_config=self.l1_input_memory_config)

    def to_host_input(self, images: torch.Tensor) -> Any:
        shape = (1, 1, self.chain.size**2, self.chain.channels)
        return ttnn.from_torch(torch.zeros(shape), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT)

    def __call__(self, x: Any) -> Any:
        given = x
        for number, (link, convolution) in enumerate(zip(self.chain.links, self.convolutions, strict=True)):
            skip = self.placements[number](x, keep_input=True) if link.join else x
            y = convolution(x)
            if link.join == "add":
                z = ttnn.add(skip, y)
            elif link.join == "concat":
                z = ttnn.concat([spread(skip), spread(y)], dim=3, memory_config=ttnn.L1_MEMORY_CONFIG)
            else:
                z = y
            if z is not y:
                ttnn.deallocate(y)
            if skip is not x:
                ttnn.deallocate(skip)
            if x is not given:
                ttnn.deallocate(x)
            x = z
        return x


def spread(x: Any) -> Any:
    return ttnn.to_memory_config(x, ttnn.L1_MEMORY_CONFIG) if x.is_sharded() else x


@contextmanager
def planned_chain(
    chain: Chain, card: str = "n150", memory_config: Any = ttnn.L1_MEMORY_CONFIG, skips: Any = None
) -> Iterator[PlannedNetwork]:
    """`memory_config` is where the input is given, `skips` where what is joined later waits."""
    device = PlanningCard(card, l1_small_size=65536)
    try:
        entry: Any = SimpleNamespace(name="chain")
        model: Any = ChainModel(chain, device, memory_config, skips)
        device.advises = False
        with no_collection():
            yield PlannedNetwork(PlannedModel(entry, device, model, 0))
    finally:
        device.close()
