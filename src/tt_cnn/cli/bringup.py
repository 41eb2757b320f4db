# SPDX-License-Identifier: Apache-2.0
"""`tt-cnn bringup`: from a user's nn.Module to a folder of TT-CNN code that is tuned and tested."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tt_cnn.cli.console import errors, say
from tt_cnn.cli.model_options import Card

if TYPE_CHECKING:
    from tt_cnn.bringup.bring_up import BringUp
    from tt_cnn.bringup.folder import GeneratedFolder
    from tt_cnn.reports.records import Profile

TESTS_FAILED = 1
_MOST_MISFITS = 12

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="What makes the model: path/to/file.py:factory or package.module:factory, without arguments; a file, "
        ".pt2 (torch.export.save) or .onnx; or timm:NAME.",
    ),
]
Input = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        metavar="NxCxHxW",
        help="The shape of the model's input, the batch first; once for each input where there are several. "
        "Not needed where MODEL is a file that says it.",
    ),
]
WeightsFile = Annotated[
    Path | None,
    typer.Option(
        "--weights", metavar="FILE", help="A checkpoint: .safetensors, .pt or .pth. [default: the model's own]"
    ),
]
Folder = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="DIR", help="[default: out/bringup/NAME, a package of that name]"),
]
BudgetOption = Annotated[
    str, typer.Option("--budget", metavar="TIME", help="How long the optimiser searches: 20s, 2m; 0 leaves it out.")
]
MinPcc = Annotated[
    float,
    typer.Option(
        "--min-pcc",
        min=0.5,
        max=1.0,
        help="What each output must reach beside PyTorch in float32, or be at most 0.005 under PyTorch's own bfloat16.",
    ),
]
Mean = Annotated[
    str,
    typer.Option(
        metavar="R,G,B",
        help="Of images of three channels: the model takes (image - mean) / std, the image's values between 0 and 1.",
    ),
]
Std = Annotated[
    str, typer.Option(metavar="R,G,B", help="`--mean 0 --std 1` for a model that takes images as they are.")
]
Update = Annotated[
    bool, typer.Option("--update", help="Write tt/config.py again and leave all other files as they are.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace files that were edited, too.")]
NoTests = Annotated[bool, typer.Option("--no-tests", help="Do not run the tests of the folder at the end.")]


def bringup(
    model: Model,
    inputs: Input = None,
    weights: WeightsFile = None,
    card: Card = None,
    folder: Folder = None,
    budget: BudgetOption = "20s",
    min_pcc: MinPcc = 0.99,
    mean: Mean = "0.485,0.456,0.406",
    std: Std = "0.229,0.224,0.225",
    update: Update = False,
    overwrite: Overwrite = False,
    no_tests: NoTests = False,
) -> None:
    """Bring a PyTorch model up on a card: lowered, fitted, tuned, compared, and written as code to go on with.

    \b
    tt-cnn bringup net.py:Net --input 1x3x224x224
    tt-cnn bringup net.py:create --input 1x3x480x640 --weights net.safetensors --budget 2m
    tt-cnn bringup torchvision.models:resnet50 --input 16x3x224x224 --card p150 -o brought_up/resnet50
    tt-cnn bringup net.onnx                                     or net.pt2: the file says its inputs
    tt-cnn bringup net.py:Net --input 1x3x224x224 --update      only tt/config.py, after you edited the rest

    The folder has the code, its tests, a demo, a profile, and docs of the model: its card, graph and ops.
    Nothing that you edited is written over. Times are predicted. docs/bringup.md is the guide.
    """
    from tt_cnn.bringup.bring_up import CONFIG, BringUp
    from tt_cnn.bringup.chips import one_chip_of
    from tt_cnn.bringup.codegen.config_file import layers_named
    from tt_cnn.bringup.folder import GeneratedFolder
    from tt_cnn.bringup.inputs import Normalisation, input_shape, three_numbers
    from tt_cnn.bringup.sources import source_of
    from tt_cnn.cli.optimize import seconds_of
    from tt_cnn.virtual.devices.opening import option

    seconds = seconds_of(budget)
    asked = option("card", card)
    chip = one_chip_of(asked)
    if chip != asked:
        errors.print(f"each chip of {asked} runs the model: it is brought up on {chip}, which has one", markup=False)
    source, shapes = source_of(model, [input_shape(each) for each in inputs or ()])
    work = BringUp(
        source,
        shapes[0],
        chip,
        more_inputs=tuple(shapes[1:]),
        normalisation=Normalisation(three_numbers(mean, "--mean"), three_numbers(std, "--std")),
        min_pcc=min_pcc,
    )
    target = GeneratedFolder(folder or Path("out/bringup") / work.name)
    target.check_untouched([CONFIG] if update else None, overwrite)
    work.name = target.path.name
    if update and (target.path / CONFIG).is_file():
        work.written = layers_named((target.path / CONFIG).read_text(encoding="utf-8"))
    _run(work, weights, seconds)
    profile = _profiled(work)
    figures = _figures(work, profile)
    if update:
        target.write({CONFIG: work.config_text().encode()}, overwrite)
    else:
        work.write(target, figures, overwrite)
    _show(work, target, profile, figures)
    if not no_tests and not _tests_pass(target):
        raise typer.Exit(TESTS_FAILED)


def _run(work: BringUp, weights: Path | None, seconds: float) -> None:
    from tt_cnn.bringup.comparison import explain

    with _stage(work, "load", "loading the model"):
        work.load(weights)
    with _stage(work, "export", "exporting its graph"):
        work.export()
    with _stage(work, "lower", "lowering it to layers"):
        work.lower()
        work.describe()
    with _stage(work, "fit", f"fitting it into {work.card}, and comparing outputs with PyTorch"):
        work.fit()
    if seconds > 0:
        with _stage(work, "optimize", f"optimising for at most {seconds:g} s"):
            _optimize(work, seconds)
    with _stage(work, "compare", "comparing each layer with PyTorch"):
        report, points = work.compare()
        work.sections["Layers beside PyTorch"] = f"```\n{report}\n```\n\n{explain(report, points)}"


def _optimize(work: BringUp, seconds: float) -> None:
    from tt_cnn.cli.optimize_display import Display
    from tt_cnn.reports.words import counted

    with Display(errors) as display:
        result = work.optimize(seconds, display)
    if not result.verification.accurate:
        work.sections["Tuning"] = f"`tt-cnn optimize` for at most {seconds:g} s found nothing that is accurate enough."
        return
    before, after = result.before.prediction.device_ns, result.after.prediction.device_ns
    work.sections["Tuning"] = (
        f"`tt-cnn optimize` for at most {seconds:g} s: {before / 1e3:.0f} µs to {after / 1e3:.0f} µs on the device "
        f"(predicted), {counted(len(result.journal.attempts), 'attempt')}, {len(result.journal.kept)} kept."
    )


def _profiled(work: BringUp) -> Profile | None:
    """None where parts of the model run in torch: a plan knows nothing of them."""
    if work.facts.fallbacks:
        work.sections["Profile"] = "Parts of the model run in torch on the host; no profile was made."
        return None
    if work.more_inputs:
        work.sections["Profile"] = "A pipeline takes one input, and the model has several; no profile was made."
        return None
    with _stage(work, "profile", "profiling it"):
        return work.profile()


@contextmanager
def _stage(work: BringUp, name: str, words: str) -> Iterator[None]:
    """A line when it begins, and how long it took when it ends."""
    errors.print(f"{words} ...", markup=False, highlight=False)
    with work.timed(name):
        yield
    errors.print(f"  {work.seconds[name]:.1f} s", markup=False, highlight=False)


def _figures(work: BringUp, profile: Profile | None) -> dict[str, Any]:
    from tt_cnn.reports.records import between

    assert work.accuracy is not None and work.arithmetic is not None and work.program is not None
    figures: dict[str, Any] = {}
    for name, value in work.accuracy.pcc.items():
        own = work.accuracy.bfloat16.get(name)
        figures[f"PCC of {name}"] = f"{value:.5f}" + ("" if own is None else f" (PyTorch in bfloat16: {own:.5f})")
    for name, gate in work.accuracy.loose.items():
        figures[f"careful with {name}"] = (
            f"rounding to bfloat16 changes it in PyTorch, too, so it is held to a PCC of {gate:.3f} alone; places of "
            "largest values and thresholds are like that"
        )
    figures["arithmetic to begin with"] = work.arithmetic.name
    if profile is not None:
        figures["on the device, predicted"] = (
            f"{profile.device_ns / 1e3:.0f} µs, {profile.device_fps:.0f} fps{between(profile.device_fps_band)}"
        )
        figures["end to end, predicted"] = f"{profile.fps:.0f} fps{between(profile.fps_band)} with {profile.executor}"
        figures["steps"] = len(profile.rows)
        figures["L1 peak per core"] = f"{profile.l1_peak / 1024:.0f} of {profile.l1_size / 1024:.0f} KB"
        figures["needs"] = f"l1_small_size >= {profile.l1_small_needed}, trace_region_size >= {profile.trace_bytes}"
    elif work.prediction is not None:
        figures["kernels on the device, predicted"] = f"{work.prediction.device_ns / 1e3:.0f} µs"
    fallbacks = [note for note in work.program.notes if note.kind == "fallback"]
    figures["ops in torch on the host"] = len(fallbacks)
    figures["misfits that were mended"] = len(work.fitted.misfits) if work.fitted is not None else 0
    return figures


def _show(work: BringUp, target: GeneratedFolder, profile: Profile | None, figures: dict[str, Any]) -> None:
    assert work.accuracy is not None and work.fitted is not None
    lowest = min(work.accuracy.pcc, key=lambda name: work.accuracy.pcc[name])  # type: ignore[union-attr]
    state = "comes up" if work.accuracy.passed else "comes up, but NOT as accurately as it should"
    speed = (
        f", {profile.device_fps:.0f} fps on the device and {profile.fps:.0f} end to end, predicted" if profile else ""
    )
    say(
        f"{work.title} {'x'.join(map(str, work.input_shape))} {state} on {work.card}: "
        f"PCC at least {work.accuracy.pcc[lowest]:.5f} ({lowest}){speed}"
    )
    for key, value in figures.items():
        say(f"  {key}: {value}")
    for each in work.ops.fallbacks if work.ops is not None else ():
        moved = f"{each.bytes_to_host} B to the host and {each.bytes_to_card} B back"
        say(f"  in torch: {each.target} at {each.line or each.name}: {each.why}; {moved}")
    for misfit in work.fitted.misfits[:_MOST_MISFITS]:
        say(f"  did not fit: {misfit.layer}: {misfit.reason}")
        for layer, settings in misfit.changes.items():
            say(f"    mended: {layer}: {', '.join(f'{k}={_short(v)}' for k, v in settings.items())}")
    say(f"written to {target.path}/ in {sum(work.seconds.values()):.0f} s")
    shown = {
        "README.md": "what came out, and how to go on",
        "tt/model.py": "the model on the card",
        "tt/config.py": "how each layer runs: what to tune",
        "docs/graph.html": "every op, and what became of it",
        "profile/report.html": "predicted times of every step, and what would save some",
    }
    for name, words in shown.items():
        if (target.path / name).is_file():
            say(f"  {name:<20}  {words}")


def _short(value: Any) -> str:
    return str(getattr(value, "name", value)).split("\n")[0][:80]


def _tests_pass(target: GeneratedFolder) -> bool:
    """The folder's own tests, as its owner runs them; true where there is no pytest to run them with."""
    if find_spec("pytest") is None:
        errors.print(
            "the folder's tests were not run, since pytest is not installed: pip install pytest, and in "
            f"{target.path.parent}: python -m pytest {target.path.name}/tests",
            markup=False,
            highlight=False,
        )
        return True
    errors.print("running the folder's tests ...", markup=False, highlight=False)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-o",
        "addopts=",  # those of a project that the folder may be in
        "--rootdir",
        ".",
        f"{target.path.name}/tests",
    ]
    done = subprocess.run(
        command,
        cwd=target.path.parent,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    last = done.stdout.strip().split("\n")[-1]
    say(f"tests: {last}" if done.returncode == 0 else f"tests FAILED:\n{done.stdout}{done.stderr}")
    return done.returncode == 0
