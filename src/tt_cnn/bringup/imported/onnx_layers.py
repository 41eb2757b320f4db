# SPDX-License-Identifier: Apache-2.0
"""Convolutions, products, norms and pools of ONNX as torch's."""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np

from tt_cnn.bringup.imported.graph import Ref
from tt_cnn.bringup.imported.onnx_node import OnnxNode, Refused, converts

_LOWEST = float("-inf")


@converts("Conv")
def convolution(node: OnnxNode) -> None:
    weight = node.known(1, "the weight")
    rank = weight.ndim - 2
    if rank not in (1, 2, 3):
        raise Refused(f"a weight of shape {weight.shape}")
    strides, dilations = _window(node, rank)
    pads = _pads(node, weight.shape[2:], strides, dilations)
    data, padding = _padded(node, pads, 0.0)
    path = node.holder()
    node.emit(
        f"aten.conv{rank}d.default",
        data,
        node.hold_as(f"{path}.weight", weight),
        node.hold_as(f"{path}.bias", node.known(2, "the bias")) if node.has(2) else None,
        strides,
        padding,
        dilations,
        node.get("group", 1),
    )


@converts("ConvTranspose")
def transposed_convolution(node: OnnxNode) -> None:
    weight = node.known(1, "the weight")
    rank = weight.ndim - 2
    if rank not in (1, 2, 3) or "output_shape" in node.attributes:
        raise Refused("output_shape" if rank in (1, 2, 3) else f"a weight of shape {weight.shape}")
    strides, dilations = _window(node, rank)
    pads = node.get("pads", [0] * 2 * rank)
    if node.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID") or pads[:rank] != pads[rank:]:
        raise Refused("padding that differs from side to side")
    data = node.value()
    path = node.holder()
    node.emit(
        f"aten.conv_transpose{rank}d." + ("default" if rank == 1 else "input"),
        data,
        node.hold_as(f"{path}.weight", weight),
        node.hold_as(f"{path}.bias", node.known(2, "the bias")) if node.has(2) else None,
        strides,
        pads[:rank],
        node.get("output_padding", [0] * rank),
        node.get("group", 1),
        dilations,
    )


@converts("Linear")
def linear(node: OnnxNode) -> None:
    """A product with a constant, drawn together with its bias."""
    _linear(node, node.known(1, "the weight").T)


@converts("Gemm")
def gemm(node: OnnxNode) -> None:
    alpha, beta = node.get("alpha", 1.0), node.get("beta", 1.0)
    weight = node.constant(1)
    bias = node.constant(2)
    one_bias = not node.has(2) or (bias is not None and bias.size in (1, node.shape(1)[0 if node.get("transB") else 1]))
    if weight is not None and alpha == 1 and beta == 1 and not node.get("transA", 0) and one_bias:
        _linear(node, weight if node.get("transB", 0) else weight.T)
        return
    first, second = node.value(0), node.value(1)
    first = node.between("aten.t.default", first) if node.get("transA", 0) else first
    second = node.between("aten.t.default", second) if node.get("transB", 0) else second
    product = node.between("aten.matmul.default", first, second)
    product = product if alpha == 1 else node.between("aten.mul.Tensor", product, alpha)
    if not node.has(2):
        node.same_as(product)
        return
    added = node.value(2) if beta == 1 else node.between("aten.mul.Tensor", node.value(2), beta)
    node.emit("aten.add.Tensor", product, added)


def _linear(node: OnnxNode, weight: np.ndarray) -> None:
    data = node.value()
    path = node.holder()
    bias = None
    if node.has(2):
        values = node.known(2, "the bias").reshape(-1)
        bias = node.hold_as(f"{path}.bias", np.broadcast_to(values, weight.shape[:1]))
    node.emit("aten.linear.default", data, node.hold_as(f"{path}.weight", weight), bias)


@converts("MatMul")
def matmul(node: OnnxNode) -> None:
    node.emit("aten.matmul.default", node.value(0), node.value(1))


@converts("BatchNormalization")
def batch_norm(node: OnnxNode) -> None:
    if node.get("training_mode", 0):
        raise Refused("training_mode")
    data = node.value()
    path = node.holder()
    names = ("weight", "bias", "running_mean", "running_var")
    held = [
        node.hold_as(f"{path}.{name}", node.known(index, name), buffer=index > 2) for index, name in enumerate(names, 1)
    ]
    node.emit("aten.batch_norm.default", data, *held, False, 0.1, node.get("epsilon", 1e-5), False)


@converts("InstanceNormalization")
def instance_norm(node: OnnxNode) -> None:
    data = node.value()
    path = node.holder()
    held = [node.hold_as(f"{path}.{name}", node.known(i, name)) for i, name in ((1, "weight"), (2, "bias"))]
    node.emit("aten.instance_norm.default", data, *held, None, None, True, 0.1, node.get("epsilon", 1e-5), False)


