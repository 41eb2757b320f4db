# SPDX-License-Identifier: Apache-2.0
"""The command in a terminal of a given width: a pseudo-terminal of the system, not a stand-in."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import sys
import termios
from pathlib import Path

_SOURCE = str(Path(__file__).parents[2] / "src")


def in_terminal(columns: int, *arguments: str, status: int = 0) -> list[str]:
    """The lines that `tt-cnn` shows there, without colours; it must end with the status."""
    child, controller = pty.fork()
    if child == 0:  # pragma: no cover
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        shown = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        environment = {**shown, "PYTHONPATH": _SOURCE, "TERM": "xterm-256color"}
        os.execve(sys.executable, [sys.executable, "-m", "tt_cnn.cli", *arguments], environment)
    output = b""
    try:
        while data := os.read(controller, 65536):
            output += data
    except OSError:  # Linux's word for the end
        pass
    os.close(controller)
    _, ended = os.waitpid(child, 0)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output.decode()).replace("\r\n", "\n")
    assert os.waitstatus_to_exitcode(ended) == status, text
    return text.splitlines()
