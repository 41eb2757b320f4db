"""`tt-cnn optimize`: a search for settings that make a model faster on a card."""

from __future__ import annotations

import re
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer
from rich.table import Table

from tt_cnn.cli.console import errors, output
from tt_cnn.cli.model_options import Card, Precision, Resolution, entry_of, precision_of, resolution_of
from tt_cnn.cli.profile import Batch, Model

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tt_cnn.models import ModelEntry
    from tt_cnn.models.tt_model import Precision as PrecisionName
    from tt_cnn.optimizer.journal_file import StoredJournal
    from tt_cnn.optimizer.result import OptimizationResult
    from tt_cnn.optimizer.search import Candidate, Goal, Guard

INTERRUPTED = 130
FAULTY_STEP = 1
NOT_ACCURATE = 1

GoalName = Annotated[
    str,
    typer.Option(
        "--goal",
        metavar="latency|throughput|memory",
        help="What is made smaller: the kernels of one input, of one image in the best batch, or L1 at its fullest.",
    ),
]
MinPcc = Annotated[
    float, typer.Option("--min-pcc", min=0.0, max=1.0, help="What every output must keep against PyTorch.")
]
BudgetOption = Annotated[
    str, typer.Option("--budget", metavar="TIME", help="How long to search: 120s, 2m or seconds as a number.")
]
Candidates = Annotated[
    int | None,
    typer.Option("--candidates", min=0, metavar="N", help="Try N candidates in place of a time: reproducible."),
]
Seed = Annotated[int, typer.Option("--random-seed", metavar="S", help="Of steps that choose at random.")]
Steps = Annotated[
    str | None, typer.Option("--steps", metavar="A,B", help="Only these steps; --explain lists them. [default: all]")
]
Only = Annotated[
    list[str] | None, typer.Option("--only", metavar="LAYER", help="Change only these layers; * and ? are wildcards.")
]
Freeze = Annotated[list[str] | None, typer.Option("--freeze", metavar="LAYER", help="Leave these layers as they are.")]
Resume = Annotated[
    Path | None, typer.Option("--resume", metavar="DIR", help="Go on with the search of a result folder.")
]
Explain = Annotated[
    bool,
    typer.Option("--explain", help="Say what would make the model faster, and what the steps may change; no search."),
]
Apply = Annotated[
    Path | None,
    typer.Option("--apply", metavar="FILE", help="Try the changes of findings or of a config.json, and nothing else."),
]
NoRecord = Annotated[
    bool, typer.Option("--no-record", help="Neither start from what earlier searches found, nor add to it.")
]
Exact = Annotated[
    bool, typer.Option("--exact", help="Compare the result's values in exact numerics, which takes minutes.")
]
Folder = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        metavar="DIR",
        help="Where the result goes; DIR-2, -3, ... if it is taken. [default: out/optimize/MODEL-CARD]",
    ),
]


def optimize(
    context: typer.Context,
    model: Model,
    card: Card = None,
    goal: GoalName = "latency",
    min_pcc: MinPcc = 0.99,
    budget: BudgetOption = "120s",
    candidates: Candidates = None,
    seed: Seed = 0,
    steps: Steps = None,
    only: Only = None,
    freeze: Freeze = None,
    resolution: Resolution = None,
    batch: Batch = 1,
    precision: Precision = "tuned",
    resume: Resume = None,
    explain: Explain = False,
    apply: Apply = None,
    no_record: NoRecord = False,
    exact: Exact = False,
    folder: Folder = None,
) -> None:
    """Make a model faster on a card: search for better settings of its layers, and for a better way to run it.

    The model keeps its code. Every candidate is planned on a virtual card, which takes milliseconds; it is kept where
    the goal gets better and the outputs stay accurate. The result is built anew and must take what the search saw.
    The folder gets config.json for create_tt(..., config=), the same as config.py, diff.txt, journal.json and
    report.html. Ctrl-C keeps the best so far. docs/optimizer.md says how far to trust it.

    Examples:

    \b
    tt-cnn optimize vanilla_unet                           two minutes, for n150
    tt-cnn optimize resnet50 --goal throughput --card p150 the best batch, too
    tt-cnn optimize yolov4 --only 'down1*' --budget 30s    only some layers
    tt-cnn optimize yolov4 --candidates 500 --random-seed 1   the same result every time
    tt-cnn optimize vanilla_unet --resume out/optimize/vanilla_unet-n150
    tt-cnn optimize my_net:ENTRY --explain                 what could be done
    tt-cnn optimize vanilla_unet --apply out/profile/vanilla_unet-n150/profile.json
    """
    from tt_cnn import runtime
    from tt_cnn.virtual.devices.opening import option

    entry = entry_of(model)
    stored = _stored(resume)
    if stored is not None:  # what is not said is as it was
        card = card or str(stored.task["card"])
        resolution = resolution or "x".join(map(str, stored.task["resolution"]))
        given = {name for name in ("goal", "batch", "precision") if _is_given(context, name)}
        goal = goal if "goal" in given else str(stored.task["goal"])
        batch = batch if "batch" in given else int(stored.task["batch_size"])
        precision = precision if "precision" in given else str(stored.task["precision"])
    if not runtime.is_virtual() and card is not None:
        raise ValueError(f"--card is {card}, but {runtime.describe()} is in use; TT_CNN_RUNTIME=virtual changes it")
    name = option("card", card)
    size = resolution_of(entry, resolution)
    if explain:
        _explain(entry, name, size, batch, precision_of(precision))
        return
    seconds = seconds_of(budget)
    where = folder or resume or Path("out/optimize") / f"{entry.name}-{name}"
    result, made, files = _searched(
        entry,
        card=name,
        goal=cast("Goal", goal),
        min_pcc=min_pcc,
        seconds=seconds,
        candidates=candidates,
        seed=seed,
        steps=_listed(steps) if apply is None or steps is not None else (),
        only=tuple(only or ("*",)),
        freeze=tuple(freeze or ()),
        size=size,
        batch=batch,
        precision=precision_of(precision),
        stored=stored,
        apply=apply,
        record=not no_record,
        exact=exact,
        where=where,
    )
    _show(result)
    _say("")
    _say(f"written to {made}/")
    for file, what in files.items():
        _say(f"  {file:<14} {what}")
    if result.end == "interrupted":
        raise typer.Exit(INTERRUPTED)
    if not result.verification.accurate:
        raise typer.Exit(NOT_ACCURATE)
    if result.faults:
        raise typer.Exit(FAULTY_STEP)


