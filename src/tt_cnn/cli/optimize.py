# SPDX-License-Identifier: Apache-2.0
"""`tt-cnn optimize`: a search for settings that make a model faster on a card."""

from __future__ import annotations

import json
import re
import sys
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import typer

from tt_cnn.cli.console import errors, say
from tt_cnn.cli.model_options import Card, Precision, Resolution, entry_of, precision_of, resolution_of
from tt_cnn.cli.optimize_figures import result_figures
from tt_cnn.cli.optimize_options import (
    Apply,
    AsJson,
    BudgetOption,
    CalibrationPath,
    Candidates,
    Count,
    Data,
    Exact,
    Explain,
    Folder,
    Freeze,
    GoalName,
    MinMetric,
    MinPcc,
    NoRecord,
    Only,
    Resume,
    Seed,
    Steps,
    Weights,
)
from tt_cnn.cli.profile import Batch, Model
from tt_cnn.cli.ray_options import Actors, Ray, RayPlace, Threads, ray_place
from tt_cnn.cli.tables import Listing, numbers, texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tt_cnn.optimizer.journal_file import StoredJournal
    from tt_cnn.optimizer.judging import Judging
    from tt_cnn.optimizer.planners import Planners
    from tt_cnn.optimizer.prediction import Helpers
    from tt_cnn.optimizer.result import OptimizationResult
    from tt_cnn.optimizer.search import Candidate, Goal

INTERRUPTED = 130
FAULTY_STEP = 1
NOT_ACCURATE = 1


def optimize(
    context: typer.Context,
    model: Model,
    card: Card = None,
    goal: GoalName = "latency",
    min_pcc: MinPcc = None,
    weights: Weights = None,
    calibration: CalibrationPath = None,
    min_metric: MinMetric = None,
    data: Data = None,
    count: Count = 16,
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
    as_json: AsJson = False,
    ray: Ray = None,
    actors: Actors = None,
    threads: Threads = None,
) -> None:
    """Make a model faster on a card: search for better settings of its layers, and for a better way to run it.

    The model keeps its code. Every candidate is planned on a virtual card, which takes milliseconds; it is kept where
    the goal gets better and the outputs stay accurate. The result is rebuilt and must take what the search saw.
    The folder gets config.json for create_tt(..., config=), the same as config.py, diff.txt, journal.json and
    report.html. Ctrl-C keeps the best so far. docs/optimizer.md says how far to trust it.

    Accuracy is measured with random weights on generated images unless you give your own: --weights, --calibration,
    and --min-metric with --data where mAP, IoU or top-1 is to decide.

    Examples:

    \b
    tt-cnn optimize vanilla_unet                           two minutes, for n150
    tt-cnn optimize resnet50 --goal throughput --card p150 the best batch, too
    tt-cnn optimize yolov4 --only 'down1*' --budget 30s    only some layers
    tt-cnn optimize yolov4 --candidates 500 --random-seed 1   the same result every time
    tt-cnn optimize vanilla_unet --resume out/optimize/vanilla_unet-n150
    tt-cnn optimize resnet50 --weights public --calibration my_images/
    tt-cnn optimize vanilla_unet --weights shipped --min-metric 80   IoU decides
    tt-cnn optimize yolov4 --weights yolov4.pt --data coco/ --min-metric 40
    tt-cnn optimize yolov4 --ray                           planned ahead on all cores
    tt-cnn optimize my_net:ENTRY --explain                 what could be done
    tt-cnn optimize vanilla_unet --apply out/profile/vanilla_unet-n150/profile.json
    """
    from tt_cnn import runtime
    from tt_cnn.optimizer.judging import judging_of
    from tt_cnn.virtual.devices.opening import option

    place = ray_place(ray, actors, threads)
    if place is not None and not runtime.is_virtual():
        raise ValueError(f"--ray plans ahead, and {runtime.describe()} measures; TT_CNN_RUNTIME=virtual changes it")
    entry = entry_of(model)
    stored = _stored(resume)
    if stored is not None:  # what is not said is as it was
        card = card or str(stored.task["card"])
        resolution = resolution or "x".join(map(str, stored.task["resolution"]))
        weights = weights or str(stored.task["weights"])
        given = {name for name in ("goal", "batch", "precision") if _is_given(context, name)}
        goal = goal if "goal" in given else str(stored.task["goal"])
        batch = batch if "batch" in given else int(stored.task["batch_size"])
        precision = precision if "precision" in given else str(stored.task["precision"])
    if not runtime.is_virtual() and card is not None:
        raise ValueError(f"--card is {card}, but {runtime.describe()} is in use; TT_CNN_RUNTIME=virtual changes it")
    name = option("card", card)
    judging = judging_of(
        entry,
        card=name,
        resolution=resolution_of(entry, resolution),
        precision=precision_of(precision),
        batch_size=batch,
        min_pcc=min_pcc,
        seed=seed,
        weights=weights,
        calibration=calibration,
        min_metric=min_metric,
        data=data,
        count=count,
    )
    if explain:
        _explain(judging, as_json)
        return
    seconds = seconds_of(budget)
    result, made, files = _searched(
        judging,
        Asked(
            goal=cast("Goal", goal),
            seconds=seconds,
            candidates=candidates,
            steps=_listed(steps) if apply is None or steps is not None else (),
            only=tuple(only or ("*",)),
            freeze=tuple(freeze or ()),
            record=not no_record,
            exact=exact,
        ),
        stored=stored,
        apply=apply,
        where=folder or resume or Path("out/optimize") / f"{entry.name}-{name}",
        helped=_planners(place, model, judging) if place is not None else nullcontext(),
    )
    if as_json:
        print(json.dumps(result_figures(result, made, files)))
    else:
        _show(result)
        say("")
        say(f"written to {made}/")
        for file, what in files.items():
            say(f"  {file:<14} {what}")
    if result.end == "interrupted":
        raise typer.Exit(INTERRUPTED)
    if not result.verification.accurate:
        raise typer.Exit(NOT_ACCURATE)
    if result.faults:
        raise typer.Exit(FAULTY_STEP)


