# SPDX-License-Identifier: Apache-2.0
"""Convolutions as they were recorded: for plans with weights of zeros, for values with the recorded numbers."""

from __future__ import annotations

from functools import partial
from typing import Any

from tt_cnn.conformance.answer import Call
from tt_cnn.conformance.making import (
    SHARD_LAYOUTS,
    compute_config,
    dtype,
    fused,
    host_zeros,
    look_up,
    memory_config,
    zeros,
)
from tt_cnn.conformance.planning_card import PlanningCard
from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types import Layout

Case = dict[str, Any]
_CONFIG_NAMES = (
    "act_block_h_override",
    "act_block_w_div",
    "enable_act_double_buffer",
    "enable_weights_double_buffer",
    "deallocate_activation",
    "reallocate_halo_output",
    "reshard_if_not_optimal",
)


def conv2d_config(options: Case) -> Any:
    """`Conv2dConfig` of the recorded options; what is not recorded stays at its default."""
    given = {name: options[name] for name in _CONFIG_NAMES if name in options}
    if "output_layout" in options:
        given["output_layout"] = Layout[options["output_layout"]]
    activation = options.get("activation")
    return look_up("Conv2dConfig")(
        weights_dtype=dtype(options["weights_dtype"]),
        shard_layout=None if options["shard_layout"] == "auto" else SHARD_LAYOUTS[options["shard_layout"]],
        activation=fused("relu" if activation is True else activation or None),
        **given,
    )


def conv2d_plan(card: PlanningCard, case: Case) -> Call:
    """A case of `conv2d_*.jsonl`, with everything made that the call takes."""
    function = look_up("conv2d")
    rows = case["batch_size"] * case["input_height"] * case["input_width"]
    shape, kind, layout = [1, 1, rows, case["in_channels"]], dtype(case["input_dtype"]), Layout[case["input_layout"]]
    # Where the call may free its input, the recorder's dry run had another one, which was still there.
    of_dry_run = zeros(card, shape, kind, layout) if case["deallocate_activation"] else None
    x = zeros(card, shape, kind, layout)
    channels = case["out_channels"]
    weight = host_zeros([channels, case["in_channels"] // case["groups"], *case["kernel_size"]])
    arguments = {name: tuple(case[name]) for name in ("kernel_size", "stride", "padding", "dilation")}
    options = dict(
        input_tensor=x,
        weight_tensor=weight,
        bias_tensor=host_zeros([1, 1, 1, channels]) if case["bias"] else None,
        device=card,
        in_channels=case["in_channels"],
        out_channels=channels,
        batch_size=case["batch_size"],
        input_height=case["input_height"],
        input_width=case["input_width"],
        groups=case["groups"],
        dtype=dtype(case["output_dtype"]),
        conv_config=conv2d_config(case),
        compute_config=compute_config(card, case),
        slice_config=look_up("Conv2dL1FullSliceConfig") if case["slice"] == "l1_full" else None,
        return_output_dim=True,
        return_weights_and_bias=True,
        **arguments,
    )

    def call(of_dry_run: Tensor | None = of_dry_run) -> Any:
        return function(**options)

    return call


def _common(
    card: MeshDevice, x: Tensor, weight: Tensor, bias: Tensor | None, image: tuple[int, int, int, int], options: Case
) -> dict[str, Any]:
    """What a convolution of square windows is called with; `image` is the input as n, h, w, c."""
    n, h, w, c = image
    kernel, stride = options["kernel"], options["stride"]
    padding = options.get("padding", kernel // 2)
    return {
        "input_tensor": x,
        "weight_tensor": weight,
        "bias_tensor": bias,
        "device": card,
        "in_channels": c,
        "out_channels": options["out_channels"],
        "batch_size": n,
        "input_height": h,
        "input_width": w,
        "kernel_size": (kernel, kernel),
        "stride": (stride, stride),
        "padding": (padding, padding),
        "dilation": (1, 1),
        "groups": 1,
        "dtype": dtype(options["output_dtype"]),
        "conv_config": conv2d_config(options),
    }


def conv2d_call(
    card: MeshDevice, x: Tensor, weight: Tensor, bias: Tensor | None, image: tuple[int, int, int, int], options: Case
) -> Tensor:
    """A conv2d of a chain, a network or a value case."""
    return look_up("conv2d")(
        **_common(card, x, weight, bias, image, options),
        compute_config=compute_config(card, options),
        slice_config=look_up("Conv2dL1FullSliceConfig"),
    )


def conv_transpose2d_call(
    card: MeshDevice,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    image: tuple[int, int, int, int],
    options: Case,
    **compute: Any,
) -> Tensor:
    """With the padding of the case; `compute_config` where there is one."""
    common = _common(card, x, weight, bias, image, options)
    return look_up("conv_transpose2d")(**common, output_padding=(0, 0), **compute)


def conv_transpose2d_plan(card: PlanningCard, case: Case) -> Call:
    """A conv_transpose2d of `ops_*.jsonl`: weights (in, out, k, k), no padding, bfloat8_b weights."""
    look_up("conv_transpose2d")
    a = case["args"]
    shape = [1, 1, a["n"] * a["h"] * a["w"], a["ci"]]
    config = memory_config(case["memory"], shape)
    x = zeros(card, shape, dtype(case["dtype"]), Layout[case["layout"]], config)
    options = {
        "kernel": a["k"],
        "stride": a["s"],
        "padding": 0,
        "out_channels": a["co"],
        "output_dtype": case["dtype"],
        "weights_dtype": "bfloat8_b",
        "shard_layout": a["shard_layout"],
        "act_block_h_override": a["abh"],
    }
    weight, bias = host_zeros([a["ci"], a["co"], a["k"], a["k"]]), host_zeros([1, 1, 1, a["co"]])
    image = (a["n"], a["h"], a["w"], a["ci"])
    return partial(conv_transpose2d_call, card, x, weight, bias, image, options)
