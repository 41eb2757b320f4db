# SPDX-License-Identifier: Apache-2.0
"""Recorded calls of conv2d: a case says what is convolved, how, and where its input is.

case = {"batch_size": ..., "kernel_size": [h, w], ..., fields of Conv2dConfig by name,
        "memory": memory of the input, "slice": "default" | "l1_full" | "h4" (four slices along the height) | "w0"}
memory = {"kind": "dram" | "l1" | "host"} or {"kind": "height" | "width" | "block", "grid": [[start, end], ...],
          "shard": [h, w], "col": column-major}
"""

from __future__ import annotations

import gzip
import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch

from tt_cnn.conformance.agreement import compare
from tt_cnn.conformance.answer import answer, describe
from tt_cnn.conformance.making import dtype, host_zeros, zeros
from tt_cnn.conformance.planning_card import PlanningCard
from tt_cnn.conformance.verdict import Verdict
from tt_cnn.virtual import ttnn
from tt_cnn.virtual.planning.placement import PlacedStep
from tt_cnn.virtual.tensors.storage import HostStorage
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types import Layout, Shape, TensorMemoryLayout
from tt_cnn.virtual.types.enums import BufferType
from tt_cnn.virtual.types.tensor_spec import Spec

_LAYOUTS: dict[str, Any] = {
    "height": TensorMemoryLayout.HEIGHT_SHARDED,
    "width": TensorMemoryLayout.WIDTH_SHARDED,
    "block": TensorMemoryLayout.BLOCK_SHARDED,
    "auto": None,
}
_SLICES = {"h": ttnn.Conv2dDRAMSliceHeight, "w": ttnn.Conv2dDRAMSliceWidth}
_PLAIN = {field.name for field in fields(ttnn.Conv2dConfig)} - {
    "activation",
    "core_grid",
    "output_layout",
    "shard_layout",
    "weights_dtype",
}


