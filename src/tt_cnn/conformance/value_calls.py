# SPDX-License-Identifier: Apache-2.0
"""The recorded `values` cases as calls on a card that computes, and their inputs as the formats hold them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from tt_cnn.conformance.convolution_calls import conv2d_call, conv_transpose2d_call
from tt_cnn.conformance.making import compute_config, dtype, look_up, pool
from tt_cnn.virtual import ttnn
from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types import DataType, Layout

Options = dict[str, Any]
Inputs = Sequence[torch.Tensor]


def converted(values: torch.Tensor, kind: DataType) -> torch.Tensor:
    """Values as a tiled host tensor of that dtype holds them, in float32."""
    return ttnn.to_torch(ttnn.from_torch(values, kind, layout=Layout.TILE)).float()


def converted_weight(weight: torch.Tensor, kind: DataType, output_axis: int = 0) -> torch.Tensor:
    """A convolution's weight as the card holds it: a matrix whose columns are output channels, so that block formats
    share exponents along those."""
    rows = weight.movedim(output_axis, -1)
    matrix = rows.reshape(1, 1, -1, rows.shape[-1])
    return converted(matrix, kind).reshape(rows.shape).movedim(-1, output_axis)


def converted_inputs(op: str, inputs: Inputs, a: Options) -> list[torch.Tensor]:
    """The inputs after conversion to the dtypes of the call."""
    if op in _CONVOLUTIONS:
        x, weight, bias = inputs
        kind = dtype(a["weights_dtype"])
        axis = 0 if op == "conv2d" else 1
        return [converted(x, dtype(a["input_dtype"])), converted_weight(weight, kind, axis), converted(bias, kind)]
    return [converted(x, kind) for x, kind in zip(inputs, _input_dtypes(op, a), strict=True)]


_CONVOLUTIONS = ("conv2d", "conv_transpose2d")
_BFLOAT16_OPS = ("avg_pool2d", "max_pool2d", "upsample", "global_avg_pool2d")


def _input_dtypes(op: str, a: Options) -> list[DataType]:
    if op in _BFLOAT16_OPS:
        return [DataType.BFLOAT16]
    if op == "typecast":
        return [dtype(a["from"])]
    if "dtype_b" in a:
        return [dtype(a["dtype"]), dtype(a["dtype_b"])]
    return [dtype(a["dtype"])]


def _tiled(card: MeshDevice, op: str, inputs: Inputs, a: Options) -> list[Tensor]:
    """Inputs on the card: TILE, interleaved in DRAM."""
    return [_put(card, x, kind, Layout.TILE) for x, kind in zip(inputs, _input_dtypes(op, a), strict=True)]


def _put(card: MeshDevice, values: torch.Tensor, kind: DataType, layout: Layout) -> Tensor:
    tensor = ttnn.from_torch(values, kind, layout=layout, device=card)
    assert tensor is not None
    return tensor


def _flat(x: torch.Tensor) -> torch.Tensor:
    """NHWC as TT-NN's (1, 1, n*h*w, c)."""
    return x.reshape(1, 1, -1, x.shape[-1])


def _unary(card: MeshDevice, inputs: Inputs, a: Options) -> Any:
    return look_up(a["name"])(*_tiled(card, "unary", inputs, a), *a["params"])


def _binary(card: MeshDevice, inputs: Inputs, a: Options) -> Any:
    return look_up(a["name"])(*_tiled(card, "binary", inputs, a))


def _typecast(card: MeshDevice, inputs: Inputs, a: Options) -> Any:
    return look_up("typecast")(*_tiled(card, "typecast", inputs, a), dtype(a["to"]))


def _matmul(card: MeshDevice, inputs: Inputs, a: Options) -> Any:
    function = look_up("matmul")
    x, y = _tiled(card, "matmul", inputs, a)
    return function(x, y, dtype=dtype(a["output_dtype"]), compute_kernel_config=compute_config(card, a))


def _of_tiles(name: str, **options: Any) -> Callable[[MeshDevice, Inputs, Options], Any]:
    return lambda card, inputs, a: look_up(name)(*_tiled(card, name, inputs, a), **options)


def _pool(name: str) -> Callable[[MeshDevice, Inputs, Options], Any]:
    def call(card: MeshDevice, inputs: Inputs, a: Options) -> Any:
        look_up(name)
        x = _put(card, _flat(inputs[0]), DataType.BFLOAT16, Layout.ROW_MAJOR)
        return pool(name, x, [a[side] for side in "nhwc"], a["k"], a["s"], a["p"])

    return call


def _global_avg_pool2d(card: MeshDevice, inputs: Inputs, a: Options) -> Any:
    return look_up("global_avg_pool2d")(_put(card, inputs[0], DataType.BFLOAT16, Layout.TILE))


def _upsample(card: MeshDevice, inputs: Inputs, a: Options) -> Any:
    function = look_up("upsample")
    x = _put(card, inputs[0], DataType.BFLOAT16, Layout.ROW_MAJOR)
    return function(x, a["scale_factor"], mode=a["mode"])


def host(values: torch.Tensor) -> Tensor:
    """A float32 host tensor, as weights and biases were given."""
    tensor = ttnn.from_torch(values, DataType.FLOAT32)
    assert tensor is not None
    return tensor


def _convolution(name: str) -> Callable[[MeshDevice, Inputs, Options], Any]:
    def call(card: MeshDevice, inputs: Inputs, a: Options) -> Any:
        look_up(name)
        x = _put(card, _flat(inputs[0]), dtype(a["input_dtype"]), Layout[a["input_layout"]])
        options = a | {"kernel": a["k"], "stride": a["s"], "padding": a["p"], "out_channels": a["co"]}
        image = (a["n"], a["h"], a["w"], a["ci"])
        weight, bias = host(inputs[1]), host(inputs[2])
        if name == "conv2d":
            return conv2d_call(card, x, weight, bias, image, options)
        return conv_transpose2d_call(card, x, weight, bias, image, options, compute_config=compute_config(card, a))

    return call


VALUE_CALLS: dict[str, Callable[[MeshDevice, Inputs, Options], Any]] = {
    "avg_pool2d": _pool("avg_pool2d"),
    "binary": _binary,
    "conv2d": _convolution("conv2d"),
    "conv_transpose2d": _convolution("conv_transpose2d"),
    "global_avg_pool2d": _global_avg_pool2d,
    "layer_norm": _of_tiles("layer_norm"),
    "matmul": _matmul,
    "max_pool2d": _pool("max_pool2d"),
    "mean": _of_tiles("mean", dim=-1),
    "softmax": _of_tiles("softmax", dim=-1),
    "sum": _of_tiles("sum", dim=-1),
    "typecast": _typecast,
    "unary": _unary,
    "upsample": _upsample,
}
