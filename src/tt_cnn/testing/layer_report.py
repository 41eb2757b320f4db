# SPDX-License-Identifier: Apache-2.0
"""`compare_layers`: where in a model the values start to differ from torch's.

The torch model is run with a hook on every module. The TT model is any of

- a dictionary of outputs by torch's module names;
- an object with `named_outputs(input)`, which runs it and gives such a dictionary;
- a callable whose layers are attributes (or members of lists, tuples and dictionaries) under the names of torch's
  modules, `encoder1.0` for `tt_model.encoder1[0]`, or have torch's names themselves, wherever in the model they are
  kept: `TtConv2d(..., name="encoder1.0")`. They are listened to while `tt_model(input)` runs.

Names that differ are matched with `names`, TT's name to torch's: a TT convolution that a batch norm and an activation
were fused into is compared with `{"encoder1.conv1": "encoder1.2"}`. A convolution whose batch norm `torch.fx` finds is
compared with the batch norm's output without a setting.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from tt_cnn.preprocessing import find_conv_batch_norm_pairs
from tt_cnn.testing.activations import apply
from tt_cnn.testing.listening import layers_of, listening
from tt_cnn.testing.pcc import as_torch, comp_pcc, max_error


@dataclass(frozen=True)
class LayerComparison:
    """One module's output against torch's."""

    name: str
    """The name in the TT model."""
    torch_name: str
    """The module whose output it was compared with."""
    pcc: float
    max_error: float
    passed: bool
    note: str = ""


@dataclass
class LayerReport:
    """All modules that were compared, in the order in which torch ran them."""

    threshold: float
    layers: list[LayerComparison] = field(default_factory=list)

    @property
    def first_below(self) -> LayerComparison | None:
        """The first module under the threshold: where to look."""
        return next((layer for layer in self.layers if not layer.passed), None)

    @property
    def passed(self) -> bool:
        return self.first_below is None

    def __str__(self) -> str:
        rows = [("", "module", "compared with", "PCC", "largest error", "")]
        for layer in self.layers:
            mark = "►" if layer is self.first_below else ("" if layer.passed else "!")
            other = "" if layer.torch_name == layer.name else layer.torch_name
            rows.append((mark, layer.name, other, f"{layer.pcc:.6f}", f"{layer.max_error:.4g}", layer.note))
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        table = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        found = self.first_below
        end = (
            f"{_all(len(self.layers))} PCC {self.threshold}"
            if found is None
            else f"► {found.name} is the first module under PCC {self.threshold}"
        )
        return "\n".join([*table, end])


def compare_layers(
    torch_model: nn.Module,
    tt_model: Any,
    torch_input: Any,
    tt_input: Any = None,
    *,
    threshold: float = 0.99,
    names: Mapping[str, str] | None = None,
) -> LayerReport:
    """PCC and largest error of every module's output that both models have, the first one under `threshold` marked.

    torch_input is a tensor or a tuple of arguments; tt_input (torch_input where it is None) is handed to `tt_model`.
    Outputs of TT-NN are brought into torch's shape: (1, 1, NHW, C), (N, 1, C, HW) and padded channels are understood.
    """
    expected = _torch_outputs(torch_model, torch_input)
    given = dict(names or {})
    taken = _counterparts(torch_model, expected, given)
    outputs = _tt_outputs(tt_model, torch_input if tt_input is None else tt_input, list(taken))
    unknown = [name for name in given if name not in outputs]
    if unknown:
        raise ValueError(f"names has {', '.join(unknown)}, which the TT model has no output for")
    found = [(torch_name, name) for name, torch_name in taken.items() if name in outputs]
    if not found:
        raise ValueError(
            "the models have no module in common; match them with names={TT's name: torch's name}. torch has: "
            + ", ".join(name for name in expected if name)
        )
    order = {name: index for index, name in enumerate(expected)}
    found.sort(key=lambda pair: order[pair[0]])
    report = LayerReport(threshold)
    derived = [name for name in outputs if name not in given]
    fused = {} if isinstance(tt_model, Mapping) else _fused_activations(torch_model, tt_model, taken, derived)
    report.layers = [
        _compare(name, torch_name, expected, outputs, threshold, fused.get(name)) for torch_name, name in found
    ]
    return report


def _counterparts(model: nn.Module, expected: Mapping[str, Any], given: Mapping[str, str]) -> dict[str, str]:
    """TT's names with the torch modules they are compared with: those given, a convolution's batch norm, the same."""
    for name, torch_name in given.items():
        if torch_name not in expected:
            raise ValueError(f"names has {name!r}: {torch_name!r}, but torch ran no module of that name")
    batch_norm_of = find_conv_batch_norm_pairs(model).batch_norm_of
    return {**{name: batch_norm_of.get(name, name) for name in expected if name}, **given}


def _torch_outputs(model: nn.Module, given: Any) -> dict[str, torch.Tensor]:
    """Outputs by name in the order of the calls; copies, since a ReLU after it may work in place."""
    outputs: dict[str, torch.Tensor] = {}

    def noting(name: str) -> Callable[..., None]:
        def note(module: nn.Module, arguments: Any, output: Any) -> None:
            if isinstance(output, torch.Tensor):
                outputs.pop(name, None)
                outputs[name] = output.detach().clone()

        return note

    hooks = [module.register_forward_hook(noting(name)) for name, module in model.named_modules()]
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            model(*given) if isinstance(given, tuple) else model(given)
    finally:
        model.train(training)
        for hook in hooks:
            hook.remove()
    return outputs


def _tt_outputs(model: Any, given: Any, wanted: list[str]) -> dict[str, torch.Tensor]:
    if isinstance(model, Mapping):
        return {name: as_torch(value).float() for name, value in model.items()}
    if hasattr(model, "named_outputs"):
        return {name: as_torch(value).float() for name, value in model.named_outputs(given).items()}
    if not callable(model):
        raise TypeError(f"tt_model is a {type(model).__name__}; it must be a dictionary of outputs or a callable model")
    outputs: dict[str, torch.Tensor] = {}
    with listening(model, wanted, outputs):
        model(*given) if isinstance(given, tuple) else model(given)
    return outputs


_WITHOUT_ACTIVATION = (nn.Conv2d, nn.ConvTranspose2d, nn.BatchNorm2d, nn.Linear)


def _fused_activations(
    torch_model: nn.Module, tt_model: Any, taken: Mapping[str, str], names: list[str]
) -> dict[str, Any]:
    """Of layers with an activation in them that are compared with a module of torch's that has none."""
    modules = dict(torch_model.named_modules())
    found = {}
    for name, layer in layers_of(tt_model, names).items():
        activation = getattr(getattr(layer, "configuration", None), "activation", None)
        if activation is not None and isinstance(modules.get(taken[name]), _WITHOUT_ACTIVATION):
            found[name] = activation
    return found