def _searched(
    entry: ModelEntry,
    *,
    card: str,
    goal: Goal,
    min_pcc: float,
    seconds: float,
    candidates: int | None,
    seed: int,
    steps: Sequence[str] | None,
    only: tuple[str, ...],
    freeze: tuple[str, ...],
    size: tuple[int, int],
    batch: int,
    precision: PrecisionName,
    stored: StoredJournal | None,
    apply: Path | None,
    record: bool,
    exact: bool,
    where: Path,
) -> tuple[OptimizationResult, Path, dict[str, str]]:
    """The result, its folder, and the files there."""
    from tt_cnn.cli.optimize_display import Display
    from tt_cnn.evaluation.output_folder import result_folder
    from tt_cnn.optimizer.journal_file import FILE, JournalWriter
    from tt_cnn.optimizer.record import TuningRecord
    from tt_cnn.optimizer.report_page import optimization_page
    from tt_cnn.optimizer.result_folder import write_files
    from tt_cnn.optimizer.rounds import Watchers
    from tt_cnn.optimizer.run import chosen_steps
    from tt_cnn.optimizer.run import optimize as search
    from tt_cnn.optimizer.steps.precision import PrecisionStep

    suggestions = _suggestions(apply, entry, card, size, batch, precision) if apply is not None else []
    changes_values = PrecisionStep.name in chosen_steps(steps) or any(not one.lossless for one in suggestions)
    journal = JournalWriter(lambda: result_folder(where), ["tt-cnn", *sys.argv[1:]])
    with (
        _guard(changes_values, entry, card, size, batch, precision, min_pcc, seed, stored) as guard,
        Display(errors) as display,
    ):
        result = search(
            entry.name,
            card=card,
            goal=goal,
            min_pcc=min_pcc,
            budget_seconds=seconds,
            candidates=candidates,
            seed=seed,
            steps=steps,
            only=only,
            freeze=freeze,
            resolution=size,
            batch_size=batch,
            precision=precision,
            guard=guard,
            watcher=Watchers(journal, display),
            resume=stored,
            suggestions=suggestions,
            record=TuningRecord() if record else None,
        )
    result = _run_whole(result, entry, card, size, precision, min_pcc, seed, exact)
    journal.finished(result)
    assert journal.folder is not None
    files = write_files(result, journal.folder, optimization_page(result))
    return result, journal.folder, {**files, FILE: "every attempt; --resume goes on with it"}


def _run_whole(
    result: OptimizationResult,
    entry: ModelEntry,
    card: str,
    size: tuple[int, int],
    precision: PrecisionName,
    min_pcc: float,
    seed: int,
    exact: bool,
) -> OptimizationResult:
    """The result after a run of the whole model with all its settings: layers in other places must give the values."""
    from tt_cnn import runtime
    from tt_cnn.optimizer.unseen import verify_whole

    if result.after.assignment == result.before.assignment or result.end == "interrupted":
        return result
    how = ", in exact numerics: this takes minutes" if exact else ""
    errors.print(f"running the whole model with the result{how}", markup=False, highlight=False)
    verdict = verify_whole(
        entry.name,
        result.after.assignment,
        "exact" if exact else "device",
        card=card if runtime.is_virtual() else None,
        resolution=size,
        batch_size=result.after.deployment.batch_size,
        precision=precision,
        min_pcc=min_pcc,
        seed=seed,
    )
    found = result.verification
    if verdict.accepted:
        said = f"{found.said}, and so are the values of the whole model"
        return replace(result, pcc=verdict.pcc, verification=replace(found, said=said))
    said = f"the values of the whole model are not accurate: {verdict.failed}"
    return replace(result, pcc=verdict.pcc, verification=replace(found, holds=False, accurate=False, said=said))


