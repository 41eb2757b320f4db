# SPDX-License-Identifier: Apache-2.0
"""The attributes of a device operation as the profiler prints them: C++ structures, with semicolons for commas.

Versions of TT-NN print structures with the names of their fields, `Conv2dBlockConfig(act_block_h_ntiles=2;...)`, or
without, `Conv2dBlockConfig(2;...)`; core ranges as `{[0-0 - 7-7]}`, as `{[(x=0;y=0) - (x=7;y=7)]}` or as JSON. All are
read. What has another form is left as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

Attributes = dict[str, Any]
_NOTHING = ("std::nullopt", "false", "SmallVector([])")
_WINDOW = (
    *("batch_size", "channels", "input_hw", "window_hw", "stride_hw", "padding", "output_padding", "dilation_hw"),
    *("ceil_pad_hw", "scale_h", "scale_w", "num_cores_nhw", "num_cores_c", "core_range_set"),
)
_BLOCKS = ("act_block_h_ntiles", "act_block_w_ntiles", "out_subblock_h_ntiles", "out_subblock_w_ntiles")
_SPLIT = (
    *("num_cores_nhw", "num_cores_c_in", "num_cores_c_out"),
    *("per_core_out_matrix_height_ntile", "per_core_out_matrix_width_ntile"),
)


def attributes_of(text: str) -> Attributes:
    """`{'a': 'x'; 'b': 'y'}` without what is nullopt, false or empty; structures that we know are taken apart."""
    found = re.findall(r"'(\w+)': '(.*?)'(?=; '\w+': '|\}\s*$)", text, re.DOTALL)
    return {name: _parsed(value) for name, value in found if value not in _NOTHING}


def _parsed(value: str) -> Any:
    name = value.partition("(")[0]
    if name in _STRUCTURES:
        return _STRUCTURES[name](value)
    return _bare(value) if value.startswith("{[") else value


def structure(text: str, names: Sequence[str] = ()) -> dict[str, str]:
    """The fields of `Name(a=1;b=(2;3))`, or of `Name(1;(2;3))` by the names that its fields have in that order."""
    fields: dict[str, str] = {}
    parts, depth = [""], 0
    for character in text[text.index("(") + 1 : text.rindex(")")]:
        depth += (character in "([{") - (character in ")]}")
        if character == ";" and not depth:
            parts.append("")
        else:
            parts[-1] += character
    for position, part in enumerate(parts):
        name, equals, value = part.partition("=")
        if equals and name.strip().isidentifier():
            fields[name.strip().rstrip("_")] = value.strip()
        elif position < len(names):
            fields[names[position]] = part.strip()
    return fields


def _memory(text: str) -> Attributes:
    config: Attributes = {
        "layout": _word(text, r"memory_layout=TensorMemoryLayout::(\w+)"),
        "buffer": _word(text, r"buffer_type=BufferType::(\w+)"),
    }
    shard = re.search(
        r"shard_spec=ShardSpec[({]grid=(.*?);\s*shape=[\[{](\d+); (\d+)[\]}];\s*orientation=\w+::(\w+)", text
    )
    if shard is not None:
        config |= {"grid": _ranges(shard[1]), "shard": [int(shard[2]), int(shard[3])], "orient": shard[4]}
    return config


def _ranges(text: str) -> str:
    corner = r'"start":\{"x":(\d+);"y":(\d+)\};"end":\{"x":(\d+);"y":(\d+)\}'
    found = re.findall(corner, text)
    return f"{{{';'.join(f'[{a}-{b}-{c}-{d}]' for a, b, c, d in found)}}}" if found else _bare(text)


def _window(text: str) -> Attributes:
    fields = structure(text, _WINDOW)
    return {
        "batch": int(fields["batch_size"]),
        "num_cores_nhw": int(fields["num_cores_nhw"]),
        "num_cores_c": int(fields["num_cores_c"]),
        **{name: _numbers(fields[name]) for name in ("input_hw", "window_hw", "stride_hw", "dilation_hw")},
        "padding_tblr": _numbers(fields["padding"]),
        "cores": _bare(fields.get("core_range_set", "")),
    }


def _compute(text: str) -> Attributes:
    fields = structure(text)
    return {
        "fidelity": fields["math_fidelity"].rpartition("::")[2],
        "approx": fields["math_approx_mode"],
        "fp32_dest_acc": fields["fp32_dest_acc_en"],
        "packer_l1_acc": fields["packer_l1_acc"],
    }


_STRUCTURES: dict[str, Callable[[str], Attributes]] = {
    "MemoryConfig": _memory,
    "SlidingWindowConfig": _window,
    "WormholeComputeKernelConfig": _compute,
    "ComputeKernelConfig": _compute,
}


def convolution_of(
    attributes: Attributes, inputs: Sequence[Attributes], outputs: Sequence[Attributes], cores: int
) -> Attributes:
    """What a convolution was, flat: shapes, dtypes, sharding, blocks."""
    window, memory = attributes["sliding_window_config"], attributes["memory_config"]
    compute = attributes.get("compute_kernel_config", {})
    blocks = structure(attributes["block_config"], _BLOCKS)
    split = structure(attributes["parallelization_config"], ("grid_size", *_SPLIT))
    activation = re.search(r"op_type=UnaryOpType::(\w+)", attributes.get("activation", ""))
    return {
        "batch": window["batch"],
        "input_hw": window["input_hw"],
        "kernel": window["window_hw"],
        "stride": window["stride_hw"],
        "padding_tblr": window["padding_tblr"],
        "dilation": window["dilation_hw"],
        "groups": int(attributes["groups"]),
        "in_channels": _numbers(attributes["input_tensor_shape"])[-1],
        "out_channels": int(attributes["output_channels"]),
        "in_dtype": inputs[0]["dtype"],
        "weights_dtype": inputs[1]["dtype"],
        "out_dtype": outputs[0]["dtype"],
        "out_layout": outputs[0]["layout"],
        "bias": attributes.get("has_bias") in ("true", "1"),
        "shard": memory["layout"],
        "out_shard_shape": memory.get("shard"),
        **{name: int(blocks[name]) for name in _BLOCKS},
        "grid": _numbers(split["grid_size"]) or None,
        **{name: int(split[name]) for name in _SPLIT},
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


def _word(text: str, pattern: str) -> str:
    found = re.search(pattern, text)
    return found[1] if found else ""


def _numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)]


def _bare(text: str) -> str:
    """Ranges without spaces."""
    return text.replace(" ", "")