@converts("LayerNormalization")
def layer_norm(node: OnnxNode) -> None:
    if len([name for name in node.outputs if name]) > 1:
        raise Refused("mean and deviation as outputs")
    data, shape = node.value(), node.shape()
    axis = node.get("axis", -1) % len(shape)
    path = node.holder()
    weight = node.hold_as(f"{path}.weight", node.known(1, "the scale"))
    bias = node.hold_as(f"{path}.bias", node.known(2, "the bias")) if node.has(2) else None
    node.emit("aten.layer_norm.default", data, list(shape[axis:]), weight, bias, node.get("epsilon", 1e-5), False)


@converts("GroupNormalization")
def group_norm(node: OnnxNode) -> None:
    data, channels, groups = node.value(), node.shape()[1], node.attributes["num_groups"]
    path = node.holder()
    held = []
    for index, name in ((1, "weight"), (2, "bias")):
        values = node.known(index, name)
        spread = (
            values if values.size == channels else np.repeat(values, channels // groups)
        )  # opset 18 has one a group
        held.append(node.hold_as(f"{path}.{name}", spread))
    node.emit("aten.group_norm.default", data, groups, *held, node.get("epsilon", 1e-5), False)


@converts("MaxPool")
def max_pool(node: OnnxNode) -> None:
    if len([name for name in node.outputs if name]) > 1:
        raise Refused("indices as an output")
    size = node.attributes["kernel_shape"]
    strides, dilations = _window(node, len(size))
    data, padding = _padded(node, _pads(node, size, strides, dilations), _LOWEST, [each // 2 for each in size])
    kind = f"aten.max_pool{len(size)}d.default"
    node.emit(kind, data, size, strides, padding, dilations, bool(node.get("ceil_mode", 0)))


@converts("AveragePool")
def average_pool(node: OnnxNode) -> None:
    size = node.attributes["kernel_shape"]
    strides, dilations = _window(node, len(size))
    if any(each != 1 for each in dilations):
        raise Refused("dilations")
    if all(each == 1 for each in [*size, *strides]) and not any(node.get("pads", [])):
        node.same_as(node.value())  # an adaptive pool to the size that it has
        return
    pads = _pads(node, size, strides, dilations)
    count = bool(node.get("count_include_pad", 0))
    if pads[: len(size)] != pads[len(size) :] and not count:
        raise Refused("padding that differs from side to side and is not counted")
    data, padding = _padded(node, pads, 0.0, [each // 2 for each in size])
    if not count and any(pads) and not any(padding):
        raise Refused("padding of more than half the window that is not counted")
    kind = f"aten.avg_pool{len(size)}d.default"
    node.emit(kind, data, size, strides, padding, bool(node.get("ceil_mode", 0)), count if any(padding) else True)


@converts("GlobalAveragePool")
def global_average_pool(node: OnnxNode) -> None:
    rank = len(node.shape())
    if rank == 4:
        node.emit("aten.adaptive_avg_pool2d.default", node.value(), [1, 1])
    else:
        node.emit("aten.mean.dim", node.value(), list(range(2, rank)), True)


@converts("GlobalMaxPool")
def global_max_pool(node: OnnxNode) -> None:
    node.emit("aten.amax.default", node.value(), list(range(2, len(node.shape()))), True)


# -- windows


def _window(node: OnnxNode, rank: int) -> tuple[list[int], list[int]]:
    return node.get("strides", [1] * rank), node.get("dilations", [1] * rank)


def _pads(node: OnnxNode, size: Any, strides: list[int], dilations: list[int]) -> list[int]:
    """Before each dimension, then behind each."""
    rank = len(size)
    how = node.get("auto_pad", "NOTSET")
    if how in ("NOTSET", ""):
        return list(node.get("pads", [0] * 2 * rank))
    if how == "VALID":
        return [0] * 2 * rank
    before, behind = [], []
    for length, kernel, stride, dilation in zip(node.shape()[2:], size, strides, dilations, strict=True):
        total = max(0, (ceil(length / stride) - 1) * stride + (kernel - 1) * dilation + 1 - length)
        small, large = total // 2, total - total // 2
        before.append(large if how == "SAME_LOWER" else small)
        behind.append(small if how == "SAME_LOWER" else large)
    return before + behind


def _padded(node: OnnxNode, pads: list[int], value: float, most: list[int] | None = None) -> tuple[Ref, list[int]]:
    """The input and the padding that torch's op takes; other padding is an op of its own before it."""
    rank = len(pads) // 2
    before, behind = pads[:rank], pads[rank:]
    allowed = most is None or all(pad <= limit for pad, limit in zip(before, most, strict=True))
    if before == behind and allowed:
        return node.value(), before
    sides = [side for pair in zip(reversed(before), reversed(behind), strict=True) for side in pair]
    return node.between("aten.constant_pad_nd.default", node.value(), sides, value), [0] * rank
