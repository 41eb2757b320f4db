# SPDX-License-Identifier: Apache-2.0
"""What can be read from one op of the torch graph: multiply-adds, parameters, the arguments that tell it apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from math import prod
from typing import Any

import torch

from tt_cnn.bringup.torch_graph import Parameter, TorchGraph, TorchNode

Shape = tuple[int, ...]


# --- multiply-adds --------------------------------------------------------------------------------------------------


def multiply_adds(node: TorchNode) -> int:
    """Of convolutions, matmuls and attention, for the shapes that the graph was exported with; others count as none."""
    rule = _MULTIPLY_ADDS.get(node.op)
    return rule(node) if rule is not None else 0


def _of_convolution(node: TorchNode) -> int:
    """Each output value sums over the weights of one output channel, which sees only the channels of its group."""
    weight = node.arguments["weight"].shape
    if node.arguments.get("transposed"):
        return _of_transposed_convolution(node)
    return prod(shape_of(node)) * prod(weight[1:])


def _of_transposed_convolution(node: TorchNode) -> int:
    """Each input value is multiplied with the weights of one input channel, which reaches only its own group."""
    return prod(shape_of(node.arguments["input"])) * prod(node.arguments["weight"].shape[1:])


def _of_linear(node: TorchNode) -> int:
    return prod(shape_of(node)) * shape_of(node.arguments["input"])[-1]


def _of_matmul(node: TorchNode) -> int:
    first = next(node.arguments[name] for name in ("mat1", "batch1", "self") if name in node.arguments)
    return prod(shape_of(node)) * shape_of(first)[-1]


def _of_attention(node: TorchNode) -> int:
    """Scores, then their product with the values."""
    query, key, value = (shape_of(node.arguments[name]) for name in ("query", "key", "value"))
    return prod(query[:-1]) * key[-2] * (query[-1] + value[-1])


def _of_einsum(node: TorchNode) -> int:
    """Every combination of indices once, for two operands."""
    terms = str(node.arguments["equation"]).replace(" ", "").split("->")[0].split(",")
    operands = node.arguments["tensors"]
    if len(terms) != 2 or "..." in "".join(terms):
        return 0
    pairs = (zip(term, shape_of(operand), strict=True) for term, operand in zip(terms, operands, strict=True))
    sizes = {letter: size for pair in pairs for letter, size in pair}
    return prod(sizes.values())


_MULTIPLY_ADDS: dict[str, Callable[[TorchNode], int]] = {
    **dict.fromkeys(("conv1d", "conv2d", "conv3d", "convolution"), _of_convolution),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), _of_transposed_convolution),
    "linear": _of_linear,
    **dict.fromkeys(("matmul", "mm", "bmm", "addmm", "baddbmm"), _of_matmul),
    "scaled_dot_product_attention": _of_attention,
    "einsum": _of_einsum,
}


# --- parameters -----------------------------------------------------------------------------------------------------


def parameters_of(node: TorchNode) -> Iterator[Parameter]:
    """Parameters, buffers and constants that the op reads."""
    yield from _parameters_in(node.arguments)


def parameter_sizes(graph: TorchGraph) -> dict[str, int]:
    """Of the model's parameters by path, under all the names that a shared one has. Buffers are none."""
    return {path: tensor.numel() for path, tensor in graph.model.named_parameters(remove_duplicate=False)}


def parameter_paths(node: TorchNode, sizes: dict[str, int]) -> set[str]:
    """Of the model's parameters those that the op reads, with those of a batch norm that was folded into it."""
    read = {each.path for each in parameters_of(node)}
    norm = node.fused.get("norm")
    if norm:
        read |= {path for path in sizes if path.rpartition(".")[0] == norm}
    return read & sizes.keys()


def _parameters_in(value: Any) -> Iterator[Parameter]:
    if isinstance(value, Parameter):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _parameters_in(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _parameters_in(each)


# --- shapes and arguments -------------------------------------------------------------------------------------------


def shape_of(value: Any) -> Shape:
    """Of a node with one output, or of a parameter."""
    return tuple(value.shape)


def shapes(node: TorchNode) -> tuple[Shape, ...]:
    """Of all that the op makes."""
    if node.shape and isinstance(node.shape[0], tuple):
        return node.shape
    return (node.shape,)  # type: ignore[return-value]


def shape_text(shape: Shape) -> str:
    return "x".join(map(str, shape)) or "scalar"


def dtype_text(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.") if dtype is not None else "several"


_NOT_SAID = frozenset(
    {
        "device",
        "layout",
        "pin_memory",
        "memory_format",
        "requires_grad",
        "implicit",
        "momentum",
        "training",
        "cudnn_enabled",
        "cudnn_enable",
        "use_input_stats",
        "inplace",
        "kernel_size",
        "copy",
        "non_blocking",
        "generator",
    }
)
"""Arguments that say nothing about what an op computes in eval mode."""
_WEIGHTS = frozenset({"weight", "bias", "running_mean", "running_var"})
"""Parameters that the parameter count and the module already tell."""
_SIZES = frozenset(
    {"kernel_size", "stride", "padding", "dilation", "output_padding", "output_size", "scale_factors", "kernel"}
)


def short_arguments(node: TorchNode) -> str:
    """What differs from torch's defaults, tensors aside; a convolution's kernel from its weight."""
    defaults = _defaults(node.target)
    said = []
    if "kernel_size" in node.arguments:
        said.append(f"kernel={_argument('kernel_size', node.arguments['kernel_size'])}")
    if "conv" in node.op and isinstance(node.arguments.get("weight"), (Parameter, TorchNode)):
        said.append(f"kernel={shape_text(shape_of(node.arguments['weight'])[2:])}")
    for name, value in node.arguments.items():
        if name in _NOT_SAID or isinstance(value, TorchNode) or (name in _WEIGHTS and isinstance(value, Parameter)):
            continue
        if value is None or (name in defaults and _same(value, defaults[name])):
            continue
        text = _argument(name, value)
        if text:
            said.append(f"{name}={text}" if not name.isdigit() else f"[{text}]")
    return " ".join(said)


def _argument(name: str, value: Any) -> str:
    if isinstance(value, Parameter):
        return f"{value.path}:{shape_text(value.shape)}"
    if isinstance(value, (list, tuple)):
        if any(isinstance(each, TorchNode) for each in value):
            return ""  # its shapes are among the inputs
        if name in _SIZES:
            return "x".join(f"{each:g}" for each in value)
        return "[" + ",".join(_argument("", each) for each in value) + "]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _same(value: Any, default: Any) -> bool:
    """torch writes `stride: int[2] = 1`: one number for all, or a list."""
    if isinstance(value, (list, tuple)):
        spread = default if isinstance(default, (list, tuple)) else [default] * len(value)
        return list(value) == list(spread)
    return type(value) is type(default) and bool(value == default)


@cache
def _defaults(target: str) -> dict[str, Any]:
    schema = schema_of(target)
    unsaid = {"eps": 1e-5} if "batch_norm" in target else {}
    return (
        unsaid | {a.name: a.default_value for a in schema.arguments if a.has_default_value()}
        if schema is not None
        else {}
    )


def schema_of(target: str) -> Any:
    """Of `aten.conv2d.default`; None for what is no op of torch's."""
    found: Any = torch.ops
    for part in target.split("."):
        found = getattr(found, part, None)
        if found is None:
            return None
    return getattr(found, "_schema", None)