@dataclass(frozen=True)
class Asked:
    """What of the search itself was asked for."""

    goal: Goal
    seconds: float
    candidates: int | None
    steps: Sequence[str] | None
    only: tuple[str, ...]
    freeze: tuple[str, ...]
    record: bool
    exact: bool


def _searched(
    judging: Judging,
    asked: Asked,
    *,
    stored: StoredJournal | None,
    apply: Path | None,
    where: Path,
    helped: AbstractContextManager[Helpers | None],
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

    suggestions = _suggestions(apply, judging) if apply is not None else []
    changes_values = PrecisionStep.name in chosen_steps(asked.steps) or any(not one.lossless for one in suggestions)
    start = stored.start if stored is not None else None
    journal = JournalWriter(lambda: result_folder(where), ["tt-cnn", *sys.argv[1:]])
    with (
        helped as helpers,
        judging.guard(start) if changes_values else nullcontext() as guard,
        Display(errors) as display,
    ):
        result = search(
            judging.entry.name,
            card=judging.card,
            goal=asked.goal,
            min_pcc=judging.min_pcc,
            budget_seconds=asked.seconds,
            candidates=asked.candidates,
            seed=judging.seed,
            steps=asked.steps,
            only=asked.only,
            freeze=asked.freeze,
            resolution=judging.resolution,
            batch_size=judging.batch_size,
            precision=judging.precision,
            guard=guard,
            watcher=Watchers(journal, display),
            resume=stored,
            suggestions=suggestions,
            record=TuningRecord() if asked.record else None,
            reference=judging.given,
            weights=judging.weights,
            min_metric=judging.min_metric,
            helpers=helpers,
        )
    if result.end != "interrupted":
        if judging.runs_whole(result):
            how = ", in exact numerics: this takes minutes" if asked.exact else ""
            errors.print(f"running the whole model with the result{how}", markup=False, highlight=False)
        result = judging.whole(result, asked.exact)
    journal.finished(result)
    assert journal.folder is not None
    files = write_files(result, journal.folder, optimization_page(result, judging.given))
    return result, journal.folder, {**files, FILE: "every attempt; --resume goes on with it"}


@contextmanager
def _planners(place: RayPlace, model: str, judging: Judging) -> Iterator[Planners]:
    """Actors that plan what the search expects to ask for; `model` as it was typed."""
    from tt_cnn.distributed.evaluating import as_actors_find_it
    from tt_cnn.optimizer.planners import planners
    from tt_cnn.optimizer.planning_actor import PlannedTask

    def lost(why: str) -> None:
        say(f"an actor ended, and the others and this process plan for it: {why}", console=errors)

    weights = as_actors_find_it(judging.weights) or judging.weights
    task = PlannedTask(model, judging.card, judging.resolution, judging.batch_size, judging.precision, weights)
    with (
        place.connected() as cluster,
        planners(cluster, task, actors=place.actors, threads=place.threads, lost=lost) as pool,
    ):
        yield pool


def _suggestions(path: Path, judging: Judging) -> list[Candidate]:
    from tt_cnn.optimizer.prediction import planned_network
    from tt_cnn.optimizer.suggestions import read_suggestions

    if not path.is_file():
        raise ValueError(f"--apply is {path}: no such file")
    where = (judging.entry.name, judging.card, judging.resolution, judging.batch_size, judging.precision)
    with planned_network(*where, reference=judging.given) as network:
        found = read_suggestions(path, network.configurations)
    if not found:
        raise ValueError(f"{path} changes nothing: {judging.entry.name} has these settings already")
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


def _show(result: OptimizationResult) -> None:
    from tt_cnn.optimizer.report_page import answer
    from tt_cnn.optimizer.result import ENDS
    from tt_cnn.reports.words import counted

    say(answer(result))
    resumed = f" ({result.resumed} of them before)" if result.resumed else ""
    say(
        f"{counted(len(result.journal.attempts), 'attempt')}{resumed}, {len(result.kept)} kept; "
        f"{counted(result.planned, 'candidate')} in "
        f"{result.seconds:.1f} s, {result.planned_per_second:.0f} per second; {ENDS[result.end]}"
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
        _steps_table(result).show()


def _steps_table(result: OptimizationResult) -> Listing:
    from tt_cnn.optimizer.result import said_value

    table = Listing((*texts("step"), *numbers("attempts", "kept", "gained", "seconds")), "steps")
    for name in dict.fromkeys(step.name for step in result.steps):
        own = [step for step in result.steps if step.name == name]
        gained = sum(step.gained for step in own)
        table.add(
            name,
            str(sum(step.attempts for step in own)),
            str(sum(step.kept for step in own)),
            said_value(result.task.goal, gained) if gained else "",
            f"{sum(step.seconds for step in own):.1f}",
        )
    return table


def _explain(judging: Judging, as_json: bool) -> None:
    """The findings of the model as it is, and the steps."""
    from tt_cnn.optimizer.steps.base import STEPS
    from tt_cnn.reports.figures import profile_figures
    from tt_cnn.reports.findings import find
    from tt_cnn.reports.profiling import profile_model
    from tt_cnn.reports.records import microseconds
    from tt_cnn.reports.words import counted

    profile = profile_model(
        judging.entry.name,
        card=judging.card,
        resolution=judging.resolution,
        batch_size=judging.batch_size,
        precision=judging.precision,
        reference=judging.given,
    )
    found = find(profile)
    if as_json:
        steps = {step.name: step.may_change for step in STEPS.values()}
        print(json.dumps(profile_figures(replace(profile, findings=tuple(found))) | {"search_steps": steps}))
        return
    saved = (
        f"the largest saves about {microseconds(found[0].saves_ns)}"
        if found
        else "nothing that saves a noticeable time"
    )
    say(
        f"{judging.entry.name} on {judging.card}, predicted: {profile.device_ns / 1e3:.1f} µs on the device; "
        f"{counted(len(found), 'finding')}, {saved}"
    )
    for finding in found:
        say(f"  {finding}")
    say("")
    say("steps of a search, in their order (--steps):")
    for step in STEPS.values():
        say(f"  {step.name:<12} {step.may_change}")
