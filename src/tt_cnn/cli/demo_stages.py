# SPDX-License-Identifier: Apache-2.0
"""UNet and YOLOv4 brought up stage by stage: weights, layers, L1, comparison, pipeline, images."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tt_cnn.cli.console import errors, output, say
from tt_cnn.cli.demo_pictures import CPU, annotated
from tt_cnn.evaluation.chosen_data import data_set, generated_names
from tt_cnn.evaluation.class_names import names_of
from tt_cnn.evaluation.pictures import write_picture
from tt_cnn.evaluation.preparation import prepare
from tt_cnn.evaluation.side_by_side import classes_of
from tt_cnn.evaluation.weights import reference_with
from tt_cnn.models import ModelEntry, TtModel, create_pipeline, create_tt, model_entry
from tt_cnn.models.running import RunningModel, card_name, opened_card, reference_outputs
from tt_cnn.testing import comp_pcc

MODELS = ("vanilla_unet", "yolov4")
FULLEST = 6
"""Steps whose L1 is shown."""


def show_stages(*, card: str | None, executor: str, folder: Path, pictures: int) -> None:
    """All stages of each model; any that fails ends it with what went wrong."""
    start = time.perf_counter()
    for name in MODELS:
        _show_model(model_entry(name), card, executor, folder, pictures)
    say(f"\nall done in {time.perf_counter() - start:.0f} s; look at {folder}")


def _show_model(entry: ModelEntry, card: str | None, executor: str, folder: Path, count: int) -> None:
    say(f"\n{entry.title}", "bold")
    with _stage("weights") as done:
        reference, whose = reference_with(entry, None)
        done(f"{whose}, {sum(each.numel() for each in reference.parameters()) / 1e6:.1f} M parameters")
    names = names_of(reference, classes_of(entry, reference, entry.resolution), generated_names(entry))
    data, _ = data_set(entry, None, names, count=count, resolution=entry.resolution)
    pictures = [data[index][0] for index in range(count)]
    prepared = [prepare(entry, picture) for picture in pictures]
    images = [image for image, _ in prepared]
    with _stage("reference") as done:
        expected = [reference_outputs(reference, image) for image in images]
        done(f"PyTorch on {entry.resolution[0]}x{entry.resolution[1]}, {count} time{'s' * (count > 1)}")
    with opened_card(entry, card=card, executor=executor) as device:
        with _stage("layers") as done:
            model = create_tt(entry.name, device, reference)
            done(f"batch norms folded, weights converted, {_convolutions(reference)} convolutions configured")
        with _stage("first run") as done:
            outputs, commands = _first_run(model, images[0], device)
            done(f"{sum(len(command.steps) for command in commands)} steps on a {card_name(device)}")
        _show_l1(commands, device)
        for line in _compared(entry, model, expected[0], outputs):
            say(f"  comparison {line}")
        with _stage("pipeline") as done, create_pipeline(model, executor) as pipeline:
            pipeline.compile(model.to_host_input(_batch(model, images[0])))
            running = RunningModel(model, pipeline)
            found = running.run(images)
            done(f"{executor}: {running.pictures_per_second:.1f} fps {CPU}")
        with _stage("images") as done:
            for index, picture in enumerate(pictures):
                answers = (expected[index], found[index])
                sheet, line = annotated(entry, picture, prepared[index][1], answers, names, device)
                write_picture(folder / f"{entry.name}_{index}.png", sheet)
                done(f"{entry.name}_{index}.png: {line}")


@contextmanager
def _stage(name: str) -> Iterator[Any]:
    """A spinner while it runs, then what came of it and how long it took."""
    start = time.perf_counter()
    lines: list[str] = []
    with errors.status(name):
        yield lines.append
    seconds = time.perf_counter() - start
    for index, line in enumerate(lines):
        head, tail = (f"{name:<11}", f"  {seconds:.1f} s") if index == 0 else (" " * 11, "")
        say(f"  {head}{line}{tail}")


def _convolutions(reference: nn.Module) -> int:
    return sum(isinstance(module, nn.Conv2d | nn.ConvTranspose2d) for module in reference.modules())


def _batch(model: TtModel, image: torch.Tensor) -> torch.Tensor:
    return image.repeat(model.batch_size * model.chips, 1, 1, 1)


def _first_run(model: TtModel, image: torch.Tensor, device: Any) -> tuple[list[torch.Tensor], list[Any]]:
    """The outputs of the image, and every command that made them (none on a real card, which tells nothing)."""
    x = model.place(_batch(model, image))
    with device.record_commands() if hasattr(device, "record_commands") else nullcontext([]) as commands:
        outputs = model(x)
    return [each[:1] for each in model.to_torch(outputs)], list(commands)


def _show_l1(commands: list[Any], device: Any) -> None:
    from tt_cnn.reports.l1_picture import draw, l1_use

    if not commands:
        return
    rows = l1_use(commands, device.card)
    fullest = sorted(sorted(range(len(rows)), key=lambda index: rows[index].free)[:FULLEST])
    say(f"  L1         the {FULLEST} fullest of {len(rows)} steps, # buffers, = tensors")
    for line in draw([rows[index] for index in fullest], device.card, width=32):
        output.print(f"    {line}", markup=False, highlight=False, soft_wrap=True)


def _compared(
    entry: ModelEntry, model: TtModel, expected: tuple[torch.Tensor, ...], outputs: list[torch.Tensor]
) -> list[str]:
    """A line for each output; one under its gate ends the demo."""
    lines = []
    for name, true, found in zip(model.outputs, expected, outputs, strict=True):
        pcc, gate = comp_pcc(true, found)[1], entry.gates.get(name, 0.0)
        if pcc < gate:
            raise RuntimeError(f"{entry.title}: the PCC of {name} is {pcc:.5f}; it must be at least {gate}")
        lines.append(f"PCC of {name} with PyTorch {pcc:.5f} (at least {gate})")
    return lines
