# SPDX-License-Identifier: Apache-2.0
"""`ttnn.model_preprocessing` with the names, signatures and defaults of TT-NN, for code that was written for it.

Ours (`tt_cnn.preprocessing`) does more: it folds batch norms where nothing else is asked for, and reshapes biases of
convolutions. Code that does both itself must get parameters as PyTorch has them, so here nothing is folded, only what
TT-NN's default preprocessor knows is reshaped (linear layers and layer norms), and buffers are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

from tt_cnn import ttnn
from tt_cnn.preprocessing.batch_norm import fold_batch_norm2d_into_conv2d
from tt_cnn.preprocessing.dot_access import make_dot_access_dict
from tt_cnn.preprocessing.model import cache_folder, convert_model
from tt_cnn.preprocessing.module_args import (
    Conv2dArgs,
    ConvTranspose2dArgs,
    GroupNormArgs,
    MaxPool2dArgs,
    ModuleArgs,
    infer_ttnn_module_args,
)
from tt_cnn.preprocessing.parameters import ParameterDict, ParameterList, make_parameter_dict
from tt_cnn.preprocessing.tensors import (
    DTYPES,
    Conversion,
    preprocess_embedding_weight,
    preprocess_layernorm_parameter,
    preprocess_linear_bias,
    preprocess_linear_weight,
)
from tt_cnn.preprocessing.torch_tracer import trace, visualize
from tt_cnn.preprocessing.walking import Chooser, Preprocessor, Walk, everything, move_to_device

torch_dtype_to_ttnn_dtype = DTYPES


@dataclass(frozen=True)
class PlainConversion(Conversion):
    """Parameters in PyTorch's shapes but for those of linear layers and layer norms."""

    def module(self, module: nn.Module) -> dict[str, Any]:
        if isinstance(module, (nn.Linear, nn.LayerNorm)):
            return super().module(module)
        return {name: self.tensor(value) for name, value in module.named_parameters(recurse=False)}


def default_preprocessor(model: nn.Module, name: str, ttnn_module_args: Any) -> ParameterDict:
    """Parameters of the modules that TT-NN has a form for; nothing for all others."""
    known = isinstance(model, (nn.Linear, nn.LayerNorm, nn.Embedding))
    return make_parameter_dict(PlainConversion().module(model) if known else {})


def convert_torch_model_to_ttnn_model(
    model: nn.Module,
    *,
    convert_to_ttnn: Chooser,
    custom_preprocessor: Preprocessor | None,
    name: str,
    ttnn_module_args: Any,
) -> ParameterDict | ParameterList:
    walk = Walk(convert_to_ttnn, custom_preprocessor, PlainConversion())
    return walk.module(model, name, ttnn_module_args)


def preprocess_remaining_children_and_parameters(
    model: nn.Module,
    name: str,
    convert_to_ttnn: Chooser,
    custom_preprocessor: Preprocessor | None,
    parameters: dict[Any, Any],
    ttnn_module_args: Any,
    *,
    already_preprocessed_children: Any,
) -> dict[Any, Any]:
    """For a custom preprocessor that has converted some children itself: the others, into `parameters`."""
    for child_name, child in model.named_children():
        if child_name not in already_preprocessed_children:
            parameters[child_name] = convert_torch_model_to_ttnn_model(
                child,
                name=name,
                convert_to_ttnn=convert_to_ttnn,
                custom_preprocessor=custom_preprocessor,
                ttnn_module_args=(ttnn_module_args or {}).get(child_name),
            )
    return parameters


