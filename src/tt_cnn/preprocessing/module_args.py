# SPDX-License-Identifier: Apache-2.0
"""What a layer of the reference model was called with: the arguments from which its TT-NN counterpart is made.

`infer_ttnn_module_args` runs the model once and notes the input of each layer. TT-NN's own also draws the model with
graphviz, which must be installed for it; this one draws nothing. TT-NN has arguments for convolutions, transposed
convolutions, max pools and group norms only, and no `ceil_mode`; the other kinds are ours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from tt_cnn import ttnn
from tt_cnn.preprocessing.dot_access import DotAccessDict
from tt_cnn.preprocessing.torch_tracer import ModuleCall, Shape, trace


class ModuleArgs(DotAccessDict):
    """Arguments of one layer."""


class Conv2dArgs(ModuleArgs):
    pass


class ConvTranspose2dArgs(ModuleArgs):
    pass


class MaxPool2dArgs(ModuleArgs):
    pass


class AvgPool2dArgs(ModuleArgs):
    pass


class AdaptiveAvgPool2dArgs(ModuleArgs):
    pass


class UpsampleArgs(ModuleArgs):
    pass


class GroupNormArgs(ModuleArgs):
    pass


class LinearArgs(ModuleArgs):
    pass


def _numbers(value: Any) -> Any:
    """Sizes as a model may hold them (a tensor's size traced to a tensor) as plain numbers."""
    return tuple(int(each) for each in value) if isinstance(value, (tuple, list)) else value


def _padding(module: nn.Conv2d) -> Any:
    """`same` and `valid` as numbers: (height, width), or (top, bottom, left, right) where the halves differ."""
    if not isinstance(module.padding, str):
        return module.padding
    if module.padding == "valid":
        return (0, 0)
    whole = [dilation * (size - 1) for dilation, size in zip(module.dilation, module.kernel_size, strict=True)]
    if all(each % 2 == 0 for each in whole):
        return tuple(each // 2 for each in whole)
    return tuple(part for each in whole for part in (each // 2, each - each // 2))


def _image(shape: Shape) -> dict[str, int]:
    return {"batch_size": shape[0], "input_height": shape[-2], "input_width": shape[-1]}


def _convolution(module: Any, shape: Shape, device: Any) -> dict[str, Any]:
    return {
        "in_channels": module.in_channels,
        "out_channels": module.out_channels,
        "kernel_size": module.kernel_size,
        "stride": module.stride,
        "padding": _padding(module),
        "dilation": module.dilation,
        "groups": module.groups,
        "padding_mode": module.padding_mode,
        **_image(shape),
        "math_fidelity": ttnn.MathFidelity.HiFi4,
        "dtype": ttnn.bfloat16,
        "weights_dtype": ttnn.bfloat16,
        "use_1d_systolic_array": True,
        "enable_auto_formatting": False,
        "conv_blocking_and_parallelization_config_override": {},
        "device": device,
    }


def _transposed(module: Any, shape: Shape, device: Any) -> dict[str, Any]:
    return {**_convolution(module, shape, device), "output_padding": module.output_padding}


def _pool(module: Any, shape: Shape, device: Any) -> dict[str, Any]:
    return {
        "kernel_size": module.kernel_size,
        "stride": module.stride,
        "padding": module.padding,
        "ceil_mode": module.ceil_mode,
        **_image(shape),
        "input_channels": shape[1],
        "dtype": ttnn.bfloat16,
    }


def _max_pool(module: Any, shape: Shape, device: Any) -> dict[str, Any]:
    return {**_pool(module, shape, device), "dilation": module.dilation}


def _average_pool(module: Any, shape: Shape, device: Any) -> dict[str, Any]:
    return {
        **_pool(module, shape, device),
        "count_include_pad": module.count_include_pad,
        "divisor_override": module.divisor_override,
    }


def _adaptive_pool(module: Any, shape: Shape, device: Any) -> dict[str, Any]:
    return {
        "output_size": module.output_size,
        **_image(shape),
        "input_channels": shape[1],
        "dtype": ttnn.bfloat16,
    }


def _upsample(module: Any, shape: Shape, device: Any) -> dict[str, Any]:
    return {
        "scale_factor": module.scale_factor,
        "size": _numbers(module.size),
        "mode": module.mode,
        "align_corners": module.align_corners,
        **_image(shape),
        "input_channels": shape[1],
        "dtype": ttnn.bfloat16,
    }


def _group_norm(module: Any, shape: Shape, device: Any) -> dict[str, Any]:
    return {
        "num_groups": module.num_groups,
        "num_channels": module.num_channels,
        "eps": module.eps,
        "affine": module.affine,
        **_image(shape),
        "dtype": ttnn.bfloat16,
    }


def _linear(module: Any, shape: Shape, device: Any) -> dict[str, Any]:
    return {
        "in_features": module.in_features,
        "out_features": module.out_features,
        "input_shape": shape,
        "dtype": ttnn.bfloat16,
    }


_KINDS: tuple[tuple[type[nn.Module], type[ModuleArgs], Callable[[Any, Shape, Any], dict[str, Any]]], ...] = (
    (nn.Conv2d, Conv2dArgs, _convolution),
    (nn.ConvTranspose2d, ConvTranspose2dArgs, _transposed),
    (nn.MaxPool2d, MaxPool2dArgs, _max_pool),
    (nn.AvgPool2d, AvgPool2dArgs, _average_pool),
    (nn.AdaptiveAvgPool2d, AdaptiveAvgPool2dArgs, _adaptive_pool),
    (nn.Upsample, UpsampleArgs, _upsample),
    (nn.GroupNorm, GroupNormArgs, _group_norm),
    (nn.Linear, LinearArgs, _linear),
)


def infer_ttnn_module_args(*, model: nn.Module, run_model: Callable[[nn.Module], Any] | None, device: Any) -> Any:
    """The arguments of every layer that `run_model(model)` calls, nested as the calls are.

    A module that calls another has an entry of that one's name; a name that is a number also is a number
    (`args.encoder1[0]`, `args.encoder1["0"]`). Where a module runs the members of a `ModuleList` or of a `Sequential`
    itself, their entries are its own, since the container is never called: `args[0]`, not `args.blocks[0]`. Of calls
    under the same name in one module (a second call, members of a second list) the last one counts. A model that is a
    layer itself gives that layer's arguments.
    """
    if run_model is None:
        return None
    calls = _traced(model, run_model)
    found = _nested(calls, device)
    return found[""] if "" in found else found[calls[-1].name]


def infer_layer_arguments(*, model: nn.Module, run_model: Callable[[nn.Module], Any], device: Any) -> dict[str, Any]:
    """The same arguments by the names of `model.named_modules()`: no two layers share an entry."""
    names = {module: name for name, module in model.named_modules()}
    called = [call for outermost in _traced(model, run_model) for call in outermost]
    found = {names[call.module]: _arguments(call, device) for call in called if call.module in names}
    return {name: arguments for name, arguments in found.items() if arguments is not None}


def _traced(model: nn.Module, run_model: Callable[[nn.Module], Any]) -> list[ModuleCall]:
    with torch.no_grad(), trace() as calls:
        run_model(model)
    if not calls:
        raise ValueError("run_model did not call the model that it was given, so no layer has arguments")
    return calls


def _nested(calls: list[ModuleCall], device: Any) -> DotAccessDict:
    found = DotAccessDict()
    for call in calls:
        arguments = _arguments(call, device)
        found[call.name] = _nested(call.calls, device) if arguments is None else arguments
        if call.name.isdigit():
            found[int(call.name)] = found[call.name]
    return found


def _arguments(call: ModuleCall, device: Any) -> ModuleArgs | None:
    for kind, arguments, describe in _KINDS:
        if isinstance(call.module, kind) and call.shape:
            return arguments(describe(call.module, _with_batch(call.module, call.shape), device))
    return None


def _with_batch(module: nn.Module, shape: Shape) -> Shape:
    """torch takes an image without a batch dimension too."""
    return (1, *shape) if len(shape) == 3 and not isinstance(module, nn.Linear) else shape