@contextmanager
def _guard(
    wanted: bool,
    entry: ModelEntry,
    card: str,
    size: tuple[int, int],
    batch: int,
    precision: PrecisionName,
    min_pcc: float,
    seed: int,
    stored: StoredJournal | None,
) -> Iterator[Guard | None]:
    """What compares values, where a step or a suggestion may change them; it makes weights, which takes seconds."""
    from tt_cnn import runtime
    from tt_cnn.optimizer.guard import PccGuard

    if not wanted:
        yield None
        return
    with PccGuard.for_model(
        entry.name,
        card=card if runtime.is_virtual() else None,
        resolution=size,
        batch_size=batch,
        precision=precision,
        min_pcc=min_pcc,
        seed=seed,
        start=stored.start if stored is not None else None,
    ) as guard:
        yield guard


def _suggestions(
    path: Path, entry: ModelEntry, card: str, size: tuple[int, int], batch: int, precision: str
) -> list[Candidate]:
    from tt_cnn.optimizer.prediction import planned_network
    from tt_cnn.optimizer.suggestions import read_suggestions

    if not path.is_file():
        raise ValueError(f"--apply is {path}, which is no file")
    with planned_network(entry.name, card, size, batch, precision) as network:
        found = read_suggestions(path, network.configurations)
    if not found:
        raise ValueError(f"{path} changes nothing: {entry.name} has these settings already")
    return found


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


def _stored(resume: Path | None) -> StoredJournal | None:
    from tt_cnn.optimizer.journal_file import read_journal

    return read_journal(resume) if resume is not None else None


def seconds_of(text: str) -> float:
    """`120s`, `2m`, `1.5m`, or seconds as a number."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|min|h)?", text.strip().lower())
    if found is None:
        raise ValueError(f"--budget is {text!r}; it must be like 120s or 2m")
    return float(found[1]) * {"m": 60, "min": 60, "h": 3600}.get(found[2] or "s", 1)


def _listed(text: str | None) -> list[str] | None:
    return [name.strip() for name in text.split(",") if name.strip()] if text is not None else None


def _say(text: str) -> None:
    output.print(text, markup=False, highlight=False, soft_wrap=True)


def _show(result: OptimizationResult) -> None:
    from tt_cnn.optimizer.report_page import answer
    from tt_cnn.optimizer.result import ENDS

    _say(answer(result))
    resumed = f" ({result.resumed} of them before)" if result.resumed else ""
    _say(
        f"{len(result.journal.attempts)} attempts{resumed}, {len(result.kept)} kept; {result.planned} candidates in "
        f"{result.seconds:.1f} s, {result.planned_per_second:.0f} a second; {ENDS[result.end]}"
    )
    if not result.verification.holds:
        errors.print(f"tt-cnn: {result.verification.said}", markup=False, highlight=False, soft_wrap=True)
    for step in result.faults:
        last = step.error.strip().splitlines()[-1]
        errors.print(
            f"tt-cnn: the step {step.name} failed: {last}. This is a fault of the step, not of the model; the best of "
            "the others is kept, and journal.json has its traceback.",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
    if result.steps:
        output.print(_steps_table(result))


def _steps_table(result: OptimizationResult) -> Table:
    from tt_cnn.optimizer.result import said_value

    table = Table("step", title="steps")
    for heading in ("attempts", "kept", "gained", "seconds"):
        table.add_column(heading, justify="right")
    for name in dict.fromkeys(step.name for step in result.steps):
        own = [step for step in result.steps if step.name == name]
        gained = sum(step.gained for step in own)
        table.add_row(
            name,
            str(sum(step.attempts for step in own)),
            str(sum(step.kept for step in own)),
            said_value(result.task.goal, gained) if gained else "",
            f"{sum(step.seconds for step in own):.1f}",
        )
    return table


def _explain(entry: ModelEntry, card: str, size: tuple[int, int], batch: int, precision: str) -> None:
    """The findings of the model as it is, and the steps."""
    from tt_cnn.optimizer.steps.base import STEPS
    from tt_cnn.reports.findings import find
    from tt_cnn.reports.profiling import profile_model
    from tt_cnn.reports.records import microseconds

    profile = profile_model(entry.name, card=card, resolution=size, batch_size=batch, precision=precision)
    found = find(profile)
    saved = (
        f"the largest saves about {microseconds(found[0].saves_ns)}"
        if found
        else "nothing that saves a noticeable time"
    )
    _say(
        f"{entry.name} on {card}, predicted: {profile.device_ns / 1e3:.1f} µs on the device; "
        f"{len(found)} findings, {saved}"
    )
    for finding in found:
        _say(f"  {finding}")
    _say("")
    _say("steps of a search, in their order (--steps):")
    for step in STEPS.values():
        _say(f"  {step.name:<12} {step.may_change}")
