"""The `tt-cnn` command: one file a subcommand, put together here."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import typer

from tt_cnn.cli import conformance, demo, devices, operations
from tt_cnn.cli.console import errors

INTERRUPTED = 130

app = typer.Typer(
    name="tt-cnn",
    help=(
        "Vision models on Tenstorrent cards, with a virtual card that runs anywhere.\n\n"
        "Start with `tt-cnn devices` to see which cards there are and which TT-NN is in use, and `tt-cnn ops` to see "
        "which ops the virtual card has."
    ),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("conformance")(conformance.conformance)
app.command("demo")(demo.demo)
app.command("devices")(devices.devices)
app.command("ops")(operations.operations)


def installed_version() -> str:
    try:
        return version("tt-cnn")
    except PackageNotFoundError:
        return "unknown (not installed)"


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tt-cnn {installed_version()}, imitating TT-NN 0.81.1")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    """Options of every command."""


def main() -> None:
    """Run the command; a user's mistake is a sentence, not a traceback."""
    try:
        app(standalone_mode=True)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except (ValueError, RuntimeError, OSError, ImportError) as error:
        errors.print(f"tt-cnn: {error}", markup=False, highlight=False)
        sys.exit(1)
