# SPDX-License-Identifier: Apache-2.0
"""What both trainings share: drawn images, the schedule, averaged weights, the file that is kept."""

from __future__ import annotations

import argparse
import copy
import math
import multiprocessing
import platform
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from tt_cnn.evaluation.drawn_data import DrawnPictures

WARM_UP = 0.05
"""The part of the steps in which the learning rate rises."""
GRADIENT_NORM = 5.0
STATISTICS_PICTURES = 1024
"""How many images the final statistics of batch norms are measured on."""


@dataclass(frozen=True)
class Settings:
    """What a training needs to know beside its model and data."""

    steps: int
    batch: int
    rate: float
    seed: int
    device: torch.device
    every: int
    """Steps between two measurements."""


def parser(
    description: str, *, steps: int, batch: int, rate: float, pictures: int, output: Path
) -> argparse.ArgumentParser:
    """The arguments that both trainings take."""
    options = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    options.add_argument("--steps", type=int, default=steps, help="how many batches")
    options.add_argument("--batch", type=int, default=batch, help="images in a batch")
    options.add_argument("--rate", type=float, default=rate, help="the highest learning rate")
    options.add_argument("--pictures", type=int, default=pictures, help="how many training images are drawn")
    options.add_argument("--val-pictures", type=int, default=500, help="how many images the figure is measured on")
    options.add_argument("--every", type=int, default=1600, help="steps between two measurements")
    options.add_argument("--seed", type=int, default=0, help="of the images, the first weights and the batches")
    options.add_argument("--workers", type=int, default=multiprocessing.cpu_count(), help="processes that draw")
    options.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options.add_argument("--output", type=Path, default=output, help="where the weights go (safetensors)")
    return options


def settings_of(arguments: argparse.Namespace) -> Settings:
    return Settings(
        steps=arguments.steps,
        batch=arguments.batch,
        rate=arguments.rate,
        seed=arguments.seed,
        device=torch.device(arguments.device),
        every=arguments.every,
    )


def draw_all(dataset: DrawnPictures[Any], workers: int) -> tuple[torch.Tensor, list[Any]]:
    """All images, (count, 3, height, width) uint8, and their targets, drawn by several processes."""
    pictures = np.empty((len(dataset), *dataset.size, 3), np.uint8)
    targets: list[Any] = [None] * len(dataset)
    start = time.perf_counter()
    for index, (picture, target) in enumerate(_drawn(dataset, workers)):
        pictures[index] = picture
        targets[index] = target
    log(f"{len(dataset)} {dataset.split} images drawn in {time.perf_counter() - start:.1f} s")
    return torch.from_numpy(pictures).permute(0, 3, 1, 2), targets


def _drawn(dataset: DrawnPictures[Any], workers: int) -> Iterator[Any]:
    if workers <= 1:
        yield from dataset
        return
    with multiprocessing.get_context("spawn" if sys.platform == "win32" else "fork").Pool(workers) as pool:
        yield from pool.imap(dataset.__getitem__, range(len(dataset)), chunksize=16)


def train(
    model: nn.Module,
    loss_of: Callable[[nn.Module, torch.Generator], torch.Tensor],
    keep: Callable[[nn.Module], None],
    settings: Settings,
) -> tuple[nn.Module, list[float]]:
    """Steps of AdamW down a cosine; returns the model of averaged weights and the loss of every step.

    `loss_of` draws a batch with the generator and gives its loss; `keep` measures and saves the averaged model.
    """
    model.to(settings.device, memory_format=torch.channels_last).train()  # type: ignore[call-overload]
    torch.backends.cudnn.benchmark = True
    generator = torch.Generator(settings.device).manual_seed(settings.seed)
    optimizer = torch.optim.AdamW(_groups(model), lr=settings.rate, fused=settings.device.type == "cuda")
    average = copy.deepcopy(model).eval().requires_grad_(False)
    losses: list[torch.Tensor] = []
    start = time.perf_counter()
    for step in range(settings.steps):
        for group in optimizer.param_groups:
            group["lr"] = settings.rate * schedule(step, settings.steps)
        with torch.autocast(settings.device.type, torch.bfloat16, enabled=settings.device.type == "cuda"):
            loss = loss_of(model, generator)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), GRADIENT_NORM)
        optimizer.step()
        update_average(average, model, min(0.998, (1 + step) / (10 + step)))
        losses.append(loss.detach())
        done = step + 1
        if done % 50 == 0 or done == settings.steps:
            recent = float(torch.stack(losses[-50:]).mean())
            speed = done * settings.batch / (time.perf_counter() - start)
            log(f"step {done}/{settings.steps}  loss {recent:.4f}  {speed:.0f} images/s")
        if done % settings.every == 0 or done == settings.steps:
            keep(average)
    return average, [float(loss) for loss in losses]