def _compare(
    name: str,
    torch_name: str,
    expected: Mapping[str, torch.Tensor],
    outputs: Mapping[str, torch.Tensor],
    pcc: float,
    activation: Any = None,
) -> LayerComparison:
    reference = apply(activation, expected[torch_name].float())
    actual = _in_shape(outputs[name], tuple(reference.shape))
    if actual is None:
        note = f"shape {tuple(outputs[name].shape)}, torch has {tuple(reference.shape)}"
        return LayerComparison(name, torch_name, 0.0, float("inf"), False, note)
    passed, value = comp_pcc(reference, actual, pcc)
    note = "" if bool(actual.isfinite().all()) or not bool(reference.isfinite().all()) else "has NaN or infinity"
    return LayerComparison(name, torch_name, value, max_error(reference, actual), passed and not note, note)


def _in_shape(value: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor | None:
    """A TT-NN output as torch would have it, or None where the shapes cannot be the same thing."""
    if tuple(value.shape) == shape:
        return value
    if len(shape) == 4:
        batch, channels, height, width = shape
        last = value.shape[-1]
        if last >= channels and value.numel() == batch * height * width * last:
            return value.reshape(batch, height, width, last)[..., :channels].permute(0, 3, 1, 2)
        if tuple(value.shape[-2:]) == (channels, height * width) and value.numel() == batch * channels * height * width:
            return value.reshape(shape)
        return None
    plain = [size for size in value.shape if size != 1] == [size for size in shape if size != 1]
    return value.reshape(shape) if plain else None


def _all(count: int) -> str:
    return "the only module reaches" if count == 1 else f"all {count} modules reach"
