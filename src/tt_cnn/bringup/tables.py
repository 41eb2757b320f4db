# SPDX-License-Identifier: Apache-2.0
"""Tables for terminals and for Markdown. Nothing is cut: a cell is as wide as what stands in it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

Row = Sequence[str]


def text_table(headings: Row, rows: Iterable[Row], right: Collection[str] = ()) -> str:
    """Columns under their headings; those named in `right` hold numbers. Columns without content are left out."""
    lines = [tuple(_one_line(cell) for cell in row) for row in rows]
    kept = [place for place in range(len(headings)) if not lines or any(line[place] for line in lines)]
    widths = {place: max(len(headings[place]), *(len(line[place]) for line in lines), 0) for place in kept}

    def laid_out(line: Row) -> str:
        cells = (
            line[place].rjust(widths[place]) if headings[place] in right else line[place].ljust(widths[place])
            for place in kept
        )
        return "  ".join(cells).rstrip()

    return "\n".join(
        [laid_out(headings), laid_out(["-" * widths.get(i, 0) for i in range(len(headings))])]
        + [laid_out(line) for line in lines]
    )


def markdown_table(headings: Row, rows: Iterable[Row], right: Collection[str] = ()) -> str:
    return "\n".join(
        [
            "| " + " | ".join(headings) + " |",
            "|" + "".join("---:|" if heading in right else "---|" for heading in headings),
            *("| " + " | ".join(map(markdown, row)) + " |" for row in rows),
        ]
    )


def markdown(text: str) -> str:
    """Safe in a Markdown table, and as HTML where Markdown is turned into it: names come from users."""
    plain = _one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    plain = re.sub(r"([\\|`*\[\]])", r"\\\1", plain)
    return re.sub(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\_", plain)  # inside of words it is no emphasis


def fenced(text: str, language: str = "") -> str:
    """A block of code in Markdown, whatever quotes it holds."""
    longest = 2
    for line in text.splitlines():
        stripped = line.lstrip()
        longest = max(longest, len(stripped) - len(stripped.lstrip("`")))
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def count(number: int) -> str:
    """25.56 M."""
    for size, unit in ((1e9, "G"), (1e6, "M")):
        if number >= size:
            return f"{number / size:.2f} {unit}"
    return f"{number:,}"


def _one_line(text: str) -> str:
    return " ".join(text.split())
