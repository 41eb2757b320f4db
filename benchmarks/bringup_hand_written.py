# SPDX-License-Identifier: Apache-2.0
"""What bringup makes of the references of our own models, beside the configurations that were written by hand."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from bringup_rows import Row, brought_up, total_seconds
from torch import nn

from tt_cnn.bringup.bring_up import BringUp
from tt_cnn.bringup.inputs import Normalisation
from tt_cnn.bringup.source import model_source
from tt_cnn.builder.overrides import Assignment
from tt_cnn.models.registry import ModelEntry, create_tt, model_entry
from tt_cnn.models.running import opened_card, reference_outputs
from tt_cnn.optimizer.prediction import PlannedNetwork, planned_network
from tt_cnn.testing.pcc import comp_pcc

REFERENCES = Path(__file__).resolve().parent / "bringup_references.py"
UNSEEN = 11
"""Seed of the images on which both are compared; neither was fitted on them."""
MOST_OPS = 8


@dataclass(frozen=True)
class Case:
    model: str
    title: str
    input_shape: tuple[int, int, int, int]

    @property
    def options(self) -> dict[str, Any]:
        return {"resolution": self.input_shape[2:], "batch_size": self.input_shape[0]}


CASES = (
    Case("vanilla_unet", "UNet 480x640", (1, 3, 480, 640)),
    Case("yolov4", "YOLOv4 320x320", (1, 3, 320, 320)),
    Case("resnet50", "ResNet50, batch 16", (16, 3, 224, 224)),
    Case("mobilenetv2", "MobileNetV2", (1, 3, 224, 224)),
    Case("yolov8s", "YOLOv8s", (1, 3, 640, 640)),
)


def run_case(case: Case, card: str, budget: float, folders: Path) -> Row:
    """Both on the same weights and the same images."""
    entry = model_entry(case.model)
    work = BringUp(
        model_source(f"{REFERENCES}:{case.model}"),
        case.input_shape,
        card,
        f"{case.model}_generated",
        normalisation=Normalisation(entry.mean, entry.std),
        min_pcc=max(entry.gates.values()),
    )
    row = {"name": case.model, "title": case.title} | brought_up(
        work, work.source.create().state_dict(), budget, folders
    )
    pictures = entry.example_input(**case.options, seed=UNSEEN)
    with planned_network(case.model, card, **case.options) as network:
        row |= {f"hand_{key}": value for key, value in _planned(network).items()}
    if "failed" in row:
        return row
    assert work.model is not None
    row["hand_pcc"] = outputs_pcc(entry, work.model, pictures, card, case.options)
    row["hand_gates"] = dict(entry.gates)
    with work.entry() as made:
        row["generated_pcc"] = outputs_pcc(made, work.model, pictures, card, case.options)
        with planned_network(made.name, card, **case.options, reference=work.model) as network:
            executor = "plain" if row["fallbacks"] else "trace+2cq"  # a trace cannot hold what runs in torch
            row |= {f"generated_{key}": value for key, value in _planned(network, executor).items()}
    return row


def _planned(network: PlannedNetwork, executor: str = "trace+2cq") -> Row:
    """The time of all kernels, by op and by layer."""
    profile = network.profile(Assignment())
    ops: Counter[str] = Counter()
    layers: Counter[str] = Counter()
    counts = Counter(row.op for row in profile.rows)
    for row in profile.rows:
        ops[row.op] += row.cost.ns / 1e3  # type: ignore[assignment]
        layers[row.layer] += row.cost.ns / 1e3  # type: ignore[assignment]
    return {
        "us": profile.device_ns / 1e3,
        "fps": 1e9 * network.model.batch_size / network.input_ns(Assignment(), executor),
        "steps": len(profile.rows),
        "ops": {op: [counts[op], us] for op, us in ops.most_common()},
        "layers": dict(layers.most_common()),
    }


def outputs_pcc(
    entry: ModelEntry, reference: nn.Module, pictures: torch.Tensor, card: str, options: dict[str, Any]
) -> dict[str, float]:
    with opened_card(entry, card=card, executor="plain") as device:
        model: Any = create_tt(entry.name, device, reference, **options)
        found = model.to_torch(model(model.place(pictures)))
    expected = reference_outputs(reference, pictures)
    return {
        name: float(comp_pcc(right, output, 0)[1])
        for name, right, output in zip(model.outputs, expected, found, strict=True)
    }


def table(rows: list[Row]) -> list[str]:
    lines = [
        "| model | hand-written, µs | generated, µs | of hand-written | fps end to end: hand, generated | steps: hand, "
        "generated | PCC: hand | PCC: generated | seconds (with optimiser) |",
        "|---|---:|---:|---:|---:|---:|---|---|---:|",
    ]
    for row in rows:
        if "failed" in row:
            first = f"| {row['title']} | {row['hand_us']:.0f} | fails in {row['failed'][:150].replace('|', '/')}"
            lines.append(first + " | -" * 6 + " |")
            continue
        cells = (
            row["title"],
            f"{row['hand_us']:.0f}",
            f"{row['generated_us']:.0f}",
            f"{row['hand_us'] / row['generated_us']:.2f} x",
            f"{row['hand_fps']:.0f}, {row['generated_fps']:.0f}",
            f"{row['hand_steps']}, {row['generated_steps']}",
            ", ".join(f"{name} {value:.4f}" for name, value in row["hand_pcc"].items()),
            ", ".join(f"{name} {value:.4f}" for name, value in row["generated_pcc"].items()),
            f"{total_seconds(row):.0f} ({total_seconds(row, optimizer=True):.0f})",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def by_op(row: Row) -> list[str]:
    """Where the two differ most: the ops with their counts and times."""
    if "failed" in row:
        return []
    mine, other = row["generated_ops"], row["hand_ops"]
    none = [0, 0.0]
    names = sorted(set(mine) | set(other), key=lambda op: -abs(mine.get(op, none)[1] - other.get(op, none)[1]))
    return [
        f"    {op:<28} hand {other.get(op, none)[0]:>4} {other.get(op, none)[1]:>9.1f} µs, "
        f"generated {mine.get(op, none)[0]:>4} {mine.get(op, none)[1]:>9.1f} µs"
        for op in names[:MOST_OPS]
    ]


def misses(rows: list[Row]) -> list[str]:
    """One line for each model that is slower, or under the gates of the hand-written one."""
    found = []
    for row in rows:
        if "failed" in row:
            found.append(f"{row['title']}: {row['failed']}")
            continue
        low = [
            f"PCC of {name} {value:.4f}, {gate:.4f} wanted"
            for (name, value), gate in zip(row["generated_pcc"].items(), row["hand_gates"].values(), strict=True)
            if value < gate
        ]
        if row["generated_us"] > row["hand_us"]:
            low.append(f"{row['hand_us'] / row['generated_us']:.2f} times as fast as hand-written")
        if low:
            found.append(f"{row['title']}: {'; '.join(low)}")
    return found
