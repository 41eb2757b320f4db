"""The attributes of a device operation as the profiler prints them: C++ structures, with semicolons for commas."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

Attributes = dict[str, Any]


def attributes_of(text: str) -> Attributes:
    """`{'a': 'x'; 'b': 'y'}` without what is nullopt, false or empty; structures that we know are taken apart."""
    found = re.findall(r"'(\w+)': '(.*?)'(?=; '\w+': '|\}\s*$)", text, re.DOTALL)
    return {name: _parsed(value) for name, value in found if value not in _NOTHING}


_NOTHING = ("std::nullopt", "false", "SmallVector([])")


def _parsed(value: str) -> Any:
    name = value.partition("(")[0]
    if name in _STRUCTURES:
        return _STRUCTURES[name](value)
    return _bare(value) if value.startswith("{[") else value


def _memory(text: str) -> Attributes:
    config: Attributes = {
        "layout": _word(text, r"memory_layout=TensorMemoryLayout::(\w+)"),
        "buffer": _word(text, r"buffer_type=BufferType::(\w+)"),
    }
    shard = re.search(r"shard_spec=ShardSpec\(grid=(\{.*?\});shape=\{(\d+); (\d+)\};orientation=\w+::(\w+)\)", text)
    if shard is not None:
        config |= {"grid": _bare(shard[1]), "shard": [int(shard[2]), int(shard[3])], "orient": shard[4]}
    return config


def _window(text: str) -> Attributes:
    top, bottom, left, right = map(int, re.findall(r"padding=\(\((\d+); (\d+)\); \((\d+); (\d+)\)\)", text)[0])
    return {
        "batch": _number(text, "batch_size"),
        "num_cores_nhw": _number(text, "num_cores_nhw"),
        "num_cores_c": _number(text, "num_cores_c"),
        "input_hw": _pair(text, "input_hw"),
        "window_hw": _pair(text, "window_hw"),
        "stride_hw": _pair(text, "stride_hw"),
        "dilation_hw": _pair(text, "dilation_hw"),
        "padding_tblr": [top, bottom, left, right],
        "cores": _bare(_word(text, r"core_range_set_?=(\{.*?\})")),
    }


def _compute(text: str) -> Attributes:
    return {
        "fidelity": _word(text, r"math_fidelity=(?:MathFidelity::)?(\w+)"),
        "approx": _word(text, r"math_approx_mode=(\w+)"),
        "fp32_dest_acc": _word(text, r"fp32_dest_acc_en=(\w+)"),
        "packer_l1_acc": _word(text, r"packer_l1_acc=(\w+)"),
    }


_STRUCTURES: dict[str, Callable[[str], Attributes]] = {
    "MemoryConfig": _memory,
    "SlidingWindowConfig": _window,
    "WormholeComputeKernelConfig": _compute,
}


def convolution_of(
    attributes: Attributes, inputs: Sequence[Attributes], outputs: Sequence[Attributes], cores: int
) -> Attributes:
    """What a convolution was, flat: shapes, dtypes, sharding, blocks."""
    window, memory = attributes["sliding_window_config"], attributes["memory_config"]
    compute = attributes.get("compute_kernel_config", {})
    blocks, split = attributes["block_config"], attributes["parallelization_config"]
    shape = [int(d) for d in re.findall(r"\d+", attributes["input_tensor_shape"])]
    activation = re.search(r"op_type=UnaryOpType::(\w+)", attributes.get("activation", ""))
    grid = re.search(r"grid_size=\(x=(\d+);y=(\d+)\)", split) or re.search(r"grid_size=(\d+)-(\d+)", split)
    return {
        "batch": window["batch"],
        "input_hw": window["input_hw"],
        "kernel": window["window_hw"],
        "stride": window["stride_hw"],
        "padding_tblr": window["padding_tblr"],
        "dilation": window["dilation_hw"],
        "groups": int(attributes["groups"]),
        "in_channels": shape[-1],
        "out_channels": int(attributes["output_channels"]),
        "in_dtype": inputs[0]["dtype"],
        "weights_dtype": inputs[1]["dtype"],
        "out_dtype": outputs[0]["dtype"],
        "out_layout": outputs[0]["layout"],
        "bias": attributes.get("has_bias") == "true",
        "shard": memory["layout"],
        "out_shard_shape": memory.get("shard"),
        **{name: _number(blocks, name) for name in _BLOCKS},
        "grid": [int(grid[1]), int(grid[2])] if grid else None,
        **{name: _number(split, name) for name in _SPLIT},
        "fidelity": compute.get("fidelity"),
        "fp32_dest_acc": compute.get("fp32_dest_acc") == "1",
        "packer_l1_acc": compute.get("packer_l1_acc") == "1",
        "math_approx": compute.get("approx") == "1",
        "act_double_buffer": "enable_act_double_buffer" in attributes,
        "weights_double_buffer": "enable_weights_double_buffer" in attributes,
        "activation_reuse": "enable_activation_reuse" in attributes,
        "config_tensors_in_dram": "config_tensors_in_dram" in attributes,
        "activation": activation[1] if activation else None,
        "split_reader": attributes.get("force_split_reader", "auto"),
        "cores_used": cores,
    }


_BLOCKS = ("act_block_h_ntiles", "act_block_w_ntiles", "out_subblock_h_ntiles", "out_subblock_w_ntiles")
_SPLIT = (
    *("num_cores_nhw", "num_cores_c_in", "num_cores_c_out"),
    *("per_core_out_matrix_height_ntile", "per_core_out_matrix_width_ntile"),
)


def _word(text: str, pattern: str) -> str:
    found = re.search(pattern, text)
    return found[1] if found else ""


def _number(text: str, name: str) -> int:
    return int(_word(text, rf"\b{name}=(\d+)") or 0)


def _pair(text: str, name: str) -> list[int]:
    found = re.search(rf"\b{name}=\((\d+);\s*(\d+)\)", text)
    return [int(found[1]), int(found[2])] if found else []


def _bare(text: str) -> str:
    """Ranges without spaces."""
    return text.replace(" ", "")
