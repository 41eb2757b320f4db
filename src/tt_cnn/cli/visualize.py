# SPDX-License-Identifier: Apache-2.0
"""`tt-cnn visualize`: a profile in the browser."""

from __future__ import annotations

import threading
import webbrowser
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from tt_cnn.cli.console import say

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="A folder that tt-cnn profile wrote.")]
Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="Port of the report; 0 takes a free one.")]
NoBrowser = Annotated[bool, typer.Option("--no-browser", help="Print the addresses and open nothing.")]
NoVisualizer = Annotated[bool, typer.Option("--no-visualizer", help="Show the report alone.")]


def visualize(
    folder: Folder, port: Port = 0, no_browser: NoBrowser = False, no_visualizer: NoVisualizer = False
) -> None:
    """Show a profile: its report, and ttnn-visualizer on its database where that is installed.

    Both are served on the loopback address alone, until Ctrl-C.

    Example: tt-cnn visualize out/profile/yolov4-n150
    """
    from tt_cnn.reports.profile_folder import REPORT
    from tt_cnn.reports.serving import ReportServer, Visualizer, visualizer_command

    if not (folder / REPORT).is_file():
        raise ValueError(f"{folder} has no {REPORT}; `tt-cnn profile MODEL -o DIR` makes a folder that has")
    command = None if no_visualizer else visualizer_command()
    try:
        with ExitStack() as shown:
            report = shown.enter_context(ReportServer(folder, REPORT, port))
            say(f"report      {report.url}")
            if command is not None:
                visualizer = shown.enter_context(Visualizer(folder, command))
                say(f"visualizer  {visualizer.url}")
            elif not no_visualizer:
                say("visualizer  not installed; pip install 'tt-cnn[reports]'")
            say("Ctrl-C ends it")
            if not no_browser:
                webbrowser.open(report.url)
            threading.Event().wait()
    except KeyboardInterrupt:  # at any moment: all that was started has ended
        say("")
