# SPDX-License-Identifier: Apache-2.0
"""The `tt-cnn` command: one file a subcommand, put together here."""

from __future__ import annotations

import sys
import warnings
from typing import Annotated

import typer

import tt_cnn
from tt_cnn.cli import (
    bench,
    bringup,
    compare,
    completion,
    conformance,
    demo,
    devices,
    diff,
    doctor,
    evaluate,
    memory,
    operations,
    optimize,
    profile,
    run,
    serve,
    visualize,
    weights,
    zoo,
)
from tt_cnn.cli.console import errors, say
from tt_cnn.cli.ray_options import RayCommand
from tt_cnn.runtime import plan_on_the_virtual_card

INTERRUPTED = 130

app = typer.Typer(
    name="tt-cnn",
    help=(
        "Vision models on Tenstorrent cards, with a virtual card that runs anywhere.\n\n"
        "Start with:\n\n\b\n"
        "tt-cnn demo       two models brought up on a virtual card, with annotated images\n"
        "tt-cnn devices    the cards there are, and which TT-NN is in use\n"
        "tt-cnn ops        the ops that the virtual card has"
    ),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("bench")(bench.bench)
app.command("bringup")(bringup.bringup)
app.command("compare")(compare.compare)
app.command("completion")(completion.completion)
app.command("complete", hidden=True)(completion.complete)
app.command("conformance")(conformance.conformance)
app.command("demo")(demo.demo)
app.command("devices")(devices.devices)
app.command("diff")(diff.diff)
app.command("doctor")(doctor.doctor)
app.command("evaluate", cls=RayCommand)(evaluate.evaluate)
app.command("memory")(memory.memory)
app.command("ops")(operations.operations)
app.command("optimize", cls=RayCommand)(optimize.optimize)
app.command("profile")(profile.profile)
app.command(
    "run", cls=run.RunCommand, context_settings={"allow_interspersed_args": False, "ignore_unknown_options": True}
)(run.run)
app.command("serve", cls=RayCommand)(serve.serve)
app.command("visualize")(visualize.visualize)
app.command("weights")(weights.weights)
app.command("zoo")(zoo.zoo)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tt-cnn {tt_cnn.__version__}, imitating TT-NN 0.81.1")
        raise typer.Exit


PLANNING = {"bench", "bringup", "compare", "memory", "profile"}
"""Commands that plan, predict or replay: a card that is there changes nothing in them."""


@app.callback()
def options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    """Options of every command."""
    if context.invoked_subcommand in PLANNING:
        plan_on_the_virtual_card()


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """A sentence: where in the source it comes from is nothing to a user of the command."""
    say(f"tt-cnn: {message}", console=errors)


def main() -> None:
    """Run the command; a user's mistake is a sentence, not a traceback."""
    warnings.showwarning = _show_warning
    try:
        app(standalone_mode=True)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except (ValueError, RuntimeError, OSError, ImportError) as error:
        say(f"tt-cnn: {error}", console=errors)
        sys.exit(1)
