# SPDX-License-Identifier: Apache-2.0
"""Train the UNet of 16 features that the package ships: `python -m training.segmentation --help`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

from training.common import (
    STATISTICS_PICTURES,
    as_shipped,
    chosen,
    draw_all,
    parser,
    pictures_of,
    recolored,
    save,
    settings_of,
    train,
)
from tt_cnn.evaluation.drawn_data import SegmentationShapes
from tt_cnn.models.vanilla_unet.reference.model import UNet

OUTPUT = Path("src/tt_cnn/models/vanilla_unet/weights/unet16.safetensors")


def loss_of(logits: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
    """Cross entropy, and Dice over the batch."""
    logits = logits.float()
    chance = torch.sigmoid(logits)
    dice = 1 - (2 * (chance * masks).sum() + 1) / (chance.sum() + masks.sum() + 1)
    return binary_cross_entropy_with_logits(logits, masks) + dice


class Batches:
    """Random batches of drawn images, flipped and recoloured where they are to be."""

    def __init__(self, dataset: SegmentationShapes, workers: int, device: torch.device) -> None:
        pictures, masks = draw_all(dataset, workers)
        self.pictures = pictures.to(device)
        self.masks = torch.from_numpy(np.stack(masks))[:, None].to(device)

    def draw(self, count: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        device = self.pictures.device
        index = torch.randint(len(self.pictures), (count,), device=device, generator=generator)
        pictures, masks = self.pictures[index], self.masks[index]
        for axis, chance in zip((-1, -2), torch.rand(2, count, device=device, generator=generator) < 0.5, strict=True):
            pictures, masks = (chosen(chance, each.flip(axis), each) for each in (pictures, masks))
        return recolored(pictures_of(pictures), generator), masks.float()

    def in_order(self, size: int, limit: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for start in range(0, min(limit, len(self.pictures)), size):
            stop = min(start + size, limit)
            yield pictures_of(self.pictures[start:stop]), self.masks[start:stop]


@torch.no_grad()
def intersection_over_union(model: nn.Module, batches: Batches, size: int) -> float:
    """Over all pixels of all images, a mask being where the model says at least 1/2."""
    both = either = 0
    for pictures, masks in batches.in_order(size, len(batches.pictures)):
        found, wanted = model(pictures) >= 0.5, masks > 0
        both += int((found & wanted).sum())
        either += int((found | wanted).sum())
    return both / max(1, either)


def main(argv: Sequence[str] | None = None) -> list[float]:
    options = parser(__doc__, steps=3200, batch=32, rate=2e-3, pictures=4000, output=OUTPUT)
    options.add_argument("--features", type=int, default=16, help="channels of the first encoder")
    options.add_argument("--size", type=int, nargs=2, default=SegmentationShapes.default_size, help="height, width")
    arguments = options.parse_args(argv)
    settings = settings_of(arguments)
    torch.manual_seed(settings.seed)
    size = (arguments.size[0], arguments.size[1])
    made = (
        SegmentationShapes("train", size, arguments.pictures, settings.seed),
        SegmentationShapes("val", size, arguments.val_pictures, settings.seed),
    )
    training, held_out = (Batches(each, arguments.workers, settings.device) for each in made)

    def batch_loss(model: nn.Module, generator: torch.Generator) -> torch.Tensor:
        pictures, masks = training.draw(settings.batch, generator)
        return loss_of(model.logits(pictures), masks)  # type: ignore[operator]

    def keep(model: nn.Module) -> None:
        seen = (pictures for pictures, _ in training.in_order(settings.batch, STATISTICS_PICTURES))
        shipped = as_shipped(model, seen)
        figure = intersection_over_union(shipped, held_out, settings.batch)
        description = f"UNet, {arguments.features} features, on {type(made[0]).__name__} {size[0]}x{size[1]}"
        save(shipped, arguments.output, description, f"val IoU {figure:.4f} on {len(made[1])} images")

    _, losses = train(UNet(features=arguments.features), batch_loss, keep, settings)
    return losses


if __name__ == "__main__":
    main()
