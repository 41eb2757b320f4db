# SPDX-License-Identifier: Apache-2.0
"""Configurations of all layers, for a card, a batch size and a precision.

What the layers compute is the same everywhere; how they are spread over the cores stands in `WORMHOLE` and `BLACKHOLE`,
a row for each batch size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder import (
    AddConfiguration,
    AvgPool2dConfiguration,
    BlockShardedStrategyConfiguration,
    Conv2dConfiguration,
    HeightShardedStrategyConfiguration,
    LinearConfiguration,
    MaxPool2dConfiguration,
    PlacementConfiguration,
)
from tt_cnn.models.resnet50.reference.model import BLOCKS, STEM_CHANNELS
from tt_cnn.models.resnet50.tt.common import BORDER, FOLD, PATCH_CHANNELS
from tt_cnn.models.resnet50.tt.fold import FoldConfiguration
from tt_cnn.models.resnet50.tt.sharding import TILE, all_of, block_sharded, height_sharded, row_by_row, width_sharded
from tt_cnn.models.tt_model import Precision, is_blackhole

RELU = ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU)
PRECISIONS: dict[Precision, tuple[Any, Any]] = {
    "tuned": (ttnn.bfloat8_b, ttnn.MathFidelity.LoFi),
    "bfloat16": (ttnn.bfloat16, ttnn.MathFidelity.HiFi4),
}
"""Activations and fidelity. LoFi reads all of bfloat8_b activations, but would cut bfloat16 ones short."""
COLUMNS = 8
"""Block shards cut channels into 8: layer3 has 256 of them, 8 tiles, where it has fewest."""
POOL_GRID = ttnn.CoreGrid(x=8, y=8)
"""A tile of the 2048 channels on each core."""
FC_GRID = ttnn.CoreGrid(x=8, y=4)
"""A tile of the 1000 logits on each core."""
ONE_BLOCK = {"enable_act_double_buffer": False, "enable_weights_double_buffer": False}
"""For a convolution of height shards that a core does in one block: there is nothing to read ahead."""


@dataclass(frozen=True)
class Tuning:
    """What depends on the card, the batch size and the precision.

    A stage has as many cores as its output fills, with none left over: matmuls (which 1x1 convolutions are) use just
    those, and the two summands of a bottleneck should lie on the same cores.
    """

    fold_cores: int
    """Each has whole planes of the padded images."""
    layer1_cores: int | None
    """None: those on which the stem leaves its output, so that nothing has to be moved."""
    layer2_cores: int
    layer3_rows: int
    layer4_rows: int
    """Rows of cores, COLUMNS in each."""
    act_block_h: Mapping[str, int] = field(default_factory=dict)
    """Rows in a block of a convolution, where TT-NN's choice (all that a core has) does not fit."""
    moved: frozenset[str] = frozenset()
    """What fits only when holes in L1 are closed before it: convolutions, by moving their input once it has its border,
    and stages, by moving their input."""


LARGEST = frozenset({"layer2.0.conv2", "layer2.0.downsample"})
"""The only ones that take 56x56 pixels of 128 and 256 channels, with the input of the bottleneck beside them."""


def blocks_of(tiles: int, stage: int) -> dict[str, int]:
    """Blocks of so many tiles in all 3x3 convolutions of a stage."""
    return {f"layer{stage}.{index}.conv2": tiles * TILE for index in range(BLOCKS[stage - 1])}


WORMHOLE = {
    1: Tuning(4, None, 25, 7, 2),
    8: Tuning(32, None, 49, 7, 7),
    16: Tuning(64, 56, 56, 8, 7, act_block_h={"conv1": 49 * TILE, **blocks_of(14, 1)}, moved=LARGEST),
}
BLACKHOLE = {
    1: Tuning(4, None, 25, 7, 2),
    8: Tuning(32, None, 98, 10, 7),
    16: Tuning(64, None, 98, 10, 9),
    32: Tuning(
        64,
        98,
        98,
        10,
        10,
        act_block_h={
            "conv1": 23 * TILE,
            **blocks_of(16, 1),
            "layer2.0.conv2": 4 * TILE,
            "layer2.0.downsample": 2 * TILE,
        },
        moved=LARGEST,
    ),
}
WORMHOLE_BFLOAT16 = {
    **WORMHOLE,
    16: replace(
        WORMHOLE[16],
        act_block_h={"conv1": 49 * TILE, **blocks_of(7, 1), **blocks_of(1, 2), "layer2.0.downsample": TILE},
        moved=LARGEST | {"layer2"},
    ),
}
BLACKHOLE_BFLOAT16 = {batch_size: tuning for batch_size, tuning in BLACKHOLE.items() if batch_size <= 16}
"""Activations are twice as large: blocks are smaller where they have to be, and 32 images do not fit."""
TUNINGS: dict[tuple[bool, Precision], Mapping[int, Tuning]] = {
    (False, "tuned"): WORMHOLE,
    (False, "bfloat16"): WORMHOLE_BFLOAT16,
    (True, "tuned"): BLACKHOLE,
    (True, "bfloat16"): BLACKHOLE_BFLOAT16,
}
"""By whether the card is a Blackhole."""


