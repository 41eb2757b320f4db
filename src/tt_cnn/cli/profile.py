# SPDX-License-Identifier: Apache-2.0
"""`tt-cnn profile`: where a model's time goes on a card, before there is a card."""

from __future__ import annotations

import atexit
import gc
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tt_cnn.cli.console import errors, say
from tt_cnn.cli.gate import Gate, Junit, Markdown
from tt_cnn.cli.model_options import (
    Card,
    Executor,
    Precision,
    Resolution,
    Weights,
    entry_of,
    precision_of,
    resolution_of,
)
from tt_cnn.cli.tables import Column, Listing, numbers, texts

if TYPE_CHECKING:
    from tt_cnn.models import ModelEntry
    from tt_cnn.reports.profile import Profile

Model = Annotated[
    str, typer.Argument(metavar="MODEL", help="A model of the package, or your own as module:ENTRY (a ModelEntry).")
]
Batch = Annotated[int, typer.Option("--batch", min=1, help="Images of an input, one that the model is tuned for.")]
Folder = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        metavar="DIR",
        help="Where the reports go; DIR-2, -3, ... if it is taken. [default: out/profile/MODEL-CARD]",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the figures, the tables and where the files are as JSON.")]
Pcc = Annotated[
    bool,
    typer.Option("--pcc", help="Run the model once and compare its outputs with PyTorch; the model's own gates count."),
]
MinFps = Annotated[
    float | None, typer.Option("--min-fps", metavar="FPS", help="Fail below this predicted end-to-end rate, in fps.")
]
MaxL1 = Annotated[
    str | None, typer.Option("--max-l1", metavar="SHARE", help="Fail above 95% of a core's L1, or above 1300KB.")
]
MinPcc = Annotated[
    float | None,
    typer.Option("--min-pcc", min=0.0, max=1.0, help="Fail below this PCC of any output, in place of the gates."),
]
Top = Annotated[int, typer.Option("--top", min=0, help="How many of the longest steps are shown.")]

_FINDINGS = 5


@dataclass(frozen=True)
class PccOf:
    """Whether outputs are compared with PyTorch, and with which weights."""

    wanted: bool
    weights: str | None


def profile(
    model: Model,
    card: Card = None,
    executor: Executor = "trace+2cq",
    resolution: Resolution = None,
    batch: Batch = 1,
    precision: Precision = "tuned",
    folder: Folder = None,
    top: Top = 10,
    pcc: Pcc = False,
    weights: Weights = None,
    min_fps: MinFps = None,
    max_l1: MaxL1 = None,
    min_pcc: MinPcc = None,
    markdown: Markdown = None,
    junit: Junit = None,
    as_json: AsJson = False,
) -> None:
    """Predict where a model's time goes on a card, and write every report of it.

    The model is planned on a virtual card, as the executor would run it; nothing is computed. The folder gets
    report.html, a performance sheet for tt-perf-report, a database for ttnn-visualizer, the model's card, summary and
    graph, findings.json for tt-cnn optimize --apply, and profile.json for tt-cnn diff. docs/profiling.md explains them.

    With limits it is a gate for CI: a line for each one that is missed, and exit status 1. --pcc runs the model with
    seeded weights, or with --weights, on a seeded image; the PCC goes into profile.json, and tt-cnn diff shows it.

    Examples:

    \b
    tt-cnn profile vanilla_unet
    tt-cnn profile yolov4 --resolution 640x640 --card p150
    tt-cnn profile resnet50 --executor trace+2cq+io -o out/resnet
    tt-cnn profile resnet50 --pcc --min-fps 700 --max-l1 95% --junit gate.xml --markdown gate.md
    """
    from tt_cnn.reports.collection import no_collection
    from tt_cnn.reports.figures import profile_figures
    from tt_cnn.reports.gate import Verdict, judge_profile, share

    gate = Gate(markdown, junit)
    least = share(max_l1) if max_l1 is not None else None
    atexit.register(gc.freeze)  # nothing needs to be looked through for garbage when the process ends
    with no_collection():
        try:
            made, where, files, gates = _profiled(
                model, card, executor, resolution, batch, precision, folder, PccOf(pcc or min_pcc is not None, weights)
            )
        except typer.Exit:  # it does not fit, which was reported
            gate.finish(model, [Verdict("fit into the card's L1", "refused", "all calls", False)], [])
            raise
        if min_pcc is not None:
            gates = dict.fromkeys(gates, min_pcc)
        verdicts = judge_profile(made, min_fps=min_fps, max_l1=least, min_pcc=gates)
        if as_json:
            missed = [str(one) for one in verdicts if not one.passed]
            figures = profile_figures(made, top) | {"missed": missed, "folder": str(where), "files": files}
            print(json.dumps(figures))
        else:
            _show(made, top)
            say("")
            say(f"written to {where}/")
            for file, what in files.items():
                say(f"  {file:<42} {what}")
    height, width = made.model.resolution
    title = f"{made.model.title} {height}x{width}, {made.batch}, on {made.card}"
    gate.finish(title, verdicts, _facts(made))


