# SPDX-License-Identifier: Apache-2.0
"""torch's own modules for calls that do nothing else than one of them does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from tt_cnn.bringup.imported.graph import Held, Ref, Step
from tt_cnn.bringup.imported.ops import op_of

Arguments = Mapping[str, Any]
_OTHER_NORMS = frozenset(["BatchNorm1d", "BatchNorm3d", "SyncBatchNorm"])
"""Classes of batch norms of inputs that are no images."""


def torch_module(path: str, calls: Sequence[Sequence[Any]], held: Mapping[str, torch.Tensor]) -> nn.Module | None:
    """The module; None where some call does more than one op, or what the module would not do."""
    steps = [items[0] for items in calls if len(items) == 1 and isinstance(items[0], Step)]
    return _made(path, steps, held) if len(steps) == len(calls) else None


def torch_class(path: str, calls: Sequence[Sequence[Any]], held: Mapping[str, torch.Tensor]) -> nn.Module | None:
    """For a module that does more, but has the weights of one of torch's: one that it may be derived from."""
    inside = [[step for step in items if isinstance(step, Step)] for items in calls]
    steps = [step for items in inside for step in items if _held(step)]
    return _made(path, steps, held) if len(steps) == len(calls) and all(map(_held, steps)) else None


def _held(step: Step) -> bool:
    return any(isinstance(value, Held) for value in [*step.arguments, *step.keywords.values()])


def _made(path: str, steps: Sequence[Step], held: Mapping[str, torch.Tensor]) -> nn.Module | None:
    if not steps or any(_settings(step) != _settings(steps[0]) for step in steps):
        return None
    rule = _RULES.get(steps[0].target)
    if rule is None:
        return None
    arguments = _named(steps[0])
    data = arguments.pop("input", arguments.pop("self", None))
    if not isinstance(data, Ref) or not _holds_its_own(path, arguments):
        return None
    shapes = {name: tuple(held[value.path].shape) for name, value in arguments.items() if isinstance(value, Held)}
    with torch.device("meta"):
        made = rule(arguments, shapes)
    if isinstance(made, nn.BatchNorm2d) and steps[0].scope[-1].kind.rpartition(".")[2] in _OTHER_NORMS:
        return None
    if made is not None:
        _fill_buffers(made)
    return made


def _fill_buffers(module: nn.Module) -> None:
    """Those that the file may have no values for: the count of batches."""
    for name, value in module._buffers.items():
        if value is not None:
            module._buffers[name] = torch.zeros(value.shape, dtype=value.dtype)


def _settings(step: Step) -> dict[str, Any]:
    """All but the tensor that it works on."""
    found = {"": step.target, **_named(step)}
    return {name: value for name, value in found.items() if not isinstance(value, Ref)}


def _named(step: Step) -> dict[str, Any]:
    schema: Any = op_of(step.target)._schema  # type: ignore[attr-defined]
    defaults = {each.name: each.default_value for each in schema.arguments if each.has_default_value()}
    given = dict(zip([each.name for each in schema.arguments], step.arguments, strict=False))
    return {**defaults, **given, **step.keywords}


def _holds_its_own(path: str, arguments: Arguments) -> bool:
    """Whether each tensor among the arguments is the module's, under the argument's name."""
    return not any(isinstance(value, Ref) for value in arguments.values()) and all(
        value.path == f"{path}.{name}" for name, value in arguments.items() if isinstance(value, Held)
    )


def _pair(value: Any) -> Any:
    parts = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    return parts * 2 if len(parts) == 1 else parts


def _window(given: Arguments) -> dict[str, Any]:
    padding = given["padding"]
    return {
        "stride": _pair(given["stride"]),
        "padding": padding if isinstance(padding, str) else _pair(padding),
        "dilation": _pair(given["dilation"]),
        "groups": given["groups"],
        "bias": given.get("bias") is not None,
    }


def _convolution(given: Arguments, shapes: Mapping[str, tuple[int, ...]]) -> nn.Module | None:
    if len(shapes.get("weight", ())) != 4:
        return None
    outputs, inputs, *size = shapes["weight"]
    return nn.Conv2d(inputs * given["groups"], outputs, tuple(size), **_window(given))  # type: ignore[arg-type]


def _transposed(given: Arguments, shapes: Mapping[str, tuple[int, ...]]) -> nn.Module | None:
    if len(shapes.get("weight", ())) != 4:
        return None
    inputs, outputs, *size = shapes["weight"]
    more = {"output_padding": _pair(given["output_padding"])}
    return nn.ConvTranspose2d(inputs, outputs * given["groups"], tuple(size), **_window(given), **more)  # type: ignore[arg-type]


def _linear(given: Arguments, shapes: Mapping[str, tuple[int, ...]]) -> nn.Module | None:
    if len(shapes.get("weight", ())) != 2:
        return None
    outputs, inputs = shapes["weight"]
    return nn.Linear(inputs, outputs, bias=given.get("bias") is not None)


def _batch_norm(given: Arguments, shapes: Mapping[str, tuple[int, ...]]) -> nn.Module | None:
    if "running_mean" not in shapes or "running_var" not in shapes or given["training"]:
        return None
    if ("weight" in shapes) != ("bias" in shapes):
        return None
    (channels,) = shapes["running_mean"]
    return nn.BatchNorm2d(channels, given["eps"], given["momentum"], affine="weight" in shapes)


def _layer_norm(given: Arguments, shapes: Mapping[str, tuple[int, ...]]) -> nn.Module | None:
    if "bias" in shapes and "weight" not in shapes:
        return None
    shape = list(given["normalized_shape"])
    affine = "weight" in shapes
    return nn.LayerNorm(shape, given["eps"], elementwise_affine=affine, bias="bias" in shapes)


def _group_norm(given: Arguments, shapes: Mapping[str, tuple[int, ...]]) -> nn.Module | None:
    if not {"weight", "bias"} <= shapes.keys():
        return None
    return nn.GroupNorm(given["num_groups"], shapes["weight"][0], given["eps"])


def _prelu(given: Arguments, shapes: Mapping[str, tuple[int, ...]]) -> nn.Module | None:
    return nn.PReLU(shapes["weight"][0]) if len(shapes.get("weight", ())) == 1 else None


def _max_pool(given: Arguments, shapes: Mapping[str, tuple[int, ...]]) -> nn.Module | None:
    size = _pair(given["kernel_size"])
    return nn.MaxPool2d(
        size,
        _pair(given["stride"]) if given["stride"] else size,
        _pair(given["padding"]),
        _pair(given["dilation"]),
        ceil_mode=given["ceil_mode"],
    )


def _average_pool(given: Arguments, shapes: Mapping[str, tuple[int, ...]]) -> nn.Module | None:
    size = _pair(given["kernel_size"])
    return nn.AvgPool2d(
        size,
        _pair(given["stride"]) if given["stride"] else size,
        _pair(given["padding"]),
        given["ceil_mode"],
        given["count_include_pad"],
        given["divisor_override"],
    )


_RULES: dict[str, Callable[[Arguments, Mapping[str, tuple[int, ...]]], nn.Module | None]] = {
    "aten.conv2d.default": _convolution,
    "aten.conv2d.padding": _convolution,
    "aten.conv_transpose2d.input": _transposed,
    "aten.linear.default": _linear,
    "aten.batch_norm.default": _batch_norm,
    "aten.layer_norm.default": _layer_norm,
    "aten.group_norm.default": _group_norm,
    "aten.prelu.default": _prelu,
    "aten.max_pool2d.default": _max_pool,
    "aten.avg_pool2d.default": _average_pool,
}
