# SPDX-License-Identifier: Apache-2.0
"""Seeded weights with the statistics of a trained model, and seeded images."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn
from torch.nn.functional import interpolate

CALIBRATION_IMAGES = 4
CALIBRATION_SIZE = 256
"""Statistics of batch norms hardly depend on the size of the images, and smaller ones are quicker. What little they
do adds up in very deep models: these say `calibration_size` for themselves."""

NORM_SHIFT = 0.0
"""Mean of the batch norms' shifts. Random layers make errors grow, by a fifth each where half of the values are cut
off; trained ones do not. Models of a hundred layers in a row say `norm_shift` for themselves: from 1 on, few are."""

PREDICTION_SCALE = 0.35
"""He's weights double the variance; this makes it a quarter of the input's, as trained detectors' logits have it."""

RESIDUAL_SCALE = 0.3
"""For the last norms of residual branches, where a model names them (`residual_norms`). With scales around 1 random
blocks multiply every error, bfloat16's too; weak branches, as where training starts them at 0, do not. The number is a
choice, not taken from a trained model."""


def initialize(
    model: nn.Module,
    resolution: tuple[int, int],
    seed: int,
    prepare: Callable[[torch.Tensor], torch.Tensor] = lambda images: images,
) -> None:
    """Weights after He, scales and shifts of batch norms spread as training spreads them, statistics as measured.

    `prepare` makes of images between 0 and 1 what the model takes.
    """
    generator = torch.Generator().manual_seed(seed)
    shift = getattr(model, "norm_shift", NORM_SHIFT)
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.ConvTranspose2d | nn.Linear):
            _draw_weights(module, generator)
        elif isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5, generator=generator)
            nn.init.normal_(module.bias, shift, 0.2, generator=generator)
    with torch.no_grad():
        for norm in getattr(model, "residual_norms", ()):
            norm.weight *= RESIDUAL_SCALE
    largest = getattr(model, "calibration_size", CALIBRATION_SIZE)
    height, width = (min(side, largest) for side in resolution)
    measure_statistics(model, [prepare(natural_images(CALIBRATION_IMAGES, (height, width), seed + 1))])


def natural_images(count: int, resolution: tuple[int, int], seed: int) -> torch.Tensor:
    """Noise at all scales, the coarse strongest, as in photographs: (count, 3, height, width) between 0 and 1."""
    generator = torch.Generator().manual_seed(seed)
    height, width = resolution
    total = torch.zeros(count, 3, height, width)
    cells = 4
    while cells <= max(height, width):
        noise = torch.randn(count, 3, min(cells, height), min(cells, width), generator=generator)
        total += interpolate(noise, size=(height, width), mode="bilinear", align_corners=False) / cells**0.5
        cells *= 2
    low, high = total.amin(dim=(1, 2, 3), keepdim=True), total.amax(dim=(1, 2, 3), keepdim=True)
    return (total - low) / (high - low)


def _draw_weights(module: nn.Conv2d | nn.ConvTranspose2d | nn.Linear, generator: torch.Generator) -> None:
    """A convolution or linear layer with a bias has no norm after it: it predicts."""
    nn.init.kaiming_normal_(module.weight, nonlinearity="relu", generator=generator)
    if module.bias is None:
        return
    nn.init.normal_(module.bias, 0.0, 0.05, generator=generator)
    if not isinstance(module, nn.ConvTranspose2d):
        with torch.no_grad():
            module.weight *= PREDICTION_SCALE


def measure_statistics(model: nn.Module, *runs: Sequence[torch.Tensor]) -> None:
    """Run inputs through; batch norms then hold the plain average of what they saw.

    Nothing but batch norms is in training mode: a model may do something else then, or want targets.
    """
    norms = [m for m in model.modules() if isinstance(m, (nn.BatchNorm1d, nn.BatchNorm2d))]
    if not norms:
        return
    momenta, was_training = [norm.momentum for norm in norms], model.training
    model.eval()
    try:
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None
            norm.train()
        with torch.no_grad():
            for inputs in runs:
                model(*inputs)
    finally:
        model.train(was_training)
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