def _profiled(
    model: str,
    card: str | None,
    executor: str,
    resolution: str | None,
    batch: int,
    precision: str,
    folder: Path | None,
    compared: PccOf,
) -> tuple[Profile, Path, dict[str, str], dict[str, float]]:
    """The profile, its folder, the files there, and what the PCC of each output must be, where it is measured."""
    from tt_cnn.evaluation.output_folder import result_folder
    from tt_cnn.optimizer.findings import find_in_model
    from tt_cnn.optimizer.prediction import planned_network
    from tt_cnn.reports.memory_report import memory_of, report_text
    from tt_cnn.reports.profile import profile_model
    from tt_cnn.reports.profile_folder import write_folder
    from tt_cnn.virtual.devices.opening import option
    from tt_cnn.virtual.errors.card_error import DoesNotFit

    entry = entry_of(model)
    name = option("card", card)
    size, chosen = resolution_of(entry, resolution), precision_of(precision)
    options: dict[str, Any] = {
        "card": name,
        "executor": executor,
        "resolution": size,
        "batch_size": batch,
        "precision": chosen,
    }
    try:
        made = profile_model(entry.name, **options)
    except DoesNotFit:
        for line in report_text(memory_of(entry.name, **options)):
            say(line)
        raise typer.Exit(1) from None
    with planned_network(entry.name, name, size, batch, chosen) as network:
        made = find_in_model(network, made)
    gates: dict[str, float] = {}
    if compared.wanted:
        made, gates = _with_pcc(made, entry, compared.weights)
    where = result_folder(folder or Path("out/profile") / f"{entry.name}-{name}")
    return made, where, write_folder(made, where), gates


def _with_pcc(made: Profile, entry: ModelEntry, weights: str | None) -> tuple[Profile, dict[str, float]]:
    """The profile with the PCC of each output, measured in one run, and the model's gates.

    Without weights it has its own, where its entry brings some, and seeded ones else: those the gates are for.
    """
    from tt_cnn.evaluation.weights import reference_with
    from tt_cnn.models import create_reference
    from tt_cnn.models.measurement import measure
    from tt_cnn.reports.records import Accuracy

    with errors.status("comparing with PyTorch"):
        measured = measure(
            entry.name,
            card=made.card,
            precision=precision_of(made.model.precision),
            resolution=made.model.resolution,
            batch_size=made.model.batch_size,
            reference=create_reference(entry.name) if weights is None else reference_with(entry, weights)[0],
        )
    accuracy = tuple(Accuracy(output, pcc) for output, pcc in measured.pcc.items())
    return replace(made, accuracy=accuracy), {output: measured.gates.get(output, 0.0) for output in measured.pcc}


def _facts(made: Profile) -> list[tuple[str, str]]:
    """Of the table for a pull request."""
    from tt_cnn.reports.records import between

    facts = [
        ("device time, predicted", f"{made.device_ns / 1e6:.3f} ms"),
        ("fps on the device, predicted", f"{made.device_fps:.0f}{between(made.device_fps_band)}"),
        (f"fps end to end with {made.executor}, predicted", f"{made.fps:.0f}{between(made.fps_band)}"),
        ("L1 peak per core", f"{made.l1_peak / 1024:.0f} of {made.l1_size / 1024:.0f} KB"),
    ]
    return facts + [(f"PCC of {one.layer} with PyTorch", f"{one.pcc:.5f}") for one in made.accuracy]


