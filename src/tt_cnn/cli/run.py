# SPDX-License-Identifier: Apache-2.0
"""`tt-cnn run`: a user's TT-NN code, unchanged, on the virtual card; or a model over many images, by Ray."""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from tt_cnn.cli.console import errors
from tt_cnn.cli.model_options import Executor, Precision, Resolution, Weights
from tt_cnn.cli.ray_options import FLAG, Actors, Ray, RayCommand, Threads, ray_place, with_addresses

PLUGIN = "tt_cnn.testing.plugin"

Target = Annotated[
    list[str],
    typer.Argument(
        metavar="SCRIPT|-m MODULE [ARGUMENTS]",
        help="What Python would be given; with --ray a MODEL, and a FOLDER of images or a PARQUET file.",
    ),
]
Card = Annotated[str | None, typer.Option("--card", help="The card to imitate: n150, n300, p150, ...")]
Root = Annotated[
    Path | None, typer.Option("--root", help="The folder that `models` and `tests` are imported from; here by default.")
]
Helpers = Annotated[
    str,
    typer.Option(
        "--helpers",
        help="Which of TT-CNN's modules and test helpers are replaced: `missing` ones, `all`, or `none`.",
    ),
]


Output = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        metavar="OUT",
        help="With --ray: the folder for predictions in Parquet, or a file NAME.json for COCO's format.",
    ),
]
Threshold = Annotated[
    float | None,
    typer.Option("--threshold", min=0, max=1, help="With --ray: confidence from which on a thing counts as found."),
]


class RunCommand(RayCommand):
    """What follows a script is the script's; what follows a model is ours."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given, _, _ = self.make_parser(ctx).parse_args(args=with_addresses(args))
        target = given.get("target") or [""]
        named_later = any(text == FLAG or text.startswith(f"{FLAG}=") for text in target)
        if "ray" in given or (named_later and target[0] != "-m" and not Path(target[0]).is_file()):
            ctx.allow_interspersed_args, ctx.ignore_unknown_options = True, False
            return super().parse_args(ctx, args)
        return TyperCommand.parse_args(self, ctx, args)  # as they are: a `--ray` in there is the script's


def run(
    target: Target,
    card: Card = None,
    root: Root = None,
    helpers: Helpers = "missing",
    ray: Ray = None,
    actors: Actors = None,
    threads: Threads = None,
    output: Output = None,
    threshold: Threshold = None,
    weights: Weights = None,
    executor: Executor = "trace+2cq",
    precision: Precision = "tuned",
    resolution: Resolution = None,
) -> None:
    """Run a script or a module whose `import ttnn` is to give the virtual card; or a model over images, by Ray.

    Nothing in a script is changed. Options come first; all that follows the script is its own.

    Examples: tt-cnn run demo.py --batch 8, tt-cnn run --card p150 -m pytest models/demos/vgg/tests/pcc

    With --ray a model says what is in images: in a folder, or in the column `image` of Parquet files. Each actor has
    a card. Given again after an end in its midst, the command does what is left. Images that cannot be read are
    reported and left out, and the exit status is 1.

    Examples: tt-cnn run yolov4 images/ --ray -o found.json, tt-cnn run resnet50 images.parquet --ray -o classes/
    """
    place = ray_place(ray, actors, threads)
    if place is not None:
        from tt_cnn.cli.run_model import run_model

        options = {"card": card, "executor": executor, "precision": precision, "resolution": resolution}
        run_model(target, output, place, weights, threshold, options)
        return
    if output is not None or threshold is not None:
        raise typer.BadParameter(f"--output and --threshold belong to a model with {FLAG}, which is not there")
    if helpers not in _HELPERS:
        errors.print(f"--helpers is {helpers}; it is one of {', '.join(_HELPERS)}", markup=False)
        raise typer.Exit(2)
    folder = str((root or Path.cwd()).resolve())
    if not Path(folder).is_dir():
        errors.print(f"--root is {folder}: no such folder", markup=False)
        raise typer.Exit(2)
    if card is not None:
        os.environ["TT_CNN_CARD"] = card
    os.environ["TT_CNN_RUNTIME"] = "virtual"
    from tt_cnn import compat

    sys.path.insert(0, folder)
    compat.install(everything=_HELPERS[helpers])  # type: ignore[arg-type]
    if target[0] == "-m":
        _run_module(target[1:], folder)
    else:
        _run_script(target)


_HELPERS = {"missing": "missing", "all": True, "none": False}


def _run_module(arguments: list[str], folder: str) -> None:
    if not arguments:
        errors.print("-m needs the name of a module", markup=False)
        raise typer.Exit(2)
    module, *rest = arguments
    if module == "pytest" and not _has_fixtures(Path(folder, "conftest.py")):
        rest = ["-p", PLUGIN, *rest]  # with the fixtures that TT-NN's tests ask for
    sys.argv = [module, *rest]
    _with_traceback(lambda: runpy.run_module(module, run_name="__main__", alter_sys=True))


def _has_fixtures(conftest: Path) -> bool:
    """Whether a folder opens devices itself, as TT-NN's own does: its option and ours would be in each other's way."""
    return conftest.is_file() and "--device-id" in conftest.read_text(errors="replace")


def _run_script(arguments: list[str]) -> None:
    script = Path(arguments[0])
    if not script.is_file():
        errors.print(f"{script}: no such file", markup=False)
        raise typer.Exit(2)
    sys.path.insert(0, str(script.resolve().parent))
    sys.argv = list(arguments)
    _with_traceback(lambda: runpy.run_path(str(script), run_name="__main__"))


def _with_traceback(code: Callable[[], object]) -> None:
    """Errors of the user's code are not ours: they end as Python would end them."""
    try:
        code()
    except Exception:
        traceback.print_exc()
        raise typer.Exit(1) from None
