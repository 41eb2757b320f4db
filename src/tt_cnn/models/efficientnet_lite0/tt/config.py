# SPDX-License-Identifier: Apache-2.0
"""How EfficientNet-Lite0 is spread over the cores, for 224x224 images."""

from __future__ import annotations

from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder import (
    HeightShardedStrategyConfiguration,
    WidthShardedStrategyConfiguration,
)
from tt_cnn.models.efficientnet_lite0.reference.model import EfficientNetLite0
from tt_cnn.models.efficientnet_lite0.tt.common import convert_parameters, names_of
from tt_cnn.models.inverted_residual_configuration import (
    CAREFUL,
    Arithmetic,
    BlockTuning,
    Tuning,
    configure,
)
from tt_cnn.models.inverted_residuals import NetworkConfiguration
from tt_cnn.models.tt_model import Precision, is_blackhole

HEIGHT = HeightShardedStrategyConfiguration()
WIDTH = WidthShardedStrategyConfiguration()
TO_WIDTH = WidthShardedStrategyConfiguration(reshard_if_not_optimal=True)

FINE = Arithmetic(ttnn.bfloat8_b, ttnn.bfloat8_b, ttnn.MathFidelity.HiFi2, float32_sums=True)

BLOCKS = (
    #           expand  depthwise  project            input, on an n150
    BlockTuning(HEIGHT, HEIGHT, HEIGHT, CAREFUL),  # 0  112x112 on 56 cores
    BlockTuning(HEIGHT, HEIGHT, HEIGHT, CAREFUL),  # 1
    BlockTuning(HEIGHT, HEIGHT, HEIGHT, CAREFUL),  # 2  56x56 on 49 cores
    BlockTuning(HEIGHT, HEIGHT, HEIGHT, CAREFUL),  # 3
    BlockTuning(HEIGHT, HEIGHT, HEIGHT, CAREFUL),  # 4  28x28 on 25 cores
    BlockTuning(HEIGHT, HEIGHT, TO_WIDTH, CAREFUL),  # 5
    BlockTuning(WIDTH, WIDTH, WIDTH, FINE),  # 6  14x14, a tile of channels per core: 3 cores, 15 inside the block
    BlockTuning(WIDTH, WIDTH, WIDTH, FINE),  # 7
    BlockTuning(WIDTH, WIDTH, WIDTH, FINE),  # 8
    BlockTuning(WIDTH, WIDTH, WIDTH, FINE),  # 9  4 cores, 21 inside
    BlockTuning(WIDTH, WIDTH, WIDTH, FINE),  # 10
    BlockTuning(WIDTH, WIDTH, WIDTH, FINE),  # 11
    BlockTuning(WIDTH, WIDTH, WIDTH, FINE),  # 12  7x7 on 6 cores, 36 inside
    BlockTuning(WIDTH, WIDTH, WIDTH, FINE),  # 13
    BlockTuning(WIDTH, WIDTH, WIDTH, FINE),  # 14
    BlockTuning(WIDTH, WIDTH, WIDTH, FINE),  # 15
)
"""Rows are distributed as long as there are enough of them for the cores, then channels.

At 14x14 MobileNetV2 distributes both. Here it would not pay: 80 and 112 channels are no whole tiles, so that every 1x1
convolution in blocks would have to reshard its input first, and 112 (4 tiles) and 672 (21) have no divisor in common,
which leaves such convolutions 7 cores. Block heights are TT-NN's: all rows of a core in one block, which fits
everywhere; the 5x5 depthwise convolutions at 28x28 come closest to L1's limit.

Precision was chosen with the public weights, on photographs (figures in the README). Folded batch norms give channels
of very different sizes there, and what the first blocks lose in blocks of bfloat8_b is lost for all others, so those
compute carefully. Further on bfloat8_b does; LoFi would triple the error that is left.
"""
LINEAR_GRID = ttnn.CoreGrid(x=8, y=4)
"""A tile of classes per core."""

WORMHOLE = Tuning(56, stem=(HEIGHT, CAREFUL), blocks=BLOCKS, head=(WIDTH, FINE), linear_grid=LINEAR_GRID)
BLACKHOLE = Tuning(98, stem=(HEIGHT, CAREFUL), blocks=BLOCKS, head=(WIDTH, FINE), linear_grid=LINEAR_GRID)
"""Its larger grid takes more rows; where channels are distributed, a tile per core is the most on both."""


def create_configuration(
    reference: EfficientNetLite0, device: Any, *, resolution: tuple[int, int], batch_size: int, precision: Precision
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
