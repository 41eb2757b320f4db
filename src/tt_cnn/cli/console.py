# SPDX-License-Identifier: Apache-2.0
"""Where the commands write: answers to stdout, progress and complaints to stderr."""

import sys

from rich.console import Console

_WIDE = 160
"""Columns where no terminal says how wide it is: tables in files and pipes are not broken."""

output = Console(width=None if sys.stdout.isatty() else _WIDE)
errors = Console(stderr=True, width=None if sys.stderr.isatty() else _WIDE)


def say(text: str, style: str = "", console: Console = output) -> None:
    """A line of plain text: wrapped between words on a terminal, and one line in files and pipes."""
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=not console.is_terminal)
