# SPDX-License-Identifier: Apache-2.0
"""Published performance against predicted. `python benchmarks/cost_model.py [--check] [--calibrate]`.

Prints the table and writes it into docs/cost-model.md. With `--check`, a row beyond 20 %, a median beyond 8 % or a
case of the YOLOv4 report beyond its factor ends with status 1. With `--calibrate`, prints the figures that fit best.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from cost_calibration import calibrate
from cost_cases import Case, cases
from cost_recording import Recording, record_model
from cost_resnet50 import demo_steps as resnet50_steps
from cost_yolov4 import demo_steps as yolov4_steps
from cost_yolov5x import demo_steps as yolov5x_steps
from cost_yolov8x import demo_steps as yolov8x_steps
from earlier_kernels import as_of

from tt_cnn.models.registry import list_models
from tt_cnn.virtual.arch import card_by_name
from tt_cnn.virtual.cost.executors import input_ns
from tt_cnn.virtual.cost.kernel import kernel_cost
from tt_cnn.virtual.planning.plan import Step

PAGE = Path(__file__).parents[1] / "docs" / "cost-model.md"
ROW_LIMIT, MEDIAN_LIMIT, CASE_FACTOR = 0.20, 0.08, 1.5
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"


@dataclass(frozen=True)
class Published:
    """A row of the published figures."""

    model: str
    """Its name in the project; empty where the project does not have it."""
    title: str
    card: str
    resolution: tuple[int, int]
    batch_size: int
    device_fps: float
    end_to_end_fps: float | None = None
    upstream: Callable[[], Sequence[Step]] | None = None
    """Plans the published form of the model, where ours does far less work or is not there."""
    measured: str = "2026-08"
    """When: earlier kernels are timed as they were (`earlier_kernels.py`)."""
    aside: bool = False
    """No part of the calibration: how far the model is to be trusted with what it was not fitted to."""


ROWS = (
    Published("resnet50", "ResNet50", "n150", (224, 224), 16, 6335, 4700, resnet50_steps),
    Published("resnet50", "ResNet50", "p150", (224, 224), 16, 11864),
    Published("vanilla_unet", "Vanilla UNet", "n150", (480, 640), 1, 206, 190),
    Published("yolov4", "YOLOv4", "n150", (320, 320), 1, 197, 166, partial(yolov4_steps, 320), "2025-11"),
    Published("yolov4", "YOLOv4", "n150", (640, 640), 1, 114, 74, partial(yolov4_steps, 640), "2025-11"),
    Published("yolov8x", "YOLOv8x", "n150", (640, 640), 1, 70, 66, yolov8x_steps, "2025-11"),
    Published("", "YOLOv5x", "n150", (640, 640), 1, 71, 67, yolov5x_steps, "2025-11", aside=True),
)
SECONDS = {"plain": 0.0087, "trace": 0.0050, "2cq": 0.0087, "trace+2cq": 0.0034}
"""ResNet50, batch 16, n150, by executor."""


@dataclass(frozen=True)
class Outcome:
    row: Published
    recording: Recording | None
    """Of ours, where there is one; so are its rates."""
    device_fps: float = 0.0
    end_to_end_fps: float = 0.0
    upstream: Sequence[Step] = ()

    @property
    def judged_steps(self) -> Sequence[Step]:
        """Those that the published figure is a figure of."""
        return self.upstream or (self.recording.steps if self.recording else ())

    @property
    def judged_fps(self) -> float:
        return _fps(self.judged_steps, self.row)

    @property
    def error(self) -> float:
        return self.judged_fps / self.row.device_fps - 1


def _fps(steps: Sequence[Step], row: Published) -> float:
    card = card_by_name(row.card)
    return row.batch_size / sum(kernel_cost(step, card).ns for step in steps) * 1e9


def predict(row: Published) -> Outcome:
    upstream = [as_of(row.measured, step) for step in row.upstream()] if row.upstream else ()
    if not row.model:
        return Outcome(row, None, upstream=upstream)
    recording = record_model(row.model, row.card, row.resolution, row.batch_size)
    period = input_ns("trace+2cq", recording.calls, card_by_name(row.card))
    return Outcome(row, recording, _fps(recording.steps, row), row.batch_size / period * 1e9, upstream)


def table(outcomes: list[Outcome], found: list[Case]) -> list[str]:
    lines = [
        "| model | input | batch | card | steps | device fps: published | predicted | error "
        "| end to end: published | predicted |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for o in outcomes:
        r = o.row
        title = f"{r.title}{', as upstream runs it' if o.upstream else ''}{', not calibrated on' if r.aside else ''}"
        published = f"{r.end_to_end_fps:g}" if r.end_to_end_fps else "-"
        lines.append(
            f"| {title} | {r.resolution[0]}x{r.resolution[1]} | {r.batch_size} | {r.card} | {len(o.judged_steps)} "
            f"| {r.device_fps:g} | {o.judged_fps:.0f} | {o.error:+.0%} "
            f"| {published} | {'-' if o.upstream else f'{o.end_to_end_fps:.0f}'} |"
        )
    errors = [abs(o.error) for o in outcomes]
    lines += ["", f"Median error of device fps {statistics.median(errors):.1%}, largest {max(errors):.1%}."]
    for o in outcomes:
        if o.upstream and o.recording:
            lines.append(
                f"The project's own {o.row.title} at {o.row.resolution[0]}x{o.row.resolution[1]} has "
                f"{len(o.recording.steps)} steps where upstream's has {len(o.upstream)}; predicted are "
                f"{o.device_fps:.0f} fps on the device and {o.end_to_end_fps:.0f} end to end."
            )
    lines += _seconds_table(outcomes) + _cases_table(found)
    return lines


def _seconds_table(outcomes: list[Outcome]) -> list[str]:
    resnet = next((o for o in outcomes if o.row.model == "resnet50" and o.row.card == "n150"), None)
    if resnet is None or resnet.recording is None:
        return []
    card = card_by_name("n150")
    lines = ["", "| ResNet50, batch 16, n150 | published, ms | predicted, ms |", "|---|---|---|"]
    for executor, seconds in SECONDS.items():
        lines.append(
            f"| {executor} | {1e3 * seconds:.1f} | {input_ns(executor, resnet.recording.calls, card) / 1e6:.1f} |"
        )
    return lines


def _cases_table(found: list[Case]) -> list[str]:
    lines = ["", "| the YOLOv4 report, before and after | published | predicted |", "|---|---|---|"]
    for case in found:
        before, after = case.predicted
        verdict = "" if case.met(CASE_FACTOR) else " (missed)"
        lines.append(
            f"| {case.what}, {case.unit} | {case.published[0]:g}, {case.published[1]:g} "
            f"| {before:.1f}, {after:.1f}{verdict} |"
        )
    return lines


def _title(outcome: Outcome) -> str:
    row = outcome.row
    return f"{row.title} {row.resolution[0]}x{row.resolution[1]} batch {row.batch_size} on {row.card}"


def write_page(lines: list[str]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, after = text[: text.index(BEGIN) + len(BEGIN)], text[text.index(END) :]
    PAGE.write_text("\n".join([before, *lines, after]), encoding="utf-8")


def misses(outcomes: list[Outcome], found: list[Case]) -> list[str]:
    missed = [f"{o.row.title} {o.row.card}: {o.error:+.0%}" for o in outcomes if abs(o.error) > ROW_LIMIT]
    if statistics.median(abs(o.error) for o in outcomes) > MEDIAN_LIMIT:
        missed.append(f"median beyond {MEDIAN_LIMIT:.0%}")
    return missed + [case.what for case in found if not case.met(CASE_FACTOR)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="end with status 1 where a target is missed")
    parser.add_argument("--calibrate", action="store_true", help="print the figures that fit best, and their error")
    arguments = parser.parse_args()
    outcomes = [predict(row) for row in ROWS if not row.model or row.model in list_models()]
    found = cases()
    if arguments.calibrate:
        fitted = [o for o in outcomes if not o.row.aside]
        rows = [(_title(o), o.judged_steps, o.row.card, o.row.batch_size / o.row.device_fps * 1e9) for o in fitted]
        print("\n".join(calibrate(rows, found)))
        return 0
    lines = table(outcomes, found)
    print("\n".join(lines))
    write_page(lines)
    missed = misses(outcomes, found)
    for miss in missed:
        print(f"missed: {miss}")
    return 1 if arguments.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
