# SPDX-License-Identifier: Apache-2.0
"""Element-wise ops, softmax and reductions of ONNX as torch's."""

from __future__ import annotations

from typing import Any

import numpy as np

from tt_cnn.bringup.imported.onnx_node import OnnxNode, Refused, converts

_PLAIN = {
    "Abs": "abs",
    "Ceil": "ceil",
    "Cos": "cos",
    "Erf": "erf",
    "Exp": "exp",
    "Floor": "floor",
    "HardSwish": "hardswish",
    "Log": "log",
    "Mish": "mish",
    "Neg": "neg",
    "Not": "logical_not",
    "Reciprocal": "reciprocal",
    "Relu": "relu",
    "Round": "round",
    "Sigmoid": "sigmoid",
    "Sign": "sign",
    "Silu": "silu",
    "Sin": "sin",
    "Softplus": "softplus",
    "Sqrt": "sqrt",
    "Tan": "tan",
    "Tanh": "tanh",
}
_OF_TWO = {"Add": "add.Tensor", "Sub": "sub.Tensor", "Mul": "mul.Tensor", "Div": "div.Tensor"}
_COMPARISONS = {"Equal": "eq", "Greater": "gt", "GreaterOrEqual": "ge", "Less": "lt", "LessOrEqual": "le"}
_REDUCTIONS = {
    "ReduceMean": "mean.dim",
    "ReduceSum": "sum.dim_IntList",
    "ReduceMax": "amax.default",
    "ReduceMin": "amin.default",
}


@converts(*_PLAIN)
def plain(node: OnnxNode) -> None:
    node.emit(f"aten.{_PLAIN[node.op]}.default", node.value())


@converts(*_OF_TWO)
def of_two(node: OnnxNode) -> None:
    """Numbers stay numbers, as people write them."""
    if node.op == "Div" and not _floats(node):
        raise Refused("integers that depend on the input")
    right, left = node.number(1), node.number(0)
    if right is not None:
        node.emit(f"aten.{_OF_TWO[node.op]}", node.value(0), right)
    elif left is not None and node.op in ("Add", "Mul"):
        node.emit(f"aten.{_OF_TWO[node.op]}", node.value(1), left)
    elif left is not None and node.op == "Sub":
        node.emit("aten.rsub.Scalar", node.value(1), left)
    elif left is not None:
        inverse = node.between("aten.reciprocal.default", node.value(1))
        node.emit("aten.mul.Tensor", inverse, left)
    else:
        node.emit(f"aten.{_OF_TWO[node.op]}", node.value(0), node.value(1))


def _floats(node: OnnxNode) -> bool:
    kinds = []
    for index, name in enumerate(node.inputs):
        values = node.constant(index)
        known = values.dtype.kind == "f" if values is not None else None
        kinds.append(node.reader.meta[node.reader.ref(name).name].is_floating_point() if known is None else known)
    return all(kinds)


@converts("Pow")
def power(node: OnnxNode) -> None:
    exponent = node.number(1)
    if exponent is None:
        node.emit("aten.pow.Tensor_Tensor", node.value(0), node.value(1))
        return
    whole = isinstance(exponent, float) and exponent.is_integer()
    node.emit("aten.pow.Tensor_Scalar", node.value(0), int(exponent) if whole else exponent)


@converts("Max", "Min", "Sum", "Mean")
def of_many(node: OnnxNode) -> None:
    kind = {"Max": "maximum.default", "Min": "minimum.default"}.get(node.op, "add.Tensor")
    total: Any = node.value(0)
    for index in range(1, len(node.inputs)):
        total = node.between(f"aten.{kind}", total, node.value(index))
    if node.op == "Mean":
        total = node.between("aten.div.Tensor", total, len(node.inputs))
    node.same_as(total)


@converts(*_COMPARISONS)
def comparison(node: OnnxNode) -> None:
    number = node.number(1)
    kind = _COMPARISONS[node.op]
    if number is not None:
        node.emit(f"aten.{kind}.Scalar", node.value(0), number)
    else:
        node.emit(f"aten.{kind}.Tensor", node.value(0), node.value(1))


@converts("And", "Or", "Xor")
def logical(node: OnnxNode) -> None:
    node.emit(f"aten.logical_{node.op.lower()}.default", node.value(0), node.value(1))


@converts("Where")
def where(node: OnnxNode) -> None:
    node.emit("aten.where.self", node.value(0), node.value(1), node.value(2))


# -- activations


