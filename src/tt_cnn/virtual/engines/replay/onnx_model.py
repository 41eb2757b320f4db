# SPDX-License-Identifier: Apache-2.0
"""A graph as an ONNX model, which both host engines read."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

from tt_cnn.virtual.engines.replay.graph import Node, ordered

OPSET = 18
_NATIVE = {"Relu", "Tanh", "Exp", "Log", "Sqrt", "Neg", "Abs", "Reciprocal", "Floor", "Ceil", "Sin", "Cos",
           "HardSwish"}  # fmt: skip
_BINARY = {"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "pow": "Pow", "max": "Max", "min": "Min"}
_NEAR_ZERO = 0.25
"""Where engines take 1 from something near 1, so that small numbers lose their digits: series are taken below it."""
_ERF = [2 / math.sqrt(math.pi) / n for n in (1, -3, 10, -42)]
"""Of erf(x) / x, in powers of x squared; at a quarter, the next is 7e-8 of it."""
_EXPM1 = [1 / math.factorial(n) for n in range(1, 8)]
"""Of (exp(x) - 1) / x, in powers of x."""
_LOG1P = [(-1) ** n / (n + 1) for n in range(8)]
"""Of log(1 + x) / x, in powers of x; at `_SMALL_SOFTPLUS` the next is 1e-8 of it."""
_SMALL_SOFTPLUS = -2.0
"""OpenVINO's softplus is wrong by up to 4e-6 anywhere, so numbers below are computed otherwise."""
_REDUCE = {"mean": "ReduceMean", "sum": "ReduceSum", "amax": "ReduceMax", "amin": "ReduceMin"}


