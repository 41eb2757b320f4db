# SPDX-License-Identifier: Apache-2.0
"""The naive baseline: what it sets, what it leaves, and that models fit with what is added to it."""

from __future__ import annotations

import pytest

from tt_cnn import ttnn
from tt_cnn.builder import AutoShardedStrategyConfiguration, Conv2dConfiguration
from tt_cnn.builder.overrides import Assignment, with_settings
from tt_cnn.models import registry
from tt_cnn.optimizer.baseline import fitting_naive_assignment, naive_assignment
from tt_cnn.optimizer.prediction import Prediction, Refusal, planned_network


def test_convolutions_have_the_builders_defaults() -> None:
    """All that a convolution computes stays; all that could be tuned is as if nobody had said anything."""
    with planned_network("resnet50", "n150") as network:
        assignment = naive_assignment(network.configurations)
        own = network.configurations["layer3.0.conv2"]
        assert isinstance(own, Conv2dConfiguration)
        found = with_settings(own, assignment["layer3.0.conv2"])
        assert found.activation == own.activation and found.stride == own.stride
        assert found.sharding_strategy == AutoShardedStrategyConfiguration()
        assert {found.weights_dtype, found.activation_dtype, found.output_dtype} == {ttnn.bfloat16}
        assert found.math_fidelity == ttnn.MathFidelity.LoFi and not found.fp32_dest_acc_en
        assert assignment["layer3.input"] == {"memory_config": None, "reallocate": False}


@pytest.mark.parametrize("name", ["mobilenetv2", "resnet50", "yolov4", "yolov8s", "vanilla_unet"])
def test_models_fit_and_are_slower_than_tuned(name: str) -> None:
    with planned_network(name, "n150") as network:
        own = network.predict(Assignment())
        _, naive = fitting_naive_assignment(network)
        assert isinstance(own, Prediction) and isinstance(naive, Prediction)
        assert naive.device_ns > own.device_ns


def test_only_what_is_refused_is_put_into_dram() -> None:
    with planned_network("resnet50", "n150") as network:
        assert isinstance(network.predict(naive_assignment(network.configurations)), Refusal)
        assignment, _ = fitting_naive_assignment(network)
        moved = [name for name in assignment if "output_memory_config" in assignment[name]]
        assert moved == ["layer3.0.conv3", "layer3.0.downsample"]
        assert assignment["layer3.input"]["memory_config"] == ttnn.DRAM_MEMORY_CONFIG


def test_the_naive_resnet18_can_be_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums and their ReLUs in one op, and tensors that stay in L1 (the last stage's do not fit), are settings."""
    from benchmarks.naive_resnet18 import ENTRY

    monkeypatch.setitem(registry._ENTRIES, ENTRY.name, ENTRY)
    with planned_network(ENTRY.name, "n150") as network:
        own = network.predict(Assignment())
        fused = network.predict(
            Assignment({name: {"fuse_activation": True} for name in network.layers if name.endswith(".add")})
        )
        in_l1 = network.predict(
            Assignment(
                {
                    "maxpool": {"output_layout": ttnn.TILE_LAYOUT},
                    "maxpool.output": {"memory_config": None},
                    "blocks.6.input": {"memory_config": ttnn.DRAM_MEMORY_CONFIG},
                    **{
                        name: {"output_memory_config": None}
                        for name in network.layers
                        if "conv" in name or "down" in name
                    },
                }
            )
        )
        assert isinstance(own, Prediction) and isinstance(fused, Prediction) and isinstance(in_l1, Prediction)
        assert fused.steps == own.steps - 8
        assert in_l1.device_ns < 0.9 * own.device_ns
