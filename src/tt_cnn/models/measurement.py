# SPDX-License-Identifier: Apache-2.0
"""One run of a model on the virtual card, and what is worth knowing of it: PCC, L1, steps, time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from tt_cnn import ttnn
from tt_cnn.models.registry import Resolution, create_reference, create_tt, model_entry
from tt_cnn.models.running import reference_outputs
from tt_cnn.models.tt_model import Precision
from tt_cnn.reports.l1_picture import l1_use
from tt_cnn.testing.pcc import agreement
from tt_cnn.virtual.cost.kernel import kernel_cost
from tt_cnn.virtual.devices.command_times import CommandTimes

BFLOAT16_GATE = 0.99
"""What every output reaches with bfloat16 activations all through."""


@dataclass(frozen=True)
class Measurement:
    """A forward pass against the reference's. `commands` are the card's, without data, for further questions."""

    model: str
    card: str
    precision: Precision
    resolution: Resolution
    batch_size: int
    seed: int | None
    """None for the shipped weights."""
    pcc: Mapping[str, float]
    gates: Mapping[str, float]
    l1_peak: int
    """Bytes of L1 that a core has in use, circular buffers and tensors, at the fullest step."""
    l1_size: int
    """Bytes of L1 that a core has for them."""
    steps: int
    """Device operations dispatched."""
    device_seconds: float
    """The sum of the kernel durations that the cost model predicts."""
    seconds: float
    """The engine's time on this machine; no statement about a card's."""
    outputs: tuple[torch.Tensor, ...] = field(repr=False)
    commands: list[Any] = field(repr=False)

    @property
    def passed(self) -> bool:
        return all(self.pcc[name] >= gate for name, gate in self.gates.items())


def measure(
    name: str,
    *,
    card: str = "n150",
    precision: Precision = "tuned",
    resolution: Resolution | None = None,
    batch_size: int = 1,
    seed: int = 0,
    shipped: bool = False,
    reference: nn.Module | None = None,
) -> Measurement:
    """Run a model once, with seeded weights (or the shipped ones, or those of `reference`) on seeded images."""
    entry = model_entry(name)
    size = resolution or entry.resolution
    if reference is None:
        reference = create_reference(name, shipped=True) if shipped else create_reference(name, seed=seed)
    device = ttnn.open_device(device_id=0, card=card, l1_small_size=entry.l1_small_size)
    try:
        model = create_tt(name, device, reference, resolution=size, batch_size=batch_size, precision=precision)
        images = entry.example_input(batch_size=batch_size, resolution=size, seed=seed)
        placed = model.place(images)
        with _recorded(device) as commands, _timed(device) as times:
            outputs = model(placed)
        values = model.to_torch(outputs)
        steps = [one.step for command in commands for one in command.steps]
        peak, total = l1_peak(commands, device.card)
    finally:
        ttnn.close_device(device)
    expected = reference_outputs(reference, images)
    pairs = zip(model.outputs, expected, values, strict=True)
    return Measurement(
        model=entry.name,
        card=card,
        precision=precision,
        resolution=size,
        batch_size=batch_size,
        seed=None if shipped else seed,
        pcc={output: agreement(golden, value) for output, golden, value in pairs},
        gates=entry.gates if precision == "tuned" else dict.fromkeys(entry.gates, BFLOAT16_GATE),
        l1_peak=peak,
        l1_size=total,
        steps=len(steps),
        device_seconds=sum(kernel_cost(step, device.card).ns for step in steps) / 1e9,
        seconds=times.compute,
        outputs=values,
        commands=commands,
    )


@contextmanager
def _recorded(device: Any) -> Iterator[list[Any]]:
    """The commands enqueued inside, without what would keep their tensors alive."""
    commands: list[Any] = []

    def note(command: Any) -> None:
        commands.append(replace(command, run=_nothing, accesses=(), reads=(), writes=(), attributes={}))

    device.listeners.append(note)
    try:
        yield commands
    finally:
        device.listeners.remove(note)


@contextmanager
def _timed(device: Any) -> Iterator[CommandTimes]:
    """The engine's times, complete when the block is left."""
    times = CommandTimes(device)
    times.start()
    try:
        yield times
        ttnn.synchronize_device(device)
    finally:
        times.stop()


def _nothing() -> None:
    """What a command without data does."""


def l1_peak(commands: Iterable[Any], card: Any) -> tuple[int, int]:
    """Bytes of a core's L1 in use at the fullest step, and all there are."""
    total = card.l1_size - card.l1_base
    return total - min((use.free for use in l1_use(commands, card)), default=total), total


HEADINGS = (
    "model",
    "card",
    "precision",
    "input",
    "seed",
    "PCC",
    "gate",
    "L1 peak per core",
    "steps",
    "device",
    "engine",
)


def measurement_table(measurements: Iterable[Measurement]) -> list[str]:
    """Lines of text, one for each measurement; all outputs of a model in one line.

    `device` is what the cost model predicts, `engine` what computing it took here.
    """
    rows = [HEADINGS, *(_row(m) for m in measurements)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEADINGS))]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _row(m: Measurement) -> tuple[str, ...]:
    several = len(m.pcc) > 1
    return (
        m.model,
        m.card,
        m.precision,
        f"{m.batch_size}x{m.resolution[0]}x{m.resolution[1]}",
        "shipped" if m.seed is None else str(m.seed),
        " ".join(f"{name} {value:.4f}" if several else f"{value:.4f}" for name, value in m.pcc.items()),
        " ".join(f"{gate:g}" for gate in m.gates.values()) + ("" if m.passed else "  not reached"),
        f"{m.l1_peak / 1024:.0f} of {m.l1_size / 1024:.0f} KB",
        str(m.steps),
        f"{m.device_seconds * 1e3:.2f} ms",
        f"{m.seconds:.1f} s",
    )
