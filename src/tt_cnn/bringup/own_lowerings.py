# SPDX-License-Identifier: Apache-2.0
"""Modules that the user lowers: they are one op of the exported graph, and one layer of the generated code.

    from tt_cnn.bringup.own_lowerings import register_lowering

    register_lowering(DeformableConv, "my_package.layers:make_deformable_conv")

`make_deformable_conv(layers, module, name)` gets the `LayerFactory`, the torch module and the layer's name, and returns
a callable on tensors of the card. Images come and go as pixels, (1, 1, N*H*W, C), all else as rows (1, 1, rows, last).
`torch.export` does not look inside such a module, so it may do in Python whatever it likes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

_REGISTERED: dict[type[nn.Module], str] = {}
_RUNNING: list[tuple[Any, tuple[int, ...]]] = []
"""Forwards of modules that are one op while a model is exported or run so, and the shapes that they give."""


def register_lowering(kind: type[nn.Module], maker: str) -> None:
    """`maker` is `package.module:function`, so that the generated code can name it."""
    module, colon, function = maker.partition(":")
    if not (module and colon and function.isidentifier()):
        raise ValueError(f"maker is {maker!r}; it must be like my_package.layers:make_layer")
    if not (isinstance(kind, type) and issubclass(kind, nn.Module)):
        raise TypeError(f"kind is {kind!r}; it must be a class of torch modules")
    _REGISTERED[kind] = maker


def maker_of(module: nn.Module) -> str | None:
    """What the user registered for a module of this class."""
    return _REGISTERED.get(type(module))


@torch.library.custom_op("tt_cnn::registered_module", mutates_args=())
def _registered_module(inputs: list[torch.Tensor], index: int) -> torch.Tensor:
    forward, _ = _RUNNING[index]
    result: torch.Tensor = forward(*inputs)
    return result.clone()


@_registered_module.register_fake
def _(inputs: list[torch.Tensor], index: int) -> torch.Tensor:
    _, shape = _RUNNING[index]
    return inputs[0].new_empty(shape)


@contextmanager
def registered_modules_closed(model: nn.Module, inputs: Sequence[torch.Tensor]) -> Iterator[None]:
    """Registered modules are one op each while the model is exported; each may be called once."""
    found = [module for module in model.modules() if maker_of(module) is not None]
    if not found:
        yield
        return
    shapes = _output_shapes(model, found, inputs)
    start = len(_RUNNING)
    try:
        for module in found:
            _close(module, shapes[module])
        yield
    finally:
        for module in found:
            module.__dict__.pop("forward", None)
        del _RUNNING[start:]


def _close(module: nn.Module, shape: tuple[int, ...]) -> None:
    index = len(_RUNNING)
    _RUNNING.append((module.forward, shape))

    def forward(*arguments: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = torch.ops.tt_cnn.registered_module(list(arguments), index)
        return result

    module.forward = forward


def _output_shapes(
    model: nn.Module, modules: Sequence[nn.Module], inputs: Sequence[torch.Tensor]
) -> dict[nn.Module, tuple[int, ...]]:
    shapes: dict[nn.Module, tuple[int, ...]] = {}

    def note(module: nn.Module, arguments: Any, output: Any) -> None:
        if not isinstance(output, torch.Tensor) or not all(isinstance(each, torch.Tensor) for each in arguments):
            raise ValueError(f"{type(module).__name__} is registered; it must take tensors alone and return one")
        if module in shapes:
            raise ValueError(
                f"{type(module).__name__} is registered and called twice; each call must be its own module"
            )
        shapes[module] = tuple(output.shape)

    hooks = [module.register_forward_hook(note) for module in modules]
    try:
        with torch.no_grad():
            model(*inputs)
    finally:
        for hook in hooks:
            hook.remove()
    missing = [type(module).__name__ for module in modules if module not in shapes]
    if missing:
        raise ValueError(f"{missing[0]} is registered, but the model does not call it")
    return shapes
