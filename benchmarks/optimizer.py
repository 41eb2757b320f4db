# SPDX-License-Identifier: Apache-2.0
"""What `tt-cnn optimize` finds, beside a naive configuration and the hand-written one.

    python benchmarks/optimizer.py [--card n150|p150] [--models NAME...] [--budget 120] [--check] [--write]

For each model the predicted device time and the end-to-end fps of three configurations: (a) naive, every layer with the
builder's defaults (`tt_cnn.optimizer.baseline`; what had to be added so that the model fits is counted), (b) the
hand-written one, and the one that a search within the budget finds, starting from (b). PCC is the lowest of all outputs
of a run of the whole model, with the whole batch, on inputs that the search has not seen. Results are stored in
`benchmarks/results/optimizer_CARD.json`, a model at a time, so that a run can be continued, and the settings that were
found beside it; `--write` writes the tables
of `docs/optimizer.md` from them. `--check` exits 1 where a model misses what the docs promise.

All times are predicted by the cost model; nothing was measured on a card.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE)]

from naive_resnet18 import ENTRY as NAIVE_RESNET18  # noqa: E402

from tt_cnn.models.registry import list_models, register  # noqa: E402
from tt_cnn.optimizer.baseline import fitting_naive_assignment, naive_assignment  # noqa: E402
from tt_cnn.optimizer.guard import CHANCE, PccGuard  # noqa: E402
from tt_cnn.optimizer.prediction import Refusal, planned_network  # noqa: E402
from tt_cnn.optimizer.rounds import Watcher  # noqa: E402
from tt_cnn.optimizer.run import optimize  # noqa: E402
from tt_cnn.optimizer.settings import changed_settings  # noqa: E402
from tt_cnn.optimizer.unseen import verify_whole  # noqa: E402

RESULTS = HERE / "results"
GUIDE = HERE.parent / "docs" / "optimizer.md"
BEGIN, END = "<!-- optimizer table {card} -->", "<!-- end of optimizer table {card} -->"
OVER_NAIVE, OVER_HAND = 2.0, 1.15
"""How much faster than the two the found configuration is to be."""
MIN_PCC = 0.99


@dataclass(frozen=True)
class Case:
    model: str
    title: str
    resolution: tuple[int, int] | None = None
    batch_size: int = 1
    published_target: int | None = None
    """fps on the device that upstream names as a target and does not reach, n150."""

    @property
    def key(self) -> str:
        return self.title

    @property
    def file(self) -> str:
        """As a file is named."""
        size = f"-{self.resolution[0]}" if self.resolution else ""
        return f"{self.model}{size}{f'-batch{self.batch_size}' if self.batch_size > 1 else ''}"


CASES = (
    Case("vanilla_unet", "UNet 480x640", published_target=240),
    Case("yolov4", "YOLOv4 320x320", (320, 320), published_target=320),
    Case("yolov4", "YOLOv4 640x640", (640, 640), published_target=160),
    Case("resnet50", "ResNet50, batch 16", batch_size=16, published_target=7000),
    Case("mobilenetv2", "MobileNetV2"),
    Case("yolov8s", "YOLOv8s", published_target=320),
    Case(NAIVE_RESNET18.name, "a naive ResNet18"),
)


class _Steps(Watcher):
    """A line for each step."""

    def step_ended(self, report: Any) -> None:
        print(
            f"  round {report.round} {report.name:<10} {report.attempts:>5} attempts, {report.kept:>3} kept, "
            f"{report.gained / 1e3:8.1f} us gained, {report.seconds:5.1f} s{'' if not report.error else ' FAULT'}",
            flush=True,
        )
        if report.error:
            print(report.error)


def run_case(case: Case, card: str, budget: float, seed: int) -> dict[str, Any]:
    options: dict[str, Any] = {"resolution": case.resolution, "batch_size": case.batch_size}
    with planned_network(case.model, card, **options) as network:
        assignment, naive = fitting_naive_assignment(network)
        plain = naive_assignment(network.configurations)
        naive_input_ns = 0.0 if isinstance(naive, Refusal) else network.input_ns(assignment)
    added = sum(assignment.get(name, {}) != plain.get(name, {}) for name in assignment)
    begin = time.monotonic()
    with PccGuard.for_model(case.model, card=card, min_pcc=MIN_PCC, seed=seed, **options) as guard:
        ready = time.monotonic() - begin
        result = optimize(
            case.model,
            card=card,
            guard=guard,
            min_pcc=MIN_PCC,
            budget_seconds=budget,
            seed=seed,
            watcher=_Steps(),
            **options,
        )
    whole: dict[str, Any] = {"card": card, "min_pcc": MIN_PCC, "seed": seed, **options}
    hand_pcc = verify_whole(case.model, result.before.assignment, **whole).pcc
    found_pcc = verify_whole(case.model, result.after.assignment, **whole).pcc
    _store_settings(case, card, result)
    return {
        "title": case.title,
        "naive_us": None if isinstance(naive, Refusal) else naive.device_ns / 1e3,
        "naive_fps": None if isinstance(naive, Refusal) else 1e9 * case.batch_size / naive_input_ns,
        "naive_refusal": naive.reason if isinstance(naive, Refusal) else "",
        "naive_layers_changed_to_fit": added,
        "hand_us": result.before.prediction.device_ns / 1e3,
        "hand_fps": result.before.fps,
        "found_us": result.after.prediction.device_ns / 1e3,
        "found_fps": result.after.fps,
        "found_device_fps": result.after.device_fps,
        "target": case.published_target if card == "n150" else None,
        "hand_pcc": dict(hand_pcc),
        "found_pcc": dict(found_pcc),
        "end": result.end,
        "verified": result.verification.holds,
        "candidates": result.planned,
        "seconds": result.seconds,
        "guard_seconds": ready,
        "budget": budget,
    }


def _store_settings(case: Case, card: str, result: Any) -> None:
    """What was found, as `create_tt(..., config=)` and `tt-cnn conformance --live --config` read it."""
    settings = changed_settings(result.before_configurations, result.after.assignment)
    path = RESULTS / "optimizer" / f"{card}-{case.file}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(settings.to_dict(), indent=1) + "\n")


def table(rows: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| model | naive, µs | hand-written, µs | found, µs | of naive | of hand-written | fps end to end: hand, found "
        "| device fps: found, upstream's target | lowest PCC: hand, found | candidates per second |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        naive = row["naive_us"]
        added = (
            f" ({row['naive_layers_changed_to_fit']} layers changed to fit)"
            if row["naive_layers_changed_to_fit"]
            else ""
        )
        cells = (
            row["title"],
            f"{naive:.0f}{added}" if naive else "does not fit",
            f"{row['hand_us']:.0f}",
            f"{row['found_us']:.0f}",
            f"{naive / row['found_us']:.2f} x" if naive else "-",
            f"{row['hand_us'] / row['found_us']:.2f} x",
            f"{row['hand_fps']:.0f}, {row['found_fps']:.0f}",
            f"{row['found_device_fps']:.0f}, {row['target'] or '-'}",
            f"{_lowest(row['hand_pcc'])}, {_lowest(row['found_pcc'])}",
            f"{row['candidates'] / row['seconds']:.0f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _lowest(pcc: dict[str, float]) -> str:
    return f"{min(pcc.values()):.4f}" if pcc else "-"


def misses(rows: list[dict[str, Any]]) -> list[str]:
    found = []
    for row in rows:
        naive, hand, ours = row["naive_us"], row["hand_us"], row["found_us"]
        if naive and naive < OVER_NAIVE * ours:
            found.append(f"{row['title']}: {naive / ours:.2f} times as fast as naive, {OVER_NAIVE} wanted")
        if hand < OVER_HAND * ours:
            found.append(f"{row['title']}: {hand / ours:.2f} times as fast as hand-written, {OVER_HAND} wanted")
        for output, value in row["found_pcc"].items():
            hand_pcc = row["hand_pcc"][output]
            if value < min(MIN_PCC, hand_pcc - CHANCE * (1 - hand_pcc)):
                found.append(f"{row['title']}: PCC of {output} {value:.4f}, hand-written {row['hand_pcc'][output]:.4f}")
        if not row["verified"]:
            found.append(f"{row['title']}: the result did not hold when it was rebuilt")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--card", default="n150", choices=("n150", "p150"))
    parser.add_argument("--models", nargs="*", help="titles that contain one of these words; all where none is given")
    parser.add_argument("--budget", type=float, default=120.0, metavar="S", help="seconds of each search")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--check", action="store_true", help="exit 1 where a promise is missed")
    parser.add_argument("--write", action="store_true", help="write the table of docs/optimizer.md")
    parser.add_argument("--stored", action="store_true", help="run nothing: read what earlier runs stored")
    options = parser.parse_args()
    if NAIVE_RESNET18.name not in list_models():
        register(NAIVE_RESNET18)
    path = RESULTS / f"optimizer_{options.card}.json"
    stored: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    wanted = [c for c in CASES if not options.models or any(w.lower() in c.title.lower() for w in options.models)]
    for case in () if options.stored else wanted:
        print(case.title, flush=True)
        stored[case.key] = run_case(case, options.card, options.budget, options.seed)
        path.write_text(json.dumps(stored, indent=2) + "\n")
    rows = [stored[case.key] for case in wanted if case.key in stored]
    print("\n".join(table(rows)))
    missed = misses(rows)
    for line in missed:
        print(f"missed: {line}")
    if options.write:
        write_table(options.card, [stored[case.key] for case in CASES if case.key in stored])
    return 1 if options.check and missed else 0


def write_table(card: str, rows: list[dict[str, Any]]) -> None:
    begin, end = BEGIN.format(card=card), END.format(card=card)
    text = GUIDE.read_text()
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise SystemExit(f"{GUIDE} has no place for the table: {begin} ... {end}")
    GUIDE.write_text("\n".join([before + begin, "", *table(rows), "", end + after]))


if __name__ == "__main__":
    sys.exit(main())