def _show(made: Profile, top: int) -> None:
    from tt_cnn.reports.records import between
    from tt_cnn.reports.words import amount, counted

    model = made.model
    height, width = model.resolution
    say(
        f"{model.title} {height}x{width}, {made.batch}, on {made.card}, predicted: "
        f"{made.device_ns / 1e6:.3f} ms on the device, {made.device_fps:.0f} fps{between(made.device_fps_band)}; "
        f"{made.fps:.0f} fps{between(made.fps_band)} end to end with {made.executor}"
    )
    tightest = made.tightest
    at = f" at {tightest.name}" if tightest is not None else ""
    say(
        f"{counted(len(made.rows), 'step')}, {amount(made.macs)} multiply-adds on the card, "
        f"{amount(model.parameters)} parameters; "
        f"L1 peak {made.l1_peak / 1024:.0f} of {made.l1_size / 1024:.0f} KB{at}; "
        f"l1_small_size >= {made.l1_small_needed}, trace_region_size >= {made.trace_bytes} (an estimate)"
    )
    for one in made.accuracy:
        say(f"PCC of {one.layer} with PyTorch {one.pcc:.5f}")
    _by_op(made).show()
    if top:
        _longest(made, top).show()
    _executors(made).show()
    _show_findings(made)


def _show_findings(made: Profile) -> None:
    """The first of them, and what all save together."""
    from tt_cnn.reports.equal_findings import group_equal
    from tt_cnn.reports.records import microseconds

    findings = group_equal(made.findings or ())
    if not findings:
        say("no change was found that saves a noticeable time")
        return
    say(f"findings, {min(_FINDINGS, len(findings))} of {len(findings)} (predicted):")
    for number, one in enumerate(findings[:_FINDINGS], 1):
        say(f"  {number}. {one}")
    if made.together is not None and made.together.applied:
        count, saves = len(made.together.applied), microseconds(made.together.saves_ns)
        share = 100 * made.together.saves_ns / made.device_ns
        say(f"  {count} of them together, planned with the whole model, save about {saves} ({share:.0f} %)")


def _by_op(made: Profile) -> Listing:
    from tt_cnn.reports.time_sums import by_op

    table = Listing((*texts("op"), *numbers("steps", "µs", "%")), "time by op (predicted)")
    for one in by_op(made):
        table.add(one.name, str(one.steps), f"{one.ns / 1e3:.1f}", f"{one.percent(made):.1f}")
    return table


def _longest(made: Profile, count: int) -> Listing:
    from tt_cnn.reports.words import counted

    table = Listing(
        (
            *numbers("#"),
            *texts("layer", "op"),
            *numbers("µs"),
            Column("8 of 10 within", right=True, expendable=4),
            *numbers("%", "cores"),
            Column("fidelity", expendable=2),
            Column("utilisation %", right=True, expendable=1),
            Column("adjusted %", right=True, expendable=5),
            Column("L1 free KB", right=True, expendable=3),
        ),
        f"the {counted(min(count, len(made.rows)), 'longest step')} (predicted)",
        keys=2,
    )
    for row in sorted(made.rows, key=lambda row: -row.cost.ns)[:count]:
        table.add(
            str(row.index),
            row.name,
            row.op,
            f"{row.cost.ns / 1e3:.1f}",
            f"{row.cost.low_ns / 1e3:.1f} to {row.cost.high_ns / 1e3:.1f}",
            f"{100 * row.cost.ns / made.device_ns:.1f}",
            f"{row.working_cores}/{row.available_cores}",
            row.fidelity,
            f"{row.shown_utilization[0]:.1f}",
            f"{row.shown_utilization[1]:.1f}",
            f"{row.l1.free / 1024:.0f}",
        )
    return table


def _executors(made: Profile) -> Listing:
    table = Listing((*texts("executor"), *numbers("fps", "ms per input", "latency ms")), "end to end (predicted)")
    for result in made.executors:
        cells = (f"{result.fps:.0f}", f"{result.input_ns / 1e6:.3f}", f"{result.latency_ns / 1e6:.3f}")
        table.add(result.executor, *cells, bold=result.executor == made.executor)
    return table
