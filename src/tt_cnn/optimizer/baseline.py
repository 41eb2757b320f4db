# SPDX-License-Identifier: Apache-2.0
"""The settings of a model that was brought up and not tuned: what an optimised model is compared with.

Every layer has the builder's defaults: `AutoShardedStrategyConfiguration`, bfloat16 weights and activations, and the
compute configuration of `init_device_compute_kernel_config` (LoFi, no float32 sums, no packer accumulation; a
`ttnn.conv2d` that is given none computes in HiFi4, which takes longer still). What a layer computes stays, activations
included, and so does what says who frees a tensor.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder import (
    AutoShardedStrategyConfiguration,
    AvgPool2dConfiguration,
    ConcatConfiguration,
    Configuration,
    Conv2dConfiguration,
    ConvTranspose2dConfiguration,
    GlobalAvgPool2dConfiguration,
    LinearConfiguration,
    MaxPool2dConfiguration,
    PlacementConfiguration,
)
from tt_cnn.builder.overrides import Assignment, LayerSettings
from tt_cnn.optimizer.prediction import Prediction, Predictor, Refusal

COMPUTE: LayerSettings = {
    "math_fidelity": ttnn.MathFidelity.LoFi,
    "fp32_dest_acc_en": False,
    "packer_l1_acc": False,
}
CONVOLUTION: LayerSettings = {
    "sharding_strategy": AutoShardedStrategyConfiguration(),
    "slice_strategy": None,
    "weights_dtype": ttnn.bfloat16,
    "activation_dtype": ttnn.bfloat16,
    "output_dtype": ttnn.bfloat16,
    "output_layout": ttnn.TILE_LAYOUT,
    "enable_act_double_buffer": False,
    "enable_weights_double_buffer": True,
    "reallocate_halo_output": True,
    "config_tensors_in_dram": False,
    **COMPUTE,
}
LINEAR: LayerSettings = {
    "weights_dtype": ttnn.bfloat16,
    "output_dtype": ttnn.bfloat16,
    "memory_config": None,
    "core_grid": None,
    **COMPUTE,
}
CONVOLUTIONS = (Conv2dConfiguration, ConvTranspose2dConfiguration)
IN_DRAM: LayerSettings = {"output_memory_config": ttnn.DRAM_MEMORY_CONFIG}


def naive_assignment(configurations: Mapping[str, Configuration]) -> Assignment:
    """The settings for the layers of a model, in place of its own."""
    return Assignment({name: _naive(configuration) for name, configuration in configurations.items()})


def _naive(configuration: Configuration) -> LayerSettings:
    """Nothing for a layer that has no such settings: what it is then is part of the model."""
    if isinstance(configuration, CONVOLUTIONS):
        return CONVOLUTION
    if isinstance(configuration, LinearConfiguration):
        return LINEAR
    if isinstance(configuration, (MaxPool2dConfiguration, AvgPool2dConfiguration)):
        return {"dtype": ttnn.bfloat16}
    if isinstance(configuration, GlobalAvgPool2dConfiguration):
        return {"dtype": None, "memory_config": None}
    if isinstance(configuration, ConcatConfiguration):
        dtype = None if configuration.output_dtype is None else ttnn.bfloat16
        return {"place": "dram", "layout": None, "output_dtype": dtype, "reallocate": False}
    if isinstance(configuration, PlacementConfiguration):
        return _unplaced(configuration)
    return {}


def _unplaced(configuration: PlacementConfiguration) -> LayerSettings:
    """Shards of one's own choice are tuning; to interleave a tensor may be needed by the op that follows."""
    config = configuration.memory_config
    wanted = None if config is None or config.shard_spec is not None else config
    return {"memory_config": wanted, "reallocate": False}


def fitting_naive_assignment(predictor: Predictor) -> tuple[Assignment, Prediction | Refusal]:
    """The naive settings, and what has to be added to them so that the card takes the model.

    For each layer that is refused, the first of these that was not done yet: its tables go to DRAM, where L1_SMALL is
    full; its input is left in DRAM by the convolution before it, and so is its output; its input is put into DRAM at
    the last place before it where a tensor's memory is chosen. TT-NN then cuts the layer into as many slices as it
    takes.
    """
    assignment = naive_assignment(predictor.configurations)
    prediction = predictor.predict(assignment)
    while isinstance(prediction, Refusal):
        changes = _remedy(prediction, assignment, predictor.configurations)
        if not changes:
            break
        assignment = assignment.with_all(changes)
        prediction = predictor.predict(assignment)
    return assignment, prediction


def _remedy(
    refusal: Refusal, assignment: Assignment, configurations: Mapping[str, Configuration]
) -> dict[str, LayerSettings]:
    if refusal.layer not in configurations:
        return {}
    order = list(configurations)
    before = order[: order.index(refusal.layer)]
    convolutions = [name for name in (*before, refusal.layer) if isinstance(configurations[name], CONVOLUTIONS)]
    own = refusal.layer in convolutions
    if "L1_SMALL" in refusal.reason:
        table = "config_tensors_in_dram" if own else "config_tensor_in_dram"
        return _new({refusal.layer: {table: True}}, assignment, configurations)
    kept_in_dram = _new({name: IN_DRAM for name in convolutions[-2 if own else -1 :]}, assignment, configurations)
    if kept_in_dram:
        return kept_in_dram
    places = [name for name in before if _chooses_memory(configurations[name])]
    chosen = {name: {"memory_config": ttnn.DRAM_MEMORY_CONFIG} for name in places[-1:]}
    return _new(chosen, assignment, configurations)


def _chooses_memory(configuration: Configuration) -> bool:
    """An output in place of its input is where that was."""
    return hasattr(configuration, "memory_config") and not getattr(configuration, "in_place", False)


def _new(
    changes: Mapping[str, LayerSettings], assignment: Assignment, configurations: Mapping[str, Configuration]
) -> dict[str, LayerSettings]:
    """Those of the changes that change something."""

    def current(name: str, field: str) -> Any:
        own = assignment.get(name, {})
        return own[field] if field in own else getattr(configurations[name], field)

    return {
        name: settings
        for name, settings in changes.items()
        if any(current(name, field) != value for field, value in settings.items())
    }