class OnnxModel:
    """`proto` is the model; its inputs are `input0`, ... and its outputs `output0`, ..., all float32.

    Inputs that no output depends on are left out. ONNX Runtime's own sigmoid is 0 from -18 on, and wrong by 1e-7
    before: for it, `sigmoid_by_exponential`. OpenVINO fuses its own into convolutions.
    """

    def __init__(self, outputs: Sequence[Node], sigmoid_by_exponential: bool = False) -> None:
        self._sigmoid_by_exponential = sigmoid_by_exponential
        self._nodes: list[Any] = []
        self._initializers: list[Any] = []
        self._names: dict[int, str] = {}
        self._small: dict[Any, str] = {}
        order = ordered(outputs)
        inputs = sorted((node for node in order if node.kind == "input"), key=lambda node: node.params[0])
        for node in order:
            self._names[id(node)] = self._emit(node)
        for i, node in enumerate(outputs):
            self._nodes.append(helper.make_node("Identity", [self._names[id(node)]], [f"output{i}"]))
        graph = helper.make_graph(
            self._nodes,
            "replay",
            [helper.make_tensor_value_info(self._emit(node), TensorProto.FLOAT, node.shape) for node in inputs],
            [
                helper.make_tensor_value_info(f"output{i}", TensorProto.FLOAT, node.shape)
                for i, node in enumerate(outputs)
            ],
            self._initializers,
        )
        self.proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
        self.proto.ir_version = 9

    def bytes(self) -> bytes:
        data: bytes = self.proto.SerializeToString()
        return data

    # --- nodes ---------------------------------------------------------------------------------------------------

    def _emit(self, node: Node) -> str:
        if node.kind == "input":
            return f"input{node.params[0]}"
        if node.value is not None:
            return self._initializer(node.value)
        names = [self._names[id(one)] for one in node.inputs]
        emit: Callable[..., str] = getattr(self, f"_{node.kind}")
        return emit(node, *names)

    def _add(self, op: str, inputs: Sequence[str], **attributes: Any) -> str:
        name = f"v{len(self._nodes)}"
        self._nodes.append(helper.make_node(op, list(inputs), [name], **attributes))
        return name

    def _initializer(self, value: torch.Tensor) -> str:
        name = f"c{len(self._initializers)}"
        kept = value.dtype in (torch.int8, torch.uint8)
        array = np.ascontiguousarray((value if kept else value.detach().to(torch.float32)).numpy())
        self._initializers.append(numpy_helper.from_array(array, name))
        return name

    def _numbers(self, values: Sequence[int]) -> str:
        """A small constant of whole numbers: shapes, axes, pads."""
        key = tuple(values)
        if key not in self._small:
            self._small[key] = f"c{len(self._initializers)}"
            array = np.array(key, dtype=np.int64)
            self._initializers.append(numpy_helper.from_array(array, self._small[key]))
        return self._small[key]

    def _scalar(self, value: float) -> str:
        key = ("scalar", repr(value))  # 0 and -0 are two
        if key not in self._small:
            self._small[key] = self._initializer(torch.tensor(value))
        return self._small[key]

    # --- one method a kind ---------------------------------------------------------------------------------------

    def _reshape(self, node: Node, x: str) -> str:
        return self._add("Reshape", [x, self._numbers(node.shape)])

    def _permute(self, node: Node, x: str) -> str:
        return self._add("Transpose", [x], perm=list(node.params[0]))

    def _slice(self, node: Node, x: str) -> str:
        starts, stops, steps = node.params
        cut = [i for i, n in enumerate(node.source.shape) if (starts[i], stops[i], steps[i]) != (0, n, 1)]
        picked = [self._numbers([values[i] for i in cut]) for values in (starts, stops)]
        return self._add("Slice", [x, *picked, self._numbers(cut), self._numbers([steps[i] for i in cut])])

    def _pad(self, node: Node, x: str) -> str:
        before, after, fill = node.params
        return self._add("Pad", [x, self._numbers((*before, *after)), self._scalar(fill)])

    def _expand(self, node: Node, x: str) -> str:
        return self._add("Expand", [x, self._numbers(node.shape)])

    def _cat(self, node: Node, *parts: str) -> str:
        return self._add("Concat", parts, axis=node.params[0])

    def _repeat(self, node: Node, x: str) -> str:
        factors = self._initializer(torch.tensor(node.params[0], dtype=torch.float32))
        modes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        return self._add("Resize", [x, "", factors], **modes)

    def _binary(self, node: Node, a: str, b: str) -> str:
        return self._add(_BINARY[node.params[0]], [a, b])

    def _unary(self, node: Node, x: str) -> str:
        name, *params = node.params
        if name in _NATIVE:
            return self._add(name, [x])
        if name == "leaky_relu":
            return self._add("LeakyRelu", [x], alpha=params[0])
        if name == "elu":
            return self._elu(x, params[0])
        if name == "Erf":
            return self._erf(x)
        if name == "clip":
            low, high = params
            return self._add("Clip", [x, *(self._scalar(v) if math.isfinite(v) else "" for v in (low, high))])
        if name == "Sigmoid":
            return self._sigmoid(x)
        if name == "silu":
            return self._add("Mul", [x, self._sigmoid(x)])
        if name == "mish":
            return self._mish(x)
        if name == "rsqrt":
            return self._add("Reciprocal", [self._add("Sqrt", [x])])
        if name == "hardsigmoid":
            return self._add("HardSigmoid", [x], alpha=1 / 6, beta=0.5)
        if name == "gelu":
            return self._gelu(x) if params == ["none"] else self._gelu_by_tanh(x)
        if name == "Softplus":
            return self._softplus(x, *params)
        raise AssertionError(f"no ONNX operation for {name}")

    def _sigmoid(self, x: str) -> str:
        if not self._sigmoid_by_exponential:
            return self._add("Sigmoid", [x])
        inverse = self._add("Add", [self._add("Exp", [self._add("Neg", [x])]), self._scalar(1.0)])
        return self._add("Reciprocal", [inverse])

    def _mish(self, x: str) -> str:
        """The operations that OpenVINO knows as its own Mish, which it fuses into convolutions."""
        return self._add("Mul", [x, self._add("Tanh", [self._add("Softplus", [x])])])

    def _erf(self, x: str) -> str:
        near = self._add("Less", [self._add("Abs", [x]), self._scalar(_NEAR_ZERO)])
        return self._add("Where", [near, self._series(x, self._add("Mul", [x, x]), _ERF), self._add("Erf", [x])])

    def _elu(self, x: str, alpha: float) -> str:
        below = self._add("Less", [x, self._scalar(0.0)])
        near = self._add("And", [below, self._add("Greater", [x, self._scalar(-_NEAR_ZERO)])])
        series = self._series(x, x, [alpha * factor for factor in _EXPM1])
        return self._add("Where", [near, series, self._add("Elu", [x], alpha=alpha)])

    def _series(self, x: str, power: str, factors: Sequence[float]) -> str:
        """x times a polynomial of `power`."""
        *others, total = map(self._scalar, factors)
        for factor in reversed(others):
            total = self._add("Add", [self._add("Mul", [total, power]), factor])
        return self._add("Mul", [x, total])

    def _gelu(self, x: str) -> str:
        inner = self._add("Erf", [self._add("Div", [x, self._scalar(math.sqrt(2.0))])])
        half = self._add("Mul", [x, self._scalar(0.5)])
        return self._add("Mul", [half, self._add("Add", [inner, self._scalar(1.0)])])

    def _gelu_by_tanh(self, x: str) -> str:
        cube = self._add("Mul", [self._add("Mul", [x, x]), x])
        inner = self._add("Add", [x, self._add("Mul", [cube, self._scalar(0.044715)])])
        curve = self._add("Tanh", [self._add("Mul", [inner, self._scalar(math.sqrt(2.0 / math.pi))])])
        half = self._add("Mul", [x, self._scalar(0.5)])
        return self._add("Mul", [half, self._add("Add", [curve, self._scalar(1.0)])])

    def _softplus(self, x: str, beta: float = 1.0, threshold: float = 20.0) -> str:
        if (beta, threshold) == (1.0, 20.0):
            return self._whole_softplus(x)
        scaled = self._add("Mul", [x, self._scalar(beta)])
        curve = self._add("Div", [self._whole_softplus(scaled), self._scalar(beta)])
        return self._add("Where", [self._add("Greater", [scaled, self._scalar(threshold)]), x, curve])

    def _whole_softplus(self, x: str) -> str:
        small = self._add("Less", [x, self._scalar(_SMALL_SOFTPLUS)])
        power = self._add("Exp", [x])
        return self._add("Where", [small, self._series(power, power, _LOG1P), self._add("Softplus", [x])])

    def _conv(self, node: Node, *inputs: str) -> str:
        stride, padding, dilation, groups = node.params
        attributes = {"strides": stride, "pads": padding, "dilations": dilation, "group": groups}
        return self._add("Conv", inputs, kernel_shape=node.inputs[1].shape[2:], **attributes)

    def _conv_transpose(self, node: Node, *inputs: str) -> str:
        stride, padding, (dilation, more), groups = node.params
        return self._add(
            "ConvTranspose", inputs, kernel_shape=node.inputs[1].shape[2:], strides=stride, pads=padding,
            dilations=dilation, output_padding=more, group=groups,
        )  # fmt: skip

    def _max_pool(self, node: Node, x: str) -> str:
        kernel, stride, padding, dilation = node.params
        return self._add("MaxPool", [x], kernel_shape=kernel, strides=stride, pads=padding, dilations=dilation)

    def _avg_pool(self, node: Node, x: str) -> str:
        kernel, stride, padding, (count_padding,) = node.params
        extra = {"count_include_pad": int(count_padding)}
        return self._add("AveragePool", [x], kernel_shape=kernel, strides=stride, pads=padding, **extra)

    def _matmul(self, node: Node, a: str, b: str) -> str:
        return self._add("MatMul", [a, b])

    def _quantize(self, node: Node, *inputs: str) -> str:
        return self._add("QuantizeLinear", inputs)

    def _dequantize(self, node: Node, *inputs: str) -> str:
        return self._add("DequantizeLinear", inputs, **({"axis": node.params[0]} if node.params else {}))

    def _softmax(self, node: Node, x: str) -> str:
        return self._add("Softmax", [x], axis=node.params[0])

    def _reduce(self, node: Node, x: str) -> str:
        name, axes = node.params
        return self._add(_REDUCE[name], [x, self._numbers(axes)], keepdims=1)


def check(model: OnnxModel) -> None:
    """ONNX's own checks, for tests."""
    onnx.checker.check_model(model.proto, full_check=True)
