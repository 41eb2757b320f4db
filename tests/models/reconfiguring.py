# SPDX-License-Identifier: Apache-2.0
"""Random settings for layers, whatever these are, and models that have as many of them as a card takes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder import (
    AddConfiguration,
    AutoShardedStrategyConfiguration,
    AvgPool2dConfiguration,
    BlockShardedStrategyConfiguration,
    ConcatConfiguration,
    Configuration,
    Conv2dConfiguration,
    ConvTranspose2dConfiguration,
    HeightShardedStrategyConfiguration,
    LinearConfiguration,
    MaxPool2dConfiguration,
    PlacementConfiguration,
    WidthShardedStrategyConfiguration,
)
from tt_cnn.builder.overrides import Assignment
from tt_cnn.models.picture import PictureConfiguration
from tt_cnn.optimizer.prediction import PlannedNetwork, Prediction

Settings = dict[str, Any]
DTYPES = (ttnn.bfloat16, ttnn.bfloat8_b)
LAYOUTS = (ttnn.TILE_LAYOUT, ttnn.ROW_MAJOR_LAYOUT)
FIDELITIES = (ttnn.MathFidelity.HiFi2, ttnn.MathFidelity.HiFi3, ttnn.MathFidelity.HiFi4)
"""Not LoFi: it cuts bfloat16 activations short, which alone may take a network under the PCC that tells faults."""
MEMORIES = (None, ttnn.DRAM_MEMORY_CONFIG, ttnn.L1_MEMORY_CONFIG)
LAYOUTS_OF_SHARDS = ttnn.TensorMemoryLayout


def _strategy(draw: random.Random) -> Any:
    reshard, rows = draw.random() < 0.5, draw.choice((0, 32, 64, 128))
    return draw.choice(
        (
            AutoShardedStrategyConfiguration(),
            HeightShardedStrategyConfiguration(reshard, act_block_h_override=rows),
            BlockShardedStrategyConfiguration(reshard, act_block_h_override=rows),
            WidthShardedStrategyConfiguration(reshard),
        )
    )


def _format(draw: random.Random, dtype: str = "output_dtype") -> Settings:
    """Block formats exist only as tiles."""
    chosen = draw.choice(DTYPES)
    return {dtype: chosen, "output_layout": draw.choice(LAYOUTS) if chosen == ttnn.bfloat16 else ttnn.TILE_LAYOUT}


def _convolution(draw: random.Random) -> Settings:
    return {
        **_format(draw),
        "sharding_strategy": _strategy(draw),
        "weights_dtype": draw.choice(DTYPES),
        "math_fidelity": draw.choice(FIDELITIES),
        "fp32_dest_acc_en": draw.random() < 0.5,
        "packer_l1_acc": draw.random() < 0.5,
        "enable_act_double_buffer": draw.random() < 0.5,
        "enable_weights_double_buffer": draw.random() < 0.5,
        "reallocate_halo_output": draw.random() < 0.5,
        "deallocate_activation": draw.random() < 0.5,
        "output_memory_config": draw.choice(MEMORIES),
        "slice_strategy": None,
    }


def _pool(draw: random.Random) -> Settings:
    shards = (None, LAYOUTS_OF_SHARDS.HEIGHT_SHARDED, LAYOUTS_OF_SHARDS.BLOCK_SHARDED, LAYOUTS_OF_SHARDS.WIDTH_SHARDED)
    return {**_format(draw, "dtype"), "applied_shard_scheme": draw.choice(shards)}


def _placement(draw: random.Random) -> Settings:
    return {"memory_config": draw.choice(MEMORIES), "reallocate": draw.random() < 0.3}


def _concat(draw: random.Random) -> Settings:
    dtype = draw.choice((None, *DTYPES))
    return {
        "place": draw.choice(("shards", "l1", "dram")),
        "layout": draw.choice((None, *LAYOUTS)),
        "output_dtype": dtype,
        "output_layout": ttnn.TILE_LAYOUT if dtype in DTYPES[1:] else draw.choice((None, *LAYOUTS)),
        "reallocate": draw.random() < 0.5,
    }


def _add(draw: random.Random) -> Settings:
    return {
        "fuse_activation": draw.random() < 0.5,
        "in_place": draw.random() < 0.5,
        "memory_config": draw.choice(MEMORIES),
        "output_dtype": draw.choice((None, *DTYPES)),
    }


def _linear(draw: random.Random) -> Settings:
    return {
        "output_dtype": draw.choice(DTYPES),
        "weights_dtype": draw.choice(DTYPES),
        "math_fidelity": draw.choice(FIDELITIES),
        "memory_config": draw.choice((*MEMORIES, ttnn.L1_WIDTH_SHARDED_MEMORY_CONFIG)),
        "core_grid": None,
    }


def _picture(draw: random.Random) -> Settings:
    return {
        "form": draw.choice(("hwc", "pad")),
        "waits_padded": draw.random() < 0.5,
        "padded_channels": draw.choice((8, 16)),
        "memory_config": draw.choice(MEMORIES),
        "reallocate": draw.random() < 0.5,
    }


SETTINGS: dict[type[Configuration], Callable[[random.Random], Settings]] = {
    Conv2dConfiguration: _convolution,
    ConvTranspose2dConfiguration: _convolution,
    MaxPool2dConfiguration: _pool,
    AvgPool2dConfiguration: _pool,
    PlacementConfiguration: _placement,
    ConcatConfiguration: _concat,
    AddConfiguration: _add,
    LinearConfiguration: _linear,
    PictureConfiguration: _picture,
}


def drawn(configuration: Configuration, draw: random.Random) -> Settings:
    """A few random settings of a layer; none where it has none that could be chosen."""
    draws = SETTINGS.get(type(configuration))
    if draws is None:
        return {}
    all_of_them = draws(draw)
    names = draw.sample(sorted(all_of_them), draw.randint(1, len(all_of_them)))
    return {name: all_of_them[name] for name in names}


def reconfigured(network: PlannedNetwork, draw: random.Random, tries: int) -> tuple[Assignment, int]:
    """Settings drawn for layers one after another and kept where the card takes the model, and how many were."""
    assignment, kept = Assignment(), 0
    names = [name for name, each in network.configurations.items() if type(each) in SETTINGS]
    for _ in range(tries):
        name = draw.choice(names)
        candidate = assignment.but(name, **drawn(network.configurations[name], draw))
        if candidate != assignment and isinstance(network.predict(candidate), Prediction):
            assignment, kept = candidate, kept + 1
    return assignment, kept
