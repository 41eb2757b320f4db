# SPDX-License-Identifier: Apache-2.0
"""What the commands with limits have in common: their options, a line per miss, the files, the exit status."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tt_cnn.cli.console import errors, say

if TYPE_CHECKING:
    from tt_cnn.reports.gate import Verdict

MISSED = 1

Markdown = Annotated[
    str | None,
    typer.Option("--markdown", metavar="FILE", help="Add a table for a pull request to FILE; - prints it."),
]
Junit = Annotated[
    Path | None, typer.Option("--junit", metavar="FILE", help="Write the limits as a JUnit report, one case each.")
]


@dataclass
class Gate:
    """Where the verdicts go. Made before anything is measured: a file that cannot be written is reported at once."""

    markdown: str | None
    junit: Path | None
    start: float = field(default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        files = [self.junit, Path(self.markdown) if self.markdown not in (None, "-") else None]
        for file in filter(None, files):
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.open("a").close()
            except OSError as error:
                raise ValueError(f"{file} cannot be written ({error.strerror}); name another file") from error

    def finish(self, title: str, verdicts: Sequence[Verdict], figures: Sequence[tuple[str, str]]) -> None:
        """Say what was missed, write the files, and end with status 1 where something was."""
        from tt_cnn.reports.gate import verdicts_junit, verdicts_markdown

        if self.markdown is not None:
            table = verdicts_markdown(title, figures, verdicts)
            if self.markdown == "-":
                print(table)
            else:
                with Path(self.markdown).open("a", encoding="utf-8") as file:
                    file.write(table)
        if self.junit is not None:
            seconds = time.perf_counter() - self.start
            self.junit.write_text(verdicts_junit(title, verdicts, seconds), encoding="utf-8")
        missed = [one for one in verdicts if not one.passed]
        for one in missed:
            say(f"missed  {one}", console=errors)
        if missed:
            raise typer.Exit(MISSED)
        if verdicts:
            say(f"all limits are kept: {'; '.join(f'{one.what} {one.found}' for one in verdicts)}", console=errors)