@dataclass(frozen=True)
class StemConfiguration:
    fold: FoldConfiguration
    conv1: Conv2dConfiguration
    maxpool: MaxPool2dConfiguration


@dataclass(frozen=True)
class BottleneckConfiguration:
    conv1: Conv2dConfiguration
    conv2: Conv2dConfiguration
    conv3: Conv2dConfiguration
    downsample: Conv2dConfiguration | None
    add: AddConfiguration

    @property
    def shortcut_first(self) -> bool:
        """A downsampling with stride copies its input, border and all: that fits only as the last that reads it."""
        return self.downsample is None or self.downsample.stride == (1, 1)


@dataclass(frozen=True)
class StageConfiguration:
    input: PlacementConfiguration
    blocks: tuple[BottleneckConfiguration, ...]


@dataclass(frozen=True)
class HeadConfiguration:
    avgpool_input: PlacementConfiguration
    avgpool: AvgPool2dConfiguration
    fc_input: PlacementConfiguration
    fc: LinearConfiguration


class Configurations:
    """Makes the configurations of one model: `stem()`, `stage(1)` to `stage(4)`, `head()`."""

    def __init__(self, parameters: Any, device: Any, *, size: int, batch_size: int, precision: Precision) -> None:
        self.parameters = parameters
        self.device = device
        self.size = size
        """Height and width of the images."""
        self.batch_size = batch_size
        self.dtype, self.fidelity = PRECISIONS[precision]
        tunings = TUNINGS[is_blackhole(device), precision]
        if batch_size not in tunings:
            raise ValueError(f"batch_size is {batch_size}; on this card it must be {' or '.join(map(str, tunings))}")
        self.tuning = tunings[batch_size]

    def stem(self) -> StemConfiguration:
        """All cores of the card: the images are larger here than anywhere else."""
        patches = (self.size + 2 * BORDER) // FOLD
        half = self.size // 2
        grid = self.device.compute_with_storage_grid_size()
        conv1 = self._convolution(
            "conv1",
            self.parameters["conv1"],
            patches,
            HeightShardedStrategyConfiguration,
            activation=RELU,
            activation_dtype=ttnn.bfloat16,
            deallocate_activation=True,
        )
        maxpool = MaxPool2dConfiguration(
            half,
            half,
            STEM_CHANNELS,
            self.batch_size,
            kernel_size=(3, 3),
            stride=(2, 2),
            padding=(1, 1),
            dtype=self.dtype,
            output_layout=ttnn.TILE_LAYOUT,
            deallocate_input=True,
        )
        rows = self.batch_size * patches * patches
        return StemConfiguration(
            fold=FoldConfiguration(
                self.batch_size,
                grid=row_by_row(self.tuning.fold_cores, self.device),
                memory_config=height_sharded(rows, PATCH_CHANNELS, grid.x * grid.y, self.device),
            ),
            conv1=conv1,
            maxpool=maxpool,
        )

    def stage(self, number: int) -> StageConfiguration:
        """Height shards while images are large and channels few (1 and 2), block shards after that (3 and 4)."""
        parameters = self.parameters[f"layer{number}"]
        size = self.size // (4, 4, 8, 16)[number - 1]
        blocks = []
        channels = parameters[0].conv1.weight.shape[1]
        input_memory_config = self._stage_input(number, size, channels)
        for index in range(BLOCKS[number - 1]):
            stride = 2 if index == 0 and number > 1 else 1
            blocks.append(self._bottleneck(number, index, size, stride))
            size //= stride
        placement = PlacementConfiguration(input_memory_config, reallocate=f"layer{number}" in self.tuning.moved)
        return StageConfiguration(placement, tuple(blocks))

    def _stage_input(self, number: int, size: int, channels: int) -> Any:
        rows = self.batch_size * size * size
        if number <= 2:
            cores = self.tuning.layer1_cores if number == 1 else self.tuning.layer2_cores
            return None if cores is None else height_sharded(rows, channels, cores, self.device)
        return block_sharded(rows, channels, self._block_grid(number))

    def _block_grid(self, number: int) -> Any:
        return ttnn.CoreGrid(x=COLUMNS, y=self.tuning.layer3_rows if number == 3 else self.tuning.layer4_rows)

    def _bottleneck(self, number: int, index: int, size: int, stride: int) -> BottleneckConfiguration:
        """Each convolution gives its input back; the bottleneck's own goes with the last that reads it."""
        name = f"layer{number}.{index}"
        parameters = self.parameters[f"layer{number}"][index]
        strategy = HeightShardedStrategyConfiguration if number <= 2 else BlockShardedStrategyConfiguration
        downsample = None
        if "downsample" in parameters:
            downsample = self._downsample(number, f"{name}.downsample", parameters.downsample[0], size, stride)
        return BottleneckConfiguration(
            conv1=self._convolution(
                f"{name}.conv1",
                parameters.conv1,
                size,
                strategy,
                activation=RELU,
                deallocate_activation=downsample is not None and stride == 1,
            ),
            conv2=self._convolution(
                f"{name}.conv2",
                parameters.conv2,
                size,
                strategy,
                stride=(stride, stride),
                padding=(1, 1),
                activation=RELU,
                deallocate_activation=True,
            ),
            conv3=self._convolution(
                f"{name}.conv3", parameters.conv3, size // stride, strategy, deallocate_activation=True
            ),
            downsample=downsample,
            add=AddConfiguration(activation=RELU),
        )

    def _downsample(self, number: int, name: str, parameters: Any, size: int, stride: int) -> Conv2dConfiguration:
        """On the cores of conv3, its other summand: TT-NN would spread block shards over all columns of a Blackhole."""
        settings: dict[str, Any] = {"stride": (stride, stride), "deallocate_activation": stride > 1}
        if number <= 2:
            return self._convolution(
                name, parameters, size, HeightShardedStrategyConfiguration, **settings, **ONE_BLOCK
            )
        strategy = BlockShardedStrategyConfiguration(
            override_core_grid=all_of(self._block_grid(number)), override_output_sharding_config=True
        )
        return self._convolution(
            name, parameters, size, BlockShardedStrategyConfiguration, sharding_strategy=strategy, **settings
        )

    def head(self) -> HeadConfiguration:
        size = self.size // 32
        weight, bias = self.parameters.fc.weight, self.parameters.fc.bias
        inputs, outputs = weight.shape
        avgpool = AvgPool2dConfiguration(
            size,
            size,
            inputs,
            self.batch_size,
            kernel_size=(size, size),
            dtype=self.dtype,
            output_layout=ttnn.TILE_LAYOUT,
            deallocate_input=True,
            reallocate_halo_output=False,
        )
        fc = LinearConfiguration(
            inputs,
            outputs,
            weight,
            bias,
            weights_dtype=ttnn.bfloat8_b,
            output_dtype=ttnn.bfloat16,
            math_fidelity=self.fidelity,
            packer_l1_acc=True,
            memory_config=ttnn.L1_WIDTH_SHARDED_MEMORY_CONFIG,
            core_grid=FC_GRID,
        )
        return HeadConfiguration(
            avgpool_input=PlacementConfiguration(width_sharded(self.batch_size * size * size, inputs, POOL_GRID)),
            avgpool=avgpool,
            fc_input=PlacementConfiguration(width_sharded(self.batch_size, inputs, FC_GRID)),
            fc=fc,
        )

    def _convolution(
        self, name: str, parameters: Any, size: int, strategy: type[Any], **settings: Any
    ) -> Conv2dConfiguration:
        """Of square images, with all that the convolutions have in common; `settings` come on top."""
        outputs, inputs, *kernel = parameters.weight.shape
        common = {
            "activation_dtype": self.dtype,
            "output_dtype": self.dtype,
            "weights_dtype": ttnn.bfloat8_b,
            "sharding_strategy": strategy(act_block_h_override=self.tuning.act_block_h.get(name, 0)),
            "math_fidelity": self.fidelity,
            "packer_l1_acc": True,
            "enable_act_double_buffer": True,
            "reallocate_halo_output": name in self.tuning.moved,
        }
        return Conv2dConfiguration(
            size,
            size,
            inputs,
            outputs,
            self.batch_size,
            tuple(kernel),
            parameters.weight,
            bias=parameters.bias,
            **{**common, **settings},
        )
