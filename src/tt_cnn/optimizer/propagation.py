# SPDX-License-Identifier: Apache-2.0
"""What noise at the output of each layer does to the outputs of the model: gradients of the reference, all at once.

A change d of a layer's output changes an output of the model by J d to first order, J being the Jacobian of the rest
of the network. The mean of (v . J d)^2 over random vectors v of independent signs is |J d|^2, and v J is what one
backward pass through the PyTorch model gives, at every layer of it together. So a few backward passes tell of each
layer how much a given noise there costs, without a run for each.

The layers of the card are found in the reference by their values: the tensor that torch computes with the same shape
and nearly the same numbers. Names do not have to agree, and activations and batch norms may be fused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from tt_cnn.optimizer.layer_noise import Noise

SAMPLES = 1024
"""Values of a tensor that are compared to find it again."""
ALIKE = 0.25
"""Share of a tensor's energy by which the card's may differ from it: more than low precision does, less than an
activation or a batch norm."""
PROBES = 3
"""Random vectors for each output."""


@dataclass
class Gain:
    """For each output of the model, squared gradients by channel of a layer's output."""

    of_mean: dict[str, torch.Tensor] = field(default_factory=dict)
    """Of a change that is the same in all pixels."""
    of_variance: dict[str, torch.Tensor] = field(default_factory=dict)
    """Of a change that is independent from pixel to pixel."""

    def of_all(self, outputs: Iterable[str]) -> Gain:
        """With zeros for those outputs that the layer does not reach."""
        none = torch.zeros(())
        return Gain(
            {output: self.of_mean.get(output, none) for output in outputs},
            {output: self.of_variance.get(output, none) for output in outputs},
        )

    def loss(self, noise: Noise) -> dict[str, float]:
        """The fall of each output's PCC: half the share of its energy that the noise makes up."""
        return {
            output: 0.5 * float((mean * noise.mean.square() + self.of_variance[output] * noise.variance).sum())
            for output, mean in self.of_mean.items()
        }


def gains(
    reference: nn.Module,
    images: torch.Tensor,
    named: Callable[[Sequence[torch.Tensor]], Mapping[str, torch.Tensor]],
    layers: Mapping[str, torch.Tensor],
    probes: int = PROBES,
    seed: int = 0,
) -> dict[str, Gain]:
    """Of those layers that are found in the reference.

    `layers` are the card's outputs (rows, channels); `named` makes the model's outputs of what the reference returns.
    """
    finder = _Finder(layers)
    given = images.detach().clone().requires_grad_()
    with torch.enable_grad(), finder:
        returned = reference(given)
    outputs = named((returned,) if isinstance(returned, torch.Tensor) else tuple(returned))
    generator = torch.Generator().manual_seed(seed)
    for name, output in outputs.items():
        if not output.requires_grad:
            continue
        for _ in range(probes):
            finder.begin(name, 1.0 / (probes * _energy(output)))
            probe = _probe(output.detach(), generator)
            torch.autograd.grad(output, given, probe, retain_graph=True, allow_unused=True)
    return {name: gain.of_all(outputs) for name, gain in finder.found().items()}


def _energy(output: torch.Tensor) -> float:
    """Of what a PCC looks at; a constant has none, and nothing can be lost of it."""
    value = float((output.detach() - output.detach().mean()).square().sum())
    return value if value > 0 else float("inf")


def _probe(output: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Random signs, without what PCC does not see: a shift and a scaling of the output."""
    signs = torch.randint(0, 2, output.shape, generator=generator).to(output.dtype) * 2 - 1
    signs -= signs.mean()
    centered = output - output.mean()
    energy = centered.square().sum()
    return signs - centered * ((signs * centered).sum() / energy) if float(energy) > 0 else signs


@dataclass
class _Match:
    error: float
    gain: Gain = field(default_factory=Gain)


class _Finder(TorchFunctionMode):
    """Looks at every tensor that torch makes; listens to the gradients of those that a layer of the card has too."""

    def __init__(self, layers: Mapping[str, torch.Tensor]) -> None:
        super().__init__()
        self.by_shape: dict[tuple[int, int], list[str]] = {}
        self.samples: dict[str, torch.Tensor] = {}
        for name, rows in layers.items():
            shape = (rows.shape[0], rows.shape[1])
            self.by_shape.setdefault(shape, []).append(name)
            self.samples[name] = rows.flatten()[_places(shape)]
        self.matches: dict[str, _Match] = {}
        self.output, self.weight = "", 0.0

    def begin(self, output: str, weight: float) -> None:
        """What comes now are gradients of this output; their squares count so much."""
        self.output, self.weight = output, weight

    def found(self) -> dict[str, Gain]:
        return {name: match.gain for name, match in self.matches.items()}

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        with torch._C.DisableTorchFunction():
            for tensor in result if isinstance(result, (tuple, list)) else (result,):
                if isinstance(tensor, torch.Tensor) and tensor.requires_grad and tensor.dim() in (2, 4):
                    self._look_at(tensor)
        return result

    def _look_at(self, tensor: torch.Tensor) -> None:
        shape = (tensor.numel() // max(1, tensor.shape[1]), tensor.shape[1])
        names = self.by_shape.get(shape)
        if not names:
            return
        values = _sampled(tensor.detach(), _places(shape))
        energy = float(values.square().sum())
        for name in names:
            error = float((self.samples[name] - values).square().sum()) / energy if energy > 0 else float("inf")
            known = self.matches.get(name)
            # A copy of the same values later on may be one branch of several: the first has them all.
            if error < ALIKE and (known is None or error < 0.9 * known.error):
                match = self.matches[name] = _Match(error)
                tensor.register_hook(lambda gradient, match=match: self._note(match.gain, gradient))

    def _note(self, gain: Gain, gradient: torch.Tensor) -> None:
        planes = gradient.detach().reshape(gradient.shape[0], gradient.shape[1], -1)
        for kept, squares in (
            (gain.of_mean, planes.sum(2).square().sum(0)),
            (gain.of_variance, planes.square().sum((0, 2))),
        ):
            kept[self.output] = kept.get(self.output, torch.zeros(())) + self.weight * squares


def _places(shape: tuple[int, int]) -> torch.Tensor:
    """The same for each tensor of a shape, as indexes into its flattened (rows, channels)."""
    generator = torch.Generator().manual_seed(shape[0] * 31 + shape[1])
    return torch.randint(0, shape[0] * shape[1], (SAMPLES,), generator=generator)


def _sampled(tensor: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Those values of (N, C, H, W) or (N, C) that stand at these places of (N*H*W, C)."""
    channels = tensor.shape[1]
    rows, channel = places // channels, places % channels
    if tensor.dim() == 2:
        return tensor[rows, channel]
    height, width = tensor.shape[2:]
    return tensor[rows // (height * width), channel, rows // width % height, rows % width]
