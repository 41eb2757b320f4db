# SPDX-License-Identifier: Apache-2.0
"""How MobileNetV2 is spread over the cores, for 224x224 images."""

from __future__ import annotations

from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder import (
    BlockShardedStrategyConfiguration,
    HeightShardedStrategyConfiguration,
    WidthShardedStrategyConfiguration,
)
from tt_cnn.models.inverted_residual_configuration import (
    CAREFUL,
    LEAN,
    BlockTuning,
    Tuning,
    configure,
)
from tt_cnn.models.inverted_residuals import NetworkConfiguration
from tt_cnn.models.mobilenetv2.reference.model import MobileNetV2
from tt_cnn.models.mobilenetv2.tt.common import convert_parameters, names_of
from tt_cnn.models.tt_model import Precision, is_blackhole

HEIGHT = HeightShardedStrategyConfiguration()
BLOCK = BlockShardedStrategyConfiguration()
WIDTH = WidthShardedStrategyConfiguration()
TO_BLOCK = BlockShardedStrategyConfiguration(reshard_if_not_optimal=True)
TO_WIDTH = WidthShardedStrategyConfiguration(reshard_if_not_optimal=True)

BLOCKS = (
    #           expand  depthwise  project            input, on an n150
    BlockTuning(HEIGHT, HEIGHT, HEIGHT, CAREFUL),  # 1  112x112 on 56 cores
    BlockTuning(HEIGHT, HEIGHT, HEIGHT, CAREFUL),  # 2
    BlockTuning(HEIGHT, HEIGHT, HEIGHT, CAREFUL),  # 3  56x56 on 49 cores
    BlockTuning(HEIGHT, HEIGHT, HEIGHT, CAREFUL),  # 4
    BlockTuning(HEIGHT, HEIGHT, HEIGHT, CAREFUL),  # 5  28x28 on 25 cores
    BlockTuning(HEIGHT, HEIGHT, HEIGHT, CAREFUL),  # 6
    BlockTuning(HEIGHT, HEIGHT, TO_BLOCK, CAREFUL),  # 7
    BlockTuning(BLOCK, BLOCK, TO_BLOCK, LEAN),  # 8  14x14 on 7 x 2 cores; 7 x 6 behind the depthwise convolution
    BlockTuning(BLOCK, BLOCK, TO_BLOCK, LEAN),  # 9
    BlockTuning(BLOCK, BLOCK, TO_BLOCK, LEAN),  # 10
    BlockTuning(BLOCK, BLOCK, TO_BLOCK, LEAN),  # 11
    BlockTuning(BLOCK, BLOCK, TO_BLOCK, LEAN),  # 12  14x14 on 7 x 3 cores
    BlockTuning(BLOCK, BLOCK, TO_BLOCK, LEAN),  # 13
    BlockTuning(BLOCK, BLOCK, TO_WIDTH, LEAN),  # 14
    BlockTuning(WIDTH, WIDTH, WIDTH, LEAN),  # 15  7x7, a tile of channels per core: 5 cores, 30 inside the block
    BlockTuning(WIDTH, WIDTH, WIDTH, LEAN),  # 16
    BlockTuning(WIDTH, WIDTH, WIDTH, LEAN),  # 17
)
"""Rows are distributed as long as there are enough of them for the cores.

At 14x14 there are 7 tiles of rows, so channels are distributed too; 1x1 convolutions are matrix multiplications there,
which need the same cores on both sides, so the projection gathers the channels on fewer cores again. At 7x7 only
channels are left to distribute. Block heights are TT-NN's: all rows of a core in one block, which fits everywhere.

The first blocks compute carefully: what they lose is lost for all others, and their weights and tensors are small.
With seeded weights it makes the difference between a PCC of 0.98 and one of 0.99; with trained ones, whose folded
batch norms make channels of very different sizes, it makes a larger one (figures in EfficientNet-Lite0's README, which
is built alike and has public weights).
"""
LINEAR_GRID = ttnn.CoreGrid(x=8, y=4)
"""A tile of classes per core."""

WORMHOLE = Tuning(56, stem=(HEIGHT, CAREFUL), blocks=BLOCKS, head=(WIDTH, LEAN), linear_grid=LINEAR_GRID)
BLACKHOLE = Tuning(98, stem=(HEIGHT, CAREFUL), blocks=BLOCKS, head=(WIDTH, LEAN), linear_grid=LINEAR_GRID)
"""Its larger grid takes more rows, and more channels at 14x14 (576 on 7 x 9); the layouts stay good."""


def create_configuration(
    reference: MobileNetV2, device: Any, *, resolution: tuple[int, int], batch_size: int, precision: Precision
) -> NetworkConfiguration:
    return configure(
        reference,
        convert_parameters(reference, device),
        names_of(reference),
        BLACKHOLE if is_blackhole(device) else WORMHOLE,
        device,
        batch_size=batch_size,
        resolution=resolution,
        precision=precision,
    )
