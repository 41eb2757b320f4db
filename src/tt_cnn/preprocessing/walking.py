# SPDX-License-Identifier: Apache-2.0
"""Walking a torch model and converting each module's parameters, the user's own preprocessor first."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from tt_cnn import ttnn
from tt_cnn.preprocessing.batch_norm import fold_batch_norm2d_into_conv2d
from tt_cnn.preprocessing.parameters import ParameterDict, ParameterList, make_parameter_dict
from tt_cnn.preprocessing.tensors import Conversion

Preprocessor = Callable[..., Mapping[Any, Any] | None]
Chooser = Callable[[nn.Module, str], bool]
_OFFERED = ("ttnn_module_args", "convert_to_ttnn")


def everything(module: nn.Module, name: str) -> bool:
    """The default of `convert_to_ttnn`."""
    return True


@dataclass
class Walk:
    """One walk over a model."""

    convert_to_ttnn: Chooser = everything
    custom_preprocessor: Preprocessor | None = None
    conversion: Conversion = field(default_factory=Conversion)
    folded: dict[nn.Module, nn.BatchNorm2d] = field(default_factory=dict)
    """Convolutions with the batch norm that goes into them."""
    _gone: set[nn.Module] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._gone = set(self.folded.values())
        self._offered = () if self.custom_preprocessor is None else _accepted(self.custom_preprocessor)

    def module(self, module: nn.Module, name: str, arguments: Any) -> ParameterDict | ParameterList:
        if isinstance(module, nn.ModuleList):
            return ParameterList(
                self.module(child, _join(name, index), _argument(arguments, index))
                for index, child in enumerate(module)
            )
        return self._by_the_user(module, name, arguments) or self._by_default(module, name, arguments)

    def _by_the_user(self, module: nn.Module, name: str, arguments: Any) -> ParameterDict | None:
        if self.custom_preprocessor is None:
            return None
        offers = {"ttnn_module_args": arguments, "convert_to_ttnn": self.convert_to_ttnn}
        found = self.custom_preprocessor(module, name, **{each: offers[each] for each in self._offered})
        return make_parameter_dict(found) if found else None

    def _by_default(self, module: nn.Module, name: str, arguments: Any) -> ParameterDict:
        found = ParameterDict(self._own(module, name))
        for child_name, child in module.named_children():
            key = int(child_name) if child_name.isdigit() else child_name
            inside = self.module(child, _join(name, key), _argument(arguments, key))
            if inside:
                found[key] = inside
        return found

    def _own(self, module: nn.Module, name: str) -> dict[str, Any]:
        if module in self._gone:
            return {}
        if not self.convert_to_ttnn(module, name):
            return _as_torch(module)
        if module in self.folded:
            assert isinstance(module, (nn.Conv2d, nn.ConvTranspose2d))
            return self.conversion.convolution(*fold_batch_norm2d_into_conv2d(module, self.folded[module]))
        return self.conversion.module(module)


def _accepted(preprocessor: Preprocessor) -> tuple[str, ...]:
    """Which of the offered arguments the user's preprocessor takes after model and name."""
    taken = list(inspect.signature(preprocessor).parameters)
    if len(taken) < 2:
        raise RuntimeError("Custom preprocessor must have at least two parameters: model and name")
    for name in taken[2:]:
        if name not in _OFFERED:
            raise RuntimeError(f"Unsupported parameter: {name}")
    return tuple(taken[2:])


def _as_torch(module: nn.Module) -> dict[str, Any]:
    """Parameters that stay torch tensors; a Linear's weight is turned all the same, as TT-NN's users expect."""
    own = dict(module.named_parameters(recurse=False))
    if isinstance(module, nn.Linear):
        return {name: value.T.contiguous() if name == "weight" else value for name, value in own.items()}
    return own


def _join(name: str, child: Any) -> str:
    return f"{name}.{child}" if name else str(child)


def _argument(arguments: Any, key: Any) -> Any:
    return arguments.get(key) if isinstance(arguments, Mapping) else None


def convert_torch_model_to_ttnn_model(
    model: nn.Module,
    *,
    convert_to_ttnn: Chooser | None = None,
    custom_preprocessor: Preprocessor | None = None,
    name: str = "",
    ttnn_module_args: Any = None,
) -> ParameterDict | ParameterList:
    """The converted parameters of a module; meant to be called from a custom preprocessor for a part of its module."""
    return Walk(convert_to_ttnn or everything, custom_preprocessor).module(model, name, ttnn_module_args)


def move_to_device(parameters: Any, device: Any) -> Any:
    """Put every TT-NN tensor of a tree on a device. Dictionaries and lists are changed in place."""
    if isinstance(parameters, ParameterDict):
        for key, value in parameters.items():
            parameters[key] = move_to_device(value, device)
    elif isinstance(parameters, ParameterList):
        parameters[:] = [move_to_device(value, device) for value in parameters]
    elif isinstance(parameters, ttnn.Tensor):
        return ttnn.to_device(parameters, device)
    return parameters
