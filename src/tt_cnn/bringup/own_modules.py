# SPDX-License-Identifier: Apache-2.0
"""Whether an op is all that a torch module's own forward does.

A class of the user's that is derived from `nn.Conv2d` may pad, scale its weight or ignore its bias before it calls the
op: the op's arguments tell, and the module is named in the generated code only where they are its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from tt_cnn.bringup.torch_graph import Parameter, TorchNode

_WINDOW = ("stride", "padding", "dilation")


def _has_parameters(node: TorchNode, module: nn.Module, *names: str) -> bool:
    """Whether the arguments of these names are the module's parameters and buffers of these names."""
    for name in names:
        given, own = node.arguments.get(name), getattr(module, name, None)
        if own is None and given is None:
            continue
        if not isinstance(given, Parameter) or own is None or given.path != f"{node.call.path}.{name}":
            return False
    return True


def _alike(given: Any, own: Any) -> bool:
    """`[2, 2]` and `2`, `[]` and None."""
    if isinstance(given, (list, tuple)) and isinstance(own, (int, float)):
        return all(each == own for each in given)
    if isinstance(given, (list, tuple)) and isinstance(own, (list, tuple)):
        short, long = sorted((list(given), list(own)), key=len)
        return long == short or (len(short) == 1 and all(each == short[0] for each in long))
    return bool(given == own)


def _convolution(node: TorchNode, module: Any) -> bool:
    window = all(_alike(node.arguments[name], getattr(module, name)) for name in _WINDOW)
    same = window and node.arguments["groups"] == module.groups and module.padding_mode == "zeros"
    turned = node.op != "conv_transpose2d" or _alike(node.arguments["output_padding"], module.output_padding)
    return same and turned and _has_parameters(node, module, "weight", "bias")


def _linear(node: TorchNode, module: Any) -> bool:
    return _has_parameters(node, module, "weight", "bias")


def _batch_norm(node: TorchNode, module: Any) -> bool:
    own = _has_parameters(node, module, "weight", "bias", "running_mean", "running_var")
    return own and not node.arguments.get("training") and node.arguments["eps"] == module.eps


def _layer_norm(node: TorchNode, module: Any) -> bool:
    same = tuple(node.arguments["normalized_shape"]) == tuple(module.normalized_shape)
    return same and node.arguments["eps"] == module.eps and _has_parameters(node, module, "weight", "bias")


def _group_norm(node: TorchNode, module: Any) -> bool:
    same = node.arguments["num_groups"] == module.num_groups and node.arguments["eps"] == module.eps
    return same and _has_parameters(node, module, "weight", "bias")


def _pool(node: TorchNode, module: Any) -> bool:
    own = ("kernel_size", "stride", "padding", "dilation", "ceil_mode", "count_include_pad", "divisor_override")
    names = [name for name in own if name in node.arguments]
    given = {**node.arguments, "stride": node.arguments["stride"] or node.arguments["kernel_size"]}
    return all(_alike(given[name], getattr(module, name)) for name in names)


_KINDS: Mapping[str, tuple[type, Callable[[TorchNode, Any], bool]]] = {
    "conv2d": (nn.Conv2d, _convolution),
    "conv_transpose2d": (nn.ConvTranspose2d, _convolution),
    "linear": (nn.Linear, _linear),
    "batch_norm": (nn.modules.batchnorm._BatchNorm, _batch_norm),
    "layer_norm": (nn.LayerNorm, _layer_norm),
    "group_norm": (nn.GroupNorm, _group_norm),
    "prelu": (nn.PReLU, lambda node, module: _has_parameters(node, module, "weight")),
    "max_pool2d": (nn.MaxPool2d, _pool),
    "avg_pool2d": (nn.AvgPool2d, _pool),
}


def is_own(node: TorchNode, module: nn.Module | None) -> bool:
    """Whether the module's forward, as torch has it, is this op with these arguments."""
    if module is None or not node.call.path or node.op not in _KINDS:
        return False
    kind, check = _KINDS[node.op]
    return isinstance(module, kind) and check(node, module)
