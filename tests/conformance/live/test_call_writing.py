# SPDX-License-Identifier: Apache-2.0
"""Calls written as data: read back, they are the same calls."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from tests.conformance.live.recorded_program import small_network
from tt_cnn.conformance.answer import attempt
from tt_cnn.conformance.live.call_writing import CannotWrite, write_call, write_memory, write_value, written_calls
from tt_cnn.conformance.planning_card import PlanningCard
from tt_cnn.conformance.written_calls import prepare_call, read_memory, read_value
from tt_cnn.virtual import ttnn


@pytest.mark.parametrize(
    "value",
    [
        None,
        3,
        0.5,
        "relu",
        [1, (2, 3)],
        slice(0, None, 2),
        ...,
        ttnn.bfloat8_b,
        ttnn.TensorMemoryLayout.BLOCK_SHARDED,
        ttnn.CoreCoord(3, 4),
        ttnn.CoreRangeSet([ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(7, 3))]),
        ttnn.Shape([1, 1, 32, 32]),
        ttnn.WormholeComputeKernelConfig(math_fidelity=ttnn.MathFidelity.HiFi3, fp32_dest_acc_en=True),
    ],
)
def test_values_are_read_back(value: Any) -> None:
    written = json.loads(json.dumps(write_value(value)))
    assert read_value(written, PlanningCard("n150"), {}) == value


@pytest.mark.parametrize(
    "value",
    [
        ttnn.Conv2dL1FullSliceConfig,
        ttnn.Conv2dSliceConfig(slice_type=ttnn.Conv2dDRAMSliceWidth, num_slices=4),
        ttnn.Conv2dConfig(
            weights_dtype=ttnn.bfloat8_b, activation=ttnn.UnaryWithParam(ttnn.UnaryOpType.LEAKY_RELU, 0.5)
        ),
        ttnn.UnaryWithParam(ttnn.UnaryOpType.GELU, 1.0),
        ttnn.CoreGrid(x=4, y=2),
    ],
)
def test_objects_without_equality_print_the_same(value: Any) -> None:
    written = json.loads(json.dumps(write_value(value)))
    assert repr(read_value(written, PlanningCard("n150"), {})) == repr(value)


def test_memory_is_read_back() -> None:
    cores = ttnn.CoreRangeSet([ttnn.CoreRange(ttnn.CoreCoord(1, 2), ttnn.CoreCoord(3, 3))])
    shard = ttnn.ShardSpec(cores, [32, 64], ttnn.ShardOrientation.COL_MAJOR)
    sharded = ttnn.MemoryConfig(ttnn.TensorMemoryLayout.BLOCK_SHARDED, ttnn.BufferType.L1, shard)
    for config in (ttnn.DRAM_MEMORY_CONFIG, ttnn.L1_MEMORY_CONFIG, sharded):
        assert read_memory(json.loads(json.dumps(write_memory(config)))) == config


def test_what_cannot_be_written_is_said() -> None:
    with pytest.raises(CannotWrite, match="has no written form"):
        write_call("relu", (torch.zeros(1),), {})


def test_the_calls_of_a_program_make_the_same_steps_again() -> None:
    device = ttnn.open_device(device_id=0, l1_small_size=65536, card="n150")
    device.disable_and_clear_program_cache()
    try:
        with written_calls("a test") as cases, device.record_commands() as commands:
            small_network(device)
    finally:
        ttnn.close_device(device)
    steps = {command.name: [step.step.op for step in command.steps] for command in commands}
    assert [case["op"] for case in cases][:4] == ["conv2d", "add", "reallocate", "max_pool2d"]
    for case in json.loads(json.dumps(cases)):
        card = PlanningCard("n150")
        found = attempt(card, lambda card=card, case=case: prepare_call(card, case))
        assert found.status == "ok", found.message
        again = [placed.step.op for placed in found.steps]
        assert [op for op in again if op != "Move"] == [
            op for op in steps.get(f"ttnn.{case['op']}", []) if op != "Move"
        ]
