# SPDX-License-Identifier: Apache-2.0
"""What single layers lose by their precision, each alone on the input that it has in a run of the model.

One run notes the input of every layer. Afterwards a layer is given this input again, with other settings and nothing
else on the card, and its output is compared with torch's in float32 with unrounded weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from tt_cnn import ttnn
from tt_cnn.builder.layer import Layer
from tt_cnn.builder.overrides import Assignment, LayerSettings, with_settings
from tt_cnn.builder.weights import to_one_torch
from tt_cnn.optimizer.accuracy import ModelOnCard, collect_young
from tt_cnn.testing.torch_layers import multiplies, torch_rows
from tt_cnn.virtual.errors.card_error import CardError

INPUT_DTYPE = "activation_dtype"
"""A setting that the layers themselves do not follow: the model's code may convert what it gives to them."""


@dataclass(frozen=True)
class Noise:
    """Differences from torch's output by channel: what all pixels have in common, and what is left of each."""

    mean: torch.Tensor
    variance: torch.Tensor


@dataclass
class LayerCall:
    """The first call of a layer in a run. (A layer that is called more than once loses alike in each.)"""

    given: Any
    """Its input, on the host."""
    memory_config: Any
    """Where the input was on the card; None where it was on the host."""
    output: torch.Tensor
    """(rows, channels), float32."""
    exact: torch.Tensor | None = None
    """torch's output for the same input; made when it is asked for."""


def record_calls(model: ModelOnCard, assignment: Assignment, images: torch.Tensor) -> dict[str, LayerCall]:
    """All layers that multiply, by name, in the order of the calls."""
    calls: dict[str, LayerCall] = {}
    with _listening(model.layers, calls):
        model.run(assignment, images)
    return calls


@contextmanager
def _listening(layers: Mapping[str, Layer], calls: dict[str, LayerCall]) -> Iterator[None]:
    listened = [layer for layer in layers.values() if multiplies(layer.configuration)]
    for layer in listened:
        vars(layer)["run"] = _noting(layer, layer.run, calls)
    try:
        yield
    finally:
        for layer in listened:
            del vars(layer)["run"]


def _noting(layer: Layer, run: Callable[[Any], Any], calls: dict[str, LayerCall]) -> Callable[[Any], Any]:
    def noted(x: Any) -> Any:
        on_device = ttnn.is_tensor_storage_on_device(x)
        given = ttnn.from_device(x) if on_device else x
        memory_config = x.memory_config() if on_device else None
        output = run(x)
        calls.setdefault(layer.name, LayerCall(given, memory_config, _rows(output)))
        return output

    return noted


def noise_of(model: ModelOnCard, name: str, call: LayerCall, settings: LayerSettings) -> Noise | None:
    """With some settings changed; None where the card does not take them."""
    layer = model.layers[name]
    own = layer.configuration
    if call.exact is None:
        call.exact = torch_rows(own, to_one_torch(call.given).float())
    if call.exact is None:
        raise ValueError(
            f"layer {name!r} is neither a convolution nor a linear layer; its precision cannot be measured"
        )
    model.forget_programs()
    try:
        layer.configure(with_settings(own, settings, name))
        output = _called(layer, call, settings.get(INPUT_DTYPE))
    except (CardError, ValueError):
        return None
    finally:
        _free_weights(layer)
        layer.configure(own)
    rows = _rows(output)
    ttnn.deallocate(output)
    collect_young()
    return difference(rows, call.exact)


def _free_weights(layer: Any) -> None:
    """Those that were prepared for this call: nobody else has them, and a search makes hundreds."""
    own = layer.configuration
    for tensor, given in ((layer.weight, own.weight), (layer.bias, own.bias)):
        if tensor is not given and ttnn.is_tensor_storage_on_device(tensor) and tensor.is_allocated():
            ttnn.deallocate(tensor)


def difference(output: torch.Tensor, exact: torch.Tensor) -> Noise:
    away = output - exact
    mean = away.mean(0)
    return Noise(mean, (away - mean).square().mean(0))


def _called(layer: Layer, call: LayerCall, dtype: Any) -> Any:
    given = call.given
    if dtype is not None and given.dtype != dtype:
        given = ttnn.to_dtype(ttnn.to_layout(given, ttnn.TILE_LAYOUT), dtype)
    if call.memory_config is None:
        return layer(given)
    placed = ttnn.to_device(given, layer.device, memory_config=call.memory_config)
    try:
        return layer(placed)
    finally:
        if placed.is_allocated():
            ttnn.deallocate(placed)


def _rows(output: Any) -> torch.Tensor:
    values = to_one_torch(output).float()
    return values.reshape(-1, values.shape[-1])
