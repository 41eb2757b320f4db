# SPDX-License-Identifier: Apache-2.0
"""What `tt-cnn bringup` makes of architectures of the zoo, without hand work, and of our own models.

    python benchmarks/bringup.py [NAME...] [--all] [--budget 0] [--tests] [--live PYTHON] [--resume] [--write] [--check]
    python benchmarks/bringup.py --against-hand-written [NAME...] [--budget 120] [--resume] [--write]

The first brings architectures up on the virtual card with seeded weights and live batch-norm statistics: the PCC of
every output beside PyTorch's own bfloat16, whether the gate holds (0.99, or at most 0.005 below that bfloat16), ops
left in torch, misfits that were mended, L1 peak, steps, predicted fps, seconds with and without the optimiser, and with
`--tests` whether the tests of the generated folder pass; with `--live` how many steps of the folder's model are equal
on the real library (an interpreter with TT-NN 0.81.1 on a mocked card, see `tt-cnn conformance --live`). The second
brings up the references of the models that are written by hand here, and compares the predicted device times.

Rows are stored one by one in `benchmarks/results/bringup.json` (`bringup_hand_written.json`) with the version of the
tree that made them; `--resume` keeps those of this version. `--write` writes the tables of `docs/bringup-results.md`.
The folders stay in `out/benchmarks/bringup` (`--folders`). All times on the device are predicted; nothing was measured
on a card.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE)]

import bringup_hand_written as hand  # noqa: E402
from bringup_rows import Row, folder_live, folder_tests, total_seconds, zoo_row  # noqa: E402

from tt_cnn.zoo import list_architectures  # noqa: E402

RESULTS = HERE / "results"
PAGE = HERE.parent / "docs" / "bringup-results.md"
MOST_WITH_FALLBACKS = 3
CHOSEN: dict[str, str] = {
    "vgg16_bn": "plain",
    "resnet18": "residual",
    "resnet50": "residual, bottlenecks",
    "wide_resnet50_2": "residual, wide",
    "resnext50_32x4d": "grouped",
    "regnet_x_400mf": "grouped",
    "regnet_y_400mf": "grouped, squeeze-excite",
    "repvgg_a0": "branches of 3x3, 1x1 and identity",
    "squeezenet1_1": "fire modules",
    "densenet121": "dense",
    "googlenet": "inception",
    "inception_v3": "asymmetric",
    "mobilenet_v1": "depthwise",
    "mobilenet_v2": "inverted residual",
    "mobilenet_v3_large": "inverted residual, squeeze-excite",
    "efficientnet_b0": "inverted residual, squeeze-excite",
    "ghostnet": "ghost modules, squeeze-excite",
    "shufflenet_v2_x1_0": "channel shuffle",
    "convnext_tiny": "large depthwise kernels, layer norm",
    "unet": "U-shaped, transposed",
    "unet_bilinear": "U-shaped, bilinear",
    "deeplabv3_resnet50": "dilated, pyramid pooling",
    "retinanet_resnet18_fpn": "pyramid",
    "pose_resnet50": "transposed",
    "yolov3_tiny": "detection, two scales",
    "yolov5s": "CSP",
    "yolov7_tiny": "ELAN",
    "espcn_x4": "pixel shuffle",
    "fsrcnn_x3": "transposed, PReLU",
    "mobilevit_s": "hybrid, attention",
    "deit_tiny": "attention",
    "swin_tiny": "window attention",
}
"""What is brought up when nothing is asked for, and what each is there for."""


def tree_version() -> str:
    """Of all code that has a part in a row."""
    digest = hashlib.sha256()
    package = HERE.parent / "src" / "tt_cnn"
    for file in sorted(package.rglob("*.py")):
        name = file.relative_to(package)
        if name.parts[0] not in ("cli", "conformance"):
            digest.update(str(name).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:12]


class Store:
    """Rows by name, written as soon as each is made."""

    def __init__(self, path: Path, version: str) -> None:
        self.path, self.version = path, version
        self.rows: dict[str, Row] = json.loads(path.read_text()) if path.exists() else {}

    def has(self, name: str, **same: Any) -> bool:
        row = self.rows.get(name)
        return row is not None and row["version"] == self.version and all(row.get(k) == v for k, v in same.items())

    def keep(self, name: str, row: Row) -> None:
        self.rows[name] = row | {"version": self.version}
        self.path.write_text(json.dumps(dict(sorted(self.rows.items())), indent=1) + "\n")


def table(rows: list[Row]) -> list[str]:
    lines = [
        "| architecture | kind | input | PCC of outputs (PyTorch's bfloat16) | gate | in torch | misfits mended "
        "| L1 peak, KB | steps | device fps, predicted | fps end to end, predicted | seconds (with optimiser) "
        "| tests | steps equal on the real library |",
        "|---|---|---|---|---|---:|---:|---:|---:|---:|---:|---:|---|---:|",
    ]
    return lines + [f"| {' | '.join(_cells(row))} |" for row in rows]


def _cells(row: Row) -> tuple[str, ...]:
    first = (row["name"], CHOSEN.get(row["name"], row["family"]), row["input"])
    if "failed" in row:
        return (*first, f"fails in {row['failed'][:150].replace('|', '/')}", *["-"] * 10)
    own = row["bfloat16"]
    pcc = ", ".join(
        f"{name} {value:.4f}" + (f" ({own[name]:.4f})" if name in own else "") for name, value in row["pcc"].items()
    )
    searched = f" ({total_seconds(row, optimizer=True):.0f})" if "optimize" in row["seconds"] else ""
    tests = "-" if "tests_pass" not in row else "pass" if row["tests_pass"] else "FAIL"
    return (
        *first,
        pcc,
        "holds" if row["passed"] else "MISSED",
        str(len(row["fallbacks"])),
        str(row["misfits"]),
        f"{row['l1_peak'] / 1024:.0f}",
        str(row["steps"]),
        _rate(row, "device_fps"),
        _rate(row, "fps"),
        f"{total_seconds(row):.0f}{searched}",
        tests,
        _live(row),
    )


def _rate(row: Row, key: str) -> str:
    if key not in row:
        return "-"
    low, high = row[f"{key}_band"]
    return f"{row[key]:.0f} ({low:.0f} to {high:.0f})"


def _live(row: Row) -> str:
    live = row.get("live")
    if live is None:
        return "-"
    if "failed" in live:
        return f"fails: {live['failed'][-120:].replace('|', '/')}"
    return f"{live['equal']} of {live['steps']}{', REFUSED' if live['ends'] else ''}"


def summary(rows: list[Row]) -> str:
    came = [row for row in rows if "failed" not in row]
    tested = [row for row in came if "tests_pass" in row]
    asked = [row["live"] for row in came if "live" in row]
    live = (
        f"{sum(_accepted(each) for each in asked)} of {len(asked)} asked are accepted by the real library with the "
        "same plan, "
        if asked
        else ""
    )
    seconds = statistics.median(total_seconds(row) for row in came) if came else float("nan")
    return (
        f"{len(rows)} architectures, {sum(row['passed'] for row in came)} at their gates, "
        f"{sum(bool(row['fallbacks']) for row in came)} with fallbacks, "
        f"{sum(row['tests_pass'] for row in tested)} folders of {len(tested)} tested pass their tests, "
        f"{live}median {seconds:.1f} s"
    )


def _accepted(live: Row) -> bool:
    return "failed" not in live and not live["ends"] and live["equal"] == live["steps"]


def misses(rows: list[Row]) -> list[str]:
    found = [f"{row['name']}: {row['failed']}" for row in rows if "failed" in row]
    came = [row for row in rows if "failed" not in row]
    for row in came:
        found += [
            f"{row['name']}: PCC of {name} {value:.4f}, {row['gates'][name]:.4f} wanted"
            for name, value in row["pcc"].items()
            if value < row["gates"][name]
        ]
        if row.get("tests_pass") is False:
            found.append(f"{row['name']}: tests of the folder: {row['tests']}")
        if "live" in row and not _accepted(row["live"]):
            found.append(f"{row['name']}: on the real library: {_live(row)} {row['live'].get('ends', '')}")
    leaving = [row["name"] for row in came if row["fallbacks"]]
    if len(leaving) > MOST_WITH_FALLBACKS:
        found.append(f"{len(leaving)} leave ops in torch, at most {MOST_WITH_FALLBACKS} wanted: {', '.join(leaving)}")
    return found


def write_table(marker: str, lines: list[str]) -> None:
    """Between its markers on the page of results."""
    begin, end = f"<!-- {marker} -->", f"<!-- end of {marker} -->"
    before, found, rest = PAGE.read_text().partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise SystemExit(f"{PAGE} has no place for the table: {begin} ... {end}")
    PAGE.write_text("\n".join([before + begin, "", *lines, "", end + after]))


def run_zoo(options: argparse.Namespace) -> list[str]:
    store = Store(RESULTS / "bringup.json", tree_version())
    everything = list_architectures()
    unknown = [name for name in options.names if name not in everything]
    if unknown:
        raise SystemExit(f"there is no architecture {unknown[0]!r}; there are {', '.join(everything)}")
    names = options.names or (everything if options.all else list(CHOSEN))
    same = {"card": options.card, "budget": options.budget}
    for name in () if options.stored else names:
        if not (options.resume and store.has(name, **same)):
            store.keep(name, zoo_row(name, options.card, options.budget, options.folders) | same)
        _ask_folder(store, name, options)
        print("\n".join(table([store.rows[name]])[2:]), flush=True)
    rows = [store.rows[name] for name in names if name in store.rows]
    missed = misses(rows)
    for line in missed:
        print(f"missed: {line}")
    if options.write:
        write_table(f"bring-up table {options.card}", [*table(rows), "", summary(rows) + "."])
    print(summary(rows))
    return missed


def _ask_folder(store: Store, name: str, options: argparse.Namespace) -> None:
    """What was asked for and is not known of the folder yet."""
    row, folder = store.rows[name], options.folders / name
    if "failed" in row:
        return
    if options.tests and "tests_pass" not in row:
        store.keep(name, row := row | folder_tests(folder))
    if options.live is not None and "live" not in row:
        store.keep(name, row | folder_live(folder, options.live, options.card))


def run_hand_written(options: argparse.Namespace) -> list[str]:
    store = Store(RESULTS / "bringup_hand_written.json", tree_version())
    cases = [case for case in hand.CASES if not options.names or case.model in options.names]
    same = {"card": options.card, "budget": options.budget}
    for case in () if options.stored else cases:
        if not (options.resume and store.has(case.model, **same)):
            store.keep(case.model, hand.run_case(case, options.card, options.budget, options.folders) | same)
        row = store.rows[case.model]
        print("\n".join([*hand.table([row])[2:], *hand.by_op(row)]), flush=True)
    rows = [store.rows[case.model] for case in cases if case.model in store.rows]
    missed = hand.misses(rows)
    for line in missed:
        print(f"missed: {line}")
    if options.write:
        write_table(f"hand-written table {options.card}", hand.table(rows))
    print(f"{len(rows)} models, {len(rows) - len(missed)} at least as fast as the hand-written ones at their gates")
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of the zoo (tt_cnn.zoo); a chosen list without any")
    parser.add_argument("--all", action="store_true", help="the whole zoo")
    parser.add_argument("--against-hand-written", action="store_true", help="our own models instead of the zoo")
    parser.add_argument("--card", default="n150", choices=("n150", "p150"))
    parser.add_argument("--budget", type=float, metavar="S", help="seconds of each search [0; our own models: 120]")
    parser.add_argument("--folders", type=Path, default=HERE.parent / "out" / "benchmarks" / "bringup", metavar="DIR")
    parser.add_argument("--tests", action="store_true", help="run the tests of each folder")
    parser.add_argument(
        "--live", type=Path, metavar="PYTHON", help="an interpreter with TT-NN: compare folders with it"
    )
    parser.add_argument("--resume", action="store_true", help="keep rows that this version of the tree made")
    parser.add_argument("--stored", action="store_true", help="run nothing: read what earlier runs stored")
    parser.add_argument("--write", action="store_true", help="write the table of docs/bringup-results.md")
    parser.add_argument("--check", action="store_true", help="exit 1 where something is missed")
    options = parser.parse_args()
    if options.budget is None:
        options.budget = 120.0 if options.against_hand_written else 0.0
    missed = run_hand_written(options) if options.against_hand_written else run_zoo(options)
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