def merge_ttnn_module_args_into_parameters(parameters: Any, ttnn_module_args: Any, path: tuple[str, ...] = ()) -> Any:
    """Put each layer's arguments, less the device, beside its parameters as `ttnn_module_args`."""
    if isinstance(ttnn_module_args, ModuleArgs):
        ttnn_module_args.pop("device", None)
        parameters["ttnn_module_args"] = ttnn_module_args
        return parameters
    for key in list(parameters):
        if key not in ttnn_module_args:
            continue
        own, arguments = parameters[key], ttnn_module_args[key]
        if isinstance(own, dict) and isinstance(arguments, dict):
            merge_ttnn_module_args_into_parameters(own, arguments, (*path, str(key)))
        elif own is not arguments:
            raise ValueError(f"Conflict at {'.'.join((*path, str(key)))}")
    return parameters


def from_torch(
    *,
    model_name: str | None = None,
    version: str | None = None,
    initialize_model: Callable[[], nn.Module] | None = None,
    convert_to_ttnn: Chooser | None = None,
    custom_preprocessor: Preprocessor | None = None,
    device: Any = None,
    prefix: str | None = "",
    run_model: Callable[[nn.Module], Any] | None = None,
    reader_patterns_cache: dict[Any, Any] | None = None,
) -> Any:
    """The parameters of a model; with `run_model`, each layer with the arguments that it is called with."""
    if initialize_model is None:
        raise RuntimeError(f'Cached weights for the model {model_name} (version "{version}") don\'t exist')
    model = initialize_model()
    model.eval()
    arguments = infer_ttnn_module_args(model=model, run_model=run_model, device=device)
    walk = Walk(convert_to_ttnn or everything, custom_preprocessor, PlainConversion())
    options: dict[str, Any] = {"plain": True, "version": version, "prefix": prefix}
    options |= {"convert_to_ttnn": convert_to_ttnn, "custom_preprocessor": custom_preprocessor}
    folder = cache_folder(model_name) if arguments is None else None  # arguments hold what no file of ours does
    cached = None if folder is None or model_name is None else (folder, model_name, options)
    parameters = convert_model(model, lambda: walk, prefix or "", device, arguments=arguments, cached=cached)
    return parameters if arguments is None else merge_ttnn_module_args_into_parameters(parameters, arguments)


def preprocess_model(**options: Any) -> Any:
    """Parameters and arguments together, for models that take both.

    TT-NN then makes `ttnn.Conv2d` and `ttnn.MaxPool2d` of layers that have both, classes that 0.81.1 no longer has:
    its own function fails there. This one leaves parameters and arguments side by side.
    """
    return from_torch(**options)


def preprocess_model_parameters(
    *,
    model_name: str | None = None,
    version: str | None = None,
    initialize_model: Callable[[], nn.Module] | None = None,
    convert_to_ttnn: Chooser | None = None,
    custom_preprocessor: Preprocessor | None = None,
    device: Any = None,
    prefix: str | None = "",
) -> Any:
    """The parameters of a model, nested as the model is, on the host unless a device is given."""
    return from_torch(
        model_name=model_name,
        version=version,
        initialize_model=initialize_model,
        convert_to_ttnn=convert_to_ttnn,
        custom_preprocessor=custom_preprocessor,
        device=device,
        prefix=prefix,
    )


__all__ = [
    "Conv2dArgs",
    "ConvTranspose2dArgs",
    "GroupNormArgs",
    "MaxPool2dArgs",
    "ModuleArgs",
    "ParameterDict",
    "ParameterList",
    "convert_torch_model_to_ttnn_model",
    "default_preprocessor",
    "fold_batch_norm2d_into_conv2d",
    "from_torch",
    "infer_ttnn_module_args",
    "make_dot_access_dict",
    "make_parameter_dict",
    "merge_ttnn_module_args_into_parameters",
    "move_to_device",
    "preprocess_embedding_weight",
    "preprocess_layernorm_parameter",
    "preprocess_linear_bias",
    "preprocess_linear_weight",
    "preprocess_model",
    "preprocess_model_parameters",
    "preprocess_remaining_children_and_parameters",
    "torch_dtype_to_ttnn_dtype",
    "trace",
    "ttnn",
    "visualize",
]
