# SPDX-License-Identifier: Apache-2.0
"""How every layer of YOLOv4 runs on the card: sharding, blocks, precision. Shapes and weights are the reference's.

A row is for one layer, or for all layers of a module that have none of their own. What is fused and what is freed
follows from the model's structure, not from a table: see `layers.py` and `model.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder import (
    BlockShardedStrategyConfiguration,
    HeightShardedStrategyConfiguration,
    ShardedStrategyConfiguration,
    WidthShardedStrategyConfiguration,
)
from tt_cnn.models.picture import PictureConfiguration
from tt_cnn.models.tt_model import Precision

LOFI, HIFI4 = ttnn.MathFidelity.LoFi, ttnn.MathFidelity.HiFi4
BF16, BF8 = ttnn.bfloat16, ttnn.bfloat8_b
HEIGHT, BLOCK, WIDTH = "height", "block", "width"

WORMHOLE_GRID, BLACKHOLE_GRID = (8, 8), (10, 8)
"""Columns and rows of the cores that the image starts on, and that what is height sharded stays on. Blackhole has 11
columns and 10 rows; 80 is the most of its cores that divide the image, of both sizes, into whole tiles."""


@dataclass(frozen=True)
class Row:
    """One convolution."""

    layout: str
    """HEIGHT for large maps with few channels, BLOCK for small ones with many. An input that is sharded stays as it is
    without `reshard`; WIDTH then only keeps TT-NN from making a matrix multiplication of a 1x1 convolution, so that its
    activation is fused."""
    output: Any = BF8
    block: int = 0
    """Rows of an activation block; 0 is all that a core has, which is the fastest where it fits."""
    reshard: bool = False
    """Whether an input that is sharded otherwise is redistributed."""
    weights: Any = BF8
    fidelity: Any = LOFI
    fp32_sums: bool = False

    @property
    def strategy(self) -> ShardedStrategyConfiguration:
        if self.layout == HEIGHT:
            return HeightShardedStrategyConfiguration(self.reshard, act_block_h_override=self.block)
        if self.layout == BLOCK:
            return BlockShardedStrategyConfiguration(self.reshard, act_block_h_override=self.block)
        return WidthShardedStrategyConfiguration(self.reshard)


def first(output: Any = BF16, **options: Any) -> Row:
    """An image is all positive: its norm subtracts a mean larger than what is left, so that rounding shows. The first
    stage has few weights and little to compute; all that follows does with LoFi and bfloat8_b weights.
    """
    return Row(HEIGHT, output, weights=BF16, fidelity=HIFI4, fp32_sums=True, **options)


# Sums of residual blocks (what conv3 gives, and the additions) are bfloat16: in bfloat8_b each of up to eight additions
# would round them. Weights and biases of what predicts are bfloat16: a block of bfloat8_b holds those of a box beside
# those of the classes, which are far larger, and with the trained weights that took points of mAP.
AT_320 = {
    "down1": first(),
    "down1.conv1": first(block=320),
    "down2": Row(HEIGHT),
    "down2.conv3": Row(HEIGHT, BF16),
    "down3": Row(HEIGHT),
    "down3.conv3": Row(HEIGHT, BF16),
    "down4": Row(BLOCK),
    "down4.conv1": Row(BLOCK, reshard=True),
    "down4.conv3": Row(BLOCK, BF16),
    "down5": Row(BLOCK),
    "down5.conv1": Row(BLOCK, reshard=True),
    "down5.conv2": Row(WIDTH),
    "down5.conv3": Row(BLOCK, BF16),
    "down5.resblock": Row(WIDTH),
    "down5.conv4": Row(WIDTH),
    "neck": Row(BLOCK),
    "neck.conv1": Row(BLOCK, reshard=True),
    "neck.conv2": Row(WIDTH),
    "neck.conv5": Row(WIDTH),
    "neck.conv7": Row(WIDTH),
    "neck.conv15": Row(HEIGHT),
    "neck.conv16": Row(HEIGHT),
    "neck.conv17": Row(HEIGHT),
    "neck.conv18": Row(HEIGHT),
    "neck.conv19": Row(HEIGHT),
    "neck.conv20": Row(HEIGHT),
    "head": Row(BLOCK),
    "head.conv1": Row(HEIGHT, reshard=True),
    "head.conv2": Row(HEIGHT, BF16, weights=BF16),
    "head.conv3": Row(BLOCK, reshard=True),
    "head.conv10": Row(BLOCK, BF16, weights=BF16),
    "head.conv11": Row(BLOCK, reshard=True),
    "head.conv13": Row(WIDTH),
    "head.conv15": Row(WIDTH),
    "head.conv17": Row(WIDTH),
    "head.conv18": Row(BLOCK, BF16, weights=BF16),
}

# Four times the pixels: the 3x3 convolutions of the first stage no longer fit with all rows of a core in one block.
# 320 divides the rows of a core on both cards.
AT_640 = {
    **AT_320,
    "down1.conv2": first(block=320),
    "down1.conv6": first(block=320),
}

TABLES = {(320, 320): AT_320, (640, 640): AT_640}
"""For both cards: Blackhole has more cores and more L1, so what fits Wormhole fits it; what differs is the grid."""


SMALLEST_STICK = 16
"""Channels of a row-major shard: 32 bytes."""


def picture_configuration(resolution: tuple[int, int], batch_size: int, grid: tuple[int, int]) -> PictureConfiguration:
    """16 channels, 13 of them zeros. The image waits on all cores, to take little of each; its shards then are made
    as high as those of 16 channels."""
    columns, rows = grid
    cores = ttnn.CoreRangeSet([ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(columns - 1, rows - 1))])
    return PictureConfiguration(*resolution, batch_size, "pad", cores, padded_channels=SMALLEST_STICK, reallocate=True)


def row_of(table: Mapping[str, Row], name: str) -> Row:
    """The layer's own row, or that of the module around it."""
    while name not in table:
        name = name.rpartition(".")[0]
    return table[name]


def table_for(resolution: tuple[int, int], precision: Precision) -> Mapping[str, Row]:
    table = TABLES[resolution]
    if precision == "tuned":
        return table
    exact: dict[str, Any] = {"output": BF16, "weights": BF16, "fidelity": HIFI4, "fp32_sums": True}
    return {name: replace(row, **exact) for name, row in table.items()}