def schedule(step: int, steps: int) -> float:
    """A straight rise, then a cosine down to nearly nothing."""
    rise = max(1, int(WARM_UP * steps))
    if step < rise:
        return (step + 1) / rise
    return 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * (step - rise) / max(1, steps - rise)))


@torch.no_grad()
def update_average(average: nn.Module, model: nn.Module, decay: float) -> None:
    """Weights and statistics move towards the model's; counters are taken over."""
    old, new = average.state_dict(), model.state_dict()
    moving = [name for name, value in old.items() if value.is_floating_point()]
    torch._foreach_lerp_([old[name] for name in moving], [new[name] for name in moving], 1 - decay)
    for name in old.keys() - set(moving):
        old[name].copy_(new[name])


@torch.no_grad()
def as_shipped(model: nn.Module, batches: Iterator[torch.Tensor]) -> nn.Module:
    """A copy with convolutions rounded to bfloat16, and batch norms that saw images through just these."""
    rounded = copy.deepcopy(model)
    norms = [module for module in rounded.modules() if isinstance(module, nn.BatchNorm2d)]
    for module in rounded.modules():
        if isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
            for parameter in module.parameters():
                parameter.copy_(parameter.bfloat16())
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None
    rounded.train()
    for batch in batches:
        rounded(batch)
    return rounded.eval()


def save(model: nn.Module, path: Path, description: str, figure: str) -> None:
    """Convolutions in bfloat16, batch norms in float32, with a note of how the file was made."""
    from safetensors.torch import save_file

    norms = {name for name, module in model.named_modules() if isinstance(module, nn.BatchNorm2d)}
    tensors = {
        name: (value if name.rpartition(".")[0] in norms else value.bfloat16()).cpu().contiguous()
        for name, value in model.state_dict().items()
    }
    note = {
        "description": description,
        "figure": figure,
        "date": datetime.now(timezone.utc).date().isoformat(),
        "versions": f"Python {platform.python_version()}, torch {torch.__version__}, numpy {np.__version__}",
        "command": command(),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, path, note)
    log(f"{path}: {path.stat().st_size / 1e6:.1f} MB, {figure}")


def command() -> str:
    """How this training was started."""
    return shlex.join(["python", "-m", f"training.{Path(sys.argv[0]).stem}", *sys.argv[1:]])


def pictures_of(batch: torch.Tensor) -> torch.Tensor:
    """uint8 images as models take them."""
    return batch.float().div_(255).contiguous(memory_format=torch.channels_last)


def recolored(pictures: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Each image with its channels in another order, brighter or darker, with more or less contrast."""
    count, device = len(pictures), pictures.device
    order = torch.rand(count, 3, device=device, generator=generator).argsort(dim=1)
    keep = torch.rand(count, 1, device=device, generator=generator) < 0.5
    order = torch.where(keep, torch.arange(3, device=device), order)
    mixed = pictures.gather(1, order[:, :, None, None].expand_as(pictures))
    contrast, brightness = torch.rand(2, count, 1, 1, 1, device=device, generator=generator)
    return (((mixed - 0.5) * (0.75 + 0.5 * contrast)) + 0.4 + 0.2 * brightness).clamp_(0, 1)


def chosen(chance: torch.Tensor, yes: torch.Tensor, no: torch.Tensor) -> torch.Tensor:
    """For each sample of a batch one of two."""
    return torch.where(chance.view(-1, *[1] * (no.dim() - 1)), yes, no)


def log(line: str) -> None:
    print(f"{datetime.now(timezone.utc):%H:%M:%S} {line}", flush=True)


def _groups(model: nn.Module) -> list[dict[str, Any]]:
    """Weight decay for convolutions alone."""
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    return [{"params": decayed, "weight_decay": 0.02}, {"params": others, "weight_decay": 0.0}]
