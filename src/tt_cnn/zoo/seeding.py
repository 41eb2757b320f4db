# SPDX-License-Identifier: Apache-2.0
"""Seeded weights for any architecture: drawn, then brought to the sizes of a trained model's with images.

The shipped models have `tt_cnn.models.initialization`, which relies on batch norms. Here also nets without any norm,
with layer norms and with attention are to be alive: every convolution and linear layer is scaled so that what it gives
on images has a standard deviation of 1, which is what a batch norm after it would see to (Mishkin and Matas 2015).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import nn

from tt_cnn.models.initialization import RESIDUAL_SCALE

LEAST_POSITIONS = 8
"""In an image. Means over a whole image hardly differ between images of a random net, and to give the differences
a deviation of 1 would make errors as large: with fewer positions, all that is given is scaled to a square of 1 in the
mean, and of what images have in common at most half is taken off."""

NORM_SHIFT = 0.5
"""Mean of the shifts of batch norms, and of the biases of convolutions. With 0, activations cut off half of the values,
and random layers then make errors grow: images unlike those of the statistics end in logits of a thousand in
EfficientNet-B4, bfloat16 in a PCC of 0.72. With 0.5 it is 0.998. The more, the less do outputs tell images apart."""

Weighted = (nn.Conv1d, nn.Conv2d, nn.ConvTranspose2d, nn.Linear)


def seed_weights(
    model: nn.Module, pictures: torch.Tensor, seed: int, residuals: Sequence[str] = (), norm_shift: float = NORM_SHIFT
) -> None:
    """Draw all weights, scale them, and measure the statistics of batch norms.

    `residuals` are patterns of names, `last` being the last module of a Sequential: what ends a residual branch is made
    weak, or random blocks would multiply every error. Bare parameters (embeddings, tables) stay as they were made.
    """
    generator = torch.Generator().manual_seed(seed)
    weak = _matching(model, residuals)
    with torch.no_grad():
        for name, module in model.named_modules():
            _draw(module, generator, norm_shift)
            if name in weak and not isinstance(module, Weighted):
                module.weight *= RESIDUAL_SCALE
        for name, parameter in model.named_parameters():
            if name in weak:
                nn.init.uniform_(parameter, 0.5 * RESIDUAL_SCALE, 1.5 * RESIDUAL_SCALE, generator=generator)
        _calibrate(model, pictures, weak, norm_shift)


def _matching(model: nn.Module, patterns: Sequence[str]) -> set[str]:
    """Names of the parameters, and of the modules with weights, that one of the patterns fits; each must fit some."""
    names = [name for name, module in model.named_modules() if getattr(module, "weight", None) is not None]
    names += [name for name, _ in model.named_parameters()]
    found = {p: {n for n in names if fnmatchcase(n, p) or fnmatchcase(_with_last(model, n), p)} for p in patterns}
    for pattern, fitting in found.items():
        if not fitting:
            raise ValueError(f"residuals has {pattern!r}; no parameter and no module with weights has such a name")
    return set().union(*found.values())


def _with_last(model: nn.Module, name: str) -> str:
    """The name with `last` for the number of the last module of a Sequential."""
    parts, parent = [], model
    for part in name.split("."):
        is_last = isinstance(parent, nn.Sequential) and part == next(reversed(parent._modules))
        parts.append("last" if is_last else part)
        parent = getattr(parent, part, parent)
    return ".".join(parts)


def _draw(module: nn.Module, generator: torch.Generator, norm_shift: float) -> None:
    if isinstance(module, Weighted):
        nn.init.kaiming_normal_(module.weight, nonlinearity="relu", generator=generator)
        if module.bias is not None:
            nn.init.normal_(module.bias, 0.0, 0.05, generator=generator)
    elif isinstance(module, nn.BatchNorm2d):
        nn.init.uniform_(module.weight, 0.5, 1.5, generator=generator)
        nn.init.normal_(module.bias, norm_shift, 0.2, generator=generator)
    elif isinstance(module, nn.LayerNorm | nn.GroupNorm):
        nn.init.uniform_(module.weight, 0.8, 1.2, generator=generator)
        if module.bias is not None:
            nn.init.normal_(module.bias, 0.0, 0.1, generator=generator)
    elif isinstance(module, nn.PReLU):
        nn.init.uniform_(module.weight, 0.1, 0.4, generator=generator)
    elif isinstance(module, nn.MultiheadAttention):
        nn.init.xavier_normal_(module.in_proj_weight, generator=generator)
        nn.init.normal_(module.in_proj_bias, 0.0, 0.05, generator=generator)


def _calibrate(model: nn.Module, pictures: torch.Tensor, weak: set[str], shift: float) -> None:
    """One run: batch norms take the statistics of what they see, all else is as at inference."""
    model.eval()
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None
        norm.train()
    hooks = [
        module.register_forward_hook(_scaling(RESIDUAL_SCALE, 0.0) if name in weak else _scaling(1.0, shift))
        for name, module in model.named_modules()
        if isinstance(module, Weighted)
    ]
    hooks += [norm.register_forward_pre_hook(_measure_vectors) for norm in norms]
    model(pictures)
    for hook in hooks:
        hook.remove()
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.eval()
        norm.momentum = momentum


def _measure_vectors(norm: Any, inputs: Any) -> None:
    """A hook for batch norms behind means over whole images, which get their statistics by the same rule."""
    x = inputs[0]
    if x.shape[2] * x.shape[3] < LEAST_POSITIONS:
        norm.eval()
        norm.running_mean.copy_(x.mean(dim=(0, 2, 3)) / 2)
        norm.running_var.fill_(x.square().mean())


def _scaling(deviation: float, shift: float) -> Callable[[Any, Any, torch.Tensor], torch.Tensor | None]:
    """A hook that scales the layer's weights the first time that it is called, and gives what it then computes."""
    done = False

    def scale(layer: Any, inputs: Any, output: torch.Tensor) -> torch.Tensor | None:
        nonlocal done
        if done:
            return None
        done = True
        across = (-1,) if isinstance(layer, nn.Linear) else (1, -1, *(1,) * (output.dim() - 2))
        channel = output.dim() - 1 if isinstance(layer, nn.Linear) else 1
        others = [axis for axis in range(output.dim()) if axis != channel]
        values = output if layer.bias is None else output - layer.bias.view(across)
        few = values.numel() // values.shape[channel] < LEAST_POSITIONS * inputs[0].shape[0]
        if few or layer.bias is None:
            factor = deviation / values.square().mean().sqrt().clamp_min(1e-6)
            centred = 0.5 if isinstance(layer, nn.Linear) else 0.0  # not gates, by which channels are multiplied
        else:
            factor, centred = deviation / values.var(dim=others).mean().sqrt().clamp_min(1e-6), 1.0
        layer.weight *= factor
        if layer.bias is not None:
            layer.bias -= centred * factor * values.mean(dim=others)
            if isinstance(layer, nn.Conv2d):
                layer.bias += centred * shift
        return values * factor if layer.bias is None else values * factor + layer.bias.view(across)

    return scale