@converts("Clip")
def clip(node: OnnxNode) -> None:
    low, high = (node.known(i, "a bound").item() if node.has(i) else None for i in (1, 2))
    if low is not None and high is not None:
        node.emit("aten.hardtanh.default", node.value(), low, high)
    elif low is not None or high is not None:
        node.emit("aten.clamp.default", node.value(), low, high)
    else:
        node.same_as(node.value())


@converts("LeakyRelu")
def leaky_relu(node: OnnxNode) -> None:
    node.emit("aten.leaky_relu.default", node.value(), node.get("alpha", 0.01))


@converts("Elu")
def elu(node: OnnxNode) -> None:
    node.emit("aten.elu.default", node.value(), node.get("alpha", 1.0))


@converts("Celu")
def celu(node: OnnxNode) -> None:
    node.emit("aten.celu.default", node.value(), node.get("alpha", 1.0))


@converts("Selu")
def selu(node: OnnxNode) -> None:
    alpha, gamma = node.get("alpha", 1.67326319217681884765625), node.get("gamma", 1.05070102214813232421875)
    if abs(alpha - 1.6732632) > 1e-5 or abs(gamma - 1.050701) > 1e-5:
        raise Refused(f"alpha {alpha} and gamma {gamma}")
    node.emit("aten.selu.default", node.value())


@converts("HardSigmoid")
def hard_sigmoid(node: OnnxNode) -> None:
    alpha, beta = node.get("alpha", 0.2), node.get("beta", 0.5)
    if abs(alpha - 1 / 6) < 1e-6 and abs(beta - 0.5) < 1e-6:
        node.emit("aten.hardsigmoid.default", node.value())
        return
    scaled = node.between("aten.mul.Tensor", node.value(), alpha)
    node.emit("aten.clamp.default", node.between("aten.add.Tensor", scaled, beta), 0, 1)


@converts("Gelu")
def gelu(node: OnnxNode) -> None:
    if node.get("approximate", "none") == "tanh":
        node.emit("aten.gelu.default", node.value(), approximate="tanh")
    else:
        node.emit("aten.gelu.default", node.value())


@converts("PRelu")
def prelu(node: OnnxNode) -> None:
    slope, shape = node.known(1, "the slope"), node.shape()
    lasts = (1,) * (len(shape) - slope.ndim) + slope.shape
    if slope.size != 1 and (len(shape) < 2 or any(size != 1 for axis, size in enumerate(lasts) if axis != 1)):
        raise Refused(f"a slope of shape {slope.shape}")
    data = node.value()
    path = node.holder()
    node.emit("aten.prelu.default", data, node.hold_as(f"{path}.weight", slope.reshape(-1)))


@converts("Softmax", "LogSoftmax")
def softmax(node: OnnxNode) -> None:
    kind = "softmax.int" if node.op == "Softmax" else "log_softmax.int"
    node.emit(f"aten.{kind}", node.value(), node.get("axis", -1))


# -- reductions


@converts(*_REDUCTIONS)
def reduction(node: OnnxNode) -> None:
    axes = node.axes()
    if not axes and node.get("noop_with_empty_axes", 0):
        node.same_as(node.value())
        return
    dims = axes or list(range(len(node.shape())))
    node.emit(f"aten.{_REDUCTIONS[node.op]}", node.value(), dims, bool(node.get("keepdims", 1)))


@converts("ReduceL2", "ReduceL1")
def norm(node: OnnxNode) -> None:
    dims = node.axes() or list(range(len(node.shape())))
    keep = bool(node.get("keepdims", 1))
    node.emit("aten.linalg_vector_norm.default", node.value(), 1 if node.op == "ReduceL1" else 2, dims, keep)


@converts("ArgMax", "ArgMin")
def arg_max(node: OnnxNode) -> None:
    if node.get("select_last_index", 0):
        raise Refused("select_last_index")
    keep = bool(node.get("keepdims", 1))
    node.emit(f"aten.{node.op.lower()}.default", node.value(), node.get("axis", 0), keep)


@converts("Cast")
def cast(node: OnnxNode) -> None:
    """Floats of other widths are float32 here: what the card computes in is chosen by the bring-up."""
    import torch

    to = node.reader.onnx.helper.tensor_dtype_to_np_dtype(node.attributes["to"])
    made = node.reader.meta[node.reader.ref(node.inputs[0]).name]
    floats = np.dtype(to).kind == "f" or np.dtype(to).name == "bfloat16"
    if floats and made.is_floating_point():
        node.same_as(node.value())
        return
    found = torch.float32 if floats else getattr(torch, np.dtype(to).name, None)
    if found is None:
        raise Refused(f"to {np.dtype(to).name}")
    node.emit("aten.to.dtype", node.value(), found)