def read(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt") as file:
        return [json.loads(line) for line in file]


def replay(record: dict[str, Any]) -> dict[str, Verdict]:
    """Each field of the recorded answer, and what the virtual card answers."""
    card, recorded = PlanningCard(record["card"]), record["result"]
    returned: list[Any] = []

    def call() -> Tensor:
        returned[:] = _convolve(card, record["case"])
        return returned[0]

    found = answer(card, call)
    verdicts = compare(recorded, found)
    if "allocations" in verdicts:
        verdicts["allocations"] = _since_the_step_before(recorded["ops"], found.steps)
    if found.status == recorded["status"] == "ok":
        _, size, parameters = returned
        verdicts["size"] = Verdict(list(size) == recorded["out_hw"], recorded["out_hw"], size)
        for name, tensor in zip(("prepared_weight", "prepared_bias"), parameters, strict=True):
            if recorded.get(name) and tensor is not None:
                made = {**describe(tensor), "address": tensor.buffer_address()}
                verdicts[name] = Verdict(made == recorded[name], recorded[name], made)
    return verdicts


def _since_the_step_before(steps: list[dict[str, Any]], placed: list[PlacedStep]) -> Verdict:
    """These recordings have with each step all that was allocated since the one before, prepared weights included."""
    small = int(BufferType.L1_SMALL.value)
    known = [[step["op"], [[k, 0 if k == small else a, *more] for k, a, *more in step["buffers"]]] for step in steps]
    found = [[one.step.op, _allocated(one)] for one in placed]
    return Verdict(known == found, known, found)


def _allocated(placed: PlacedStep) -> list[list[Any]]:
    """[type, address, bytes a bank, cores, layout]; tables have a row for each core in L1_SMALL."""
    cores = iter(config.cores for config in placed.step.configs)
    rows = []
    for spec, place in placed.allocated:
        in_l1_small = place.buffer_type is BufferType.L1_SMALL
        config = None if spec is None else spec.memory_config
        if config is None:
            count, layout = next(cores), "HEIGHT_SHARDED" if in_l1_small else "INTERLEAVED"
        else:
            count = 0 if config.shard_spec is None else spec.shards_with_data
            layout = config.memory_layout.name
        address = 0 if in_l1_small else place.address
        rows.append(
            [int(place.buffer_type.value), address, place.bank_bytes, count if layout != "INTERLEAVED" else 0, layout]
        )
    return rows


def _convolve(card: PlanningCard, case: dict[str, Any]) -> Any:
    sizes = [case["batch_size"], case["input_height"], case["input_width"]]
    images = [case["in_channels"], case["out_channels"]]
    return ttnn.conv2d(
        input_tensor=_input(card, case),
        weight_tensor=host_zeros([images[1], images[0] // case["groups"], *case["kernel_size"]]),
        bias_tensor=host_zeros([1, 1, 1, images[1]]) if case["bias"] else None,
        device=card,
        in_channels=images[0],
        out_channels=images[1],
        batch_size=sizes[0],
        input_height=sizes[1],
        input_width=sizes[2],
        kernel_size=tuple(case["kernel_size"]),
        stride=tuple(case["stride"]),
        padding=tuple(case["padding"]),
        dilation=tuple(case["dilation"]),
        groups=case["groups"],
        dtype=dtype(case["output_dtype"]) if case["output_dtype"] else None,
        conv_config=_config(case),
        compute_config=ttnn.init_device_compute_kernel_config(
            card.arch(),
            math_fidelity=ttnn.MathFidelity.LoFi,
            fp32_dest_acc_en=case["fp32_dest_acc_en"],
            packer_l1_acc=case["packer_l1_acc"],
        ),
        memory_config=_memory(case["out_memory"]) if case.get("out_memory") else None,
        slice_config=_slice(case["slice"]),
        return_output_dim=True,
        return_weights_and_bias=True,
    )


def _input(card: PlanningCard, case: dict[str, Any]) -> Tensor:
    sizes = [case["batch_size"], case["input_height"], case["input_width"]]
    channels = case.get("tensor_channels", case["in_channels"])
    shape = [*sizes, channels] if case.get("nhwc") else [1, 1, sizes[0] * sizes[1] * sizes[2], channels]
    memory = case.get("memory", {"kind": "dram"})
    form = dtype(case["input_dtype"]), Layout[case["input_layout"]]
    if memory["kind"] == "host":
        spec = Spec(Shape(shape), *form)
        return Tensor.on_host(spec, HostStorage([torch.zeros(tuple(spec.padded_shape))]))
    if case["deallocate_activation"] and memory["kind"] != "dram":
        # When these were recorded, the input of a dry run stayed in memory where the call was to give it back.
        card.kept = zeros(card, shape, *form, _memory(memory))  # type: ignore[attr-defined]
    return zeros(card, shape, *form, _memory(memory))


def _memory(memory: dict[str, Any]) -> Any:
    if memory["kind"] in ("dram", "l1"):
        return ttnn.DRAM_MEMORY_CONFIG if memory["kind"] == "dram" else ttnn.L1_MEMORY_CONFIG
    orientation = ttnn.ShardOrientation.COL_MAJOR if memory.get("col") else ttnn.ShardOrientation.ROW_MAJOR
    shards = ttnn.ShardSpec(_grid(memory["grid"]), memory["shard"], orientation)
    return ttnn.MemoryConfig(_LAYOUTS[memory["kind"]], ttnn.BufferType.L1, shards)


def _grid(ranges: list[Any]) -> Any:
    return ttnn.CoreRangeSet([ttnn.CoreRange(ttnn.CoreCoord(*a), ttnn.CoreCoord(*b)) for a, b in ranges])


def _config(case: dict[str, Any]) -> Any:
    config = ttnn.Conv2dConfig(
        shard_layout=_LAYOUTS[case["shard_layout"]],
        output_layout=Layout[case["output_layout"]],
        **{name: case[name] for name in _PLAIN if name in case},
    )
    if case.get("core_grid"):
        config.core_grid = _grid(case["core_grid"])
    if case.get("activation"):
        config.activation = ttnn.UnaryWithParam(getattr(ttnn.UnaryOpType, case["activation"]))
    if case.get("weights_dtype"):
        config.weights_dtype = dtype(case["weights_dtype"])
    return config


def _slice(name: str) -> Any:
    if name == "default":
        return None
    if name == "l1_full":
        return ttnn.Conv2dL1FullSliceConfig
    return ttnn.Conv2dSliceConfig(slice_type=_SLICES[name[0]], num_slices=int(name[1:]))
