# SPDX-License-Identifier: Apache-2.0
"""The one maker of tables: as wide as the terminal is, and nothing in them is ever cut.

A table that is too wide gives up columns that are marked for it, the most expendable first. One that is still too
wide folds its long texts, and where that does not do it either, each row becomes a block of `heading value` lines
with all columns. Where no terminal says how wide it is, tables are as wide as they need to be.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tt_cnn.cli.console import output

_NARROWEST_TEXT = 24
"""Characters that a folded column keeps: in less, an address or a sentence takes too many lines."""
_BETWEEN = 3
"""Border and padding of a column."""


@dataclass(frozen=True)
class Column:
    heading: str
    right: bool = False
    """For numbers."""
    expendable: int = 0
    """Columns with a greater number are given up earlier; those with 0 tell rows apart, or are the answer."""
    folds: bool = False
    """Long texts that may be broken over lines."""


@dataclass
class Listing:
    """Rows under headings. `show` prints them in the form that fits."""

    columns: tuple[Column, ...]
    title: str = ""
    keys: int = 1
    """So many of the first columns name a row: they head its block."""
    rows: list[tuple[str, ...]] = field(default_factory=list)
    bold: set[int] = field(default_factory=set)
    dim: set[int] = field(default_factory=set)
    sections: set[int] = field(default_factory=set)
    """Rows with a line under them."""

    def add(self, *cells: str, bold: bool = False, dim: bool = False) -> None:
        """A row; cells that are left out are empty."""
        if len(cells) > len(self.columns):
            raise ValueError(f"a row has {len(cells)} cells, and there are {len(self.columns)} columns")
        if bold:
            self.bold.add(len(self.rows))
        if dim:
            self.dim.add(len(self.rows))
        self.rows.append((*cells, *[""] * (len(self.columns) - len(cells))))

    def add_section(self) -> None:
        self.sections.add(len(self.rows) - 1)

    def show(self, console: Console = output) -> None:
        if not console.is_terminal:
            room = max(console.width, self._needed(range(len(self.columns))))
            console = Console(file=console.file, width=room)
        room = console.width
        shown = self._columns_that_fit(room)
        if shown is None:
            self._show_blocks(console)
            return
        console.print(self._table(shown, room))
        left_out = [one.heading for i, one in enumerate(self.columns) if i not in shown]
        if left_out:
            said = f"not shown, {room} columns are too few: {', '.join(left_out)}"
            console.print(said, style="dim", markup=False, highlight=False)

    def _columns_that_fit(self, room: int) -> list[int] | None:
        """None where the rows have to be blocks."""
        shown = list(range(len(self.columns)))
        while self._needed(shown, folded=True) > room:
            given_up = max(shown, key=lambda i: (self.columns[i].expendable, i))
            if not self.columns[given_up].expendable:
                return None
            shown.remove(given_up)
        return shown

    def _needed(self, shown: list[int] | range, folded: bool = False) -> int:
        return sum(self._width(i, folded) + _BETWEEN for i in shown) + 1

    def _width(self, i: int, folded: bool) -> int:
        """Of a column whose heading is broken between words, if it is broken at all."""
        widest = max((cell_len(line) for row in self.rows for line in row[i].split("\n")), default=0)
        if folded and self.columns[i].folds:
            widest = min(widest, _NARROWEST_TEXT)
        return max(widest, *(cell_len(word) for word in self.columns[i].heading.split() or [""]))

    def _table(self, shown: list[int], room: int) -> Table:
        table = Table(
            title=Text(self.title) if self.title else None, title_justify="left", box=box.HEAVY_HEAD, highlight=False
        )
        spare = room - self._needed(shown, folded=True)
        for i in shown:
            one = self.columns[i]
            least = self._width(i, folded=True)
            wish = max(self._width(i, folded=False), cell_len(one.heading)) - least
            given = min(wish, max(spare, 0))
            spare -= given
            table.add_column(
                Text(one.heading), justify="right" if one.right else "left", width=least + given, overflow="fold"
            )
        for number, row in enumerate(self.rows):
            style = "bold" if number in self.bold else "dim" if number in self.dim else None
            table.add_row(*(Text(row[i]) for i in shown), style=style, end_section=number in self.sections)
        return table

    def _show_blocks(self, console: Console) -> None:
        if self.title:
            console.print(self.title, style="italic", markup=False, highlight=False)
        rest = range(self.keys, len(self.columns))
        width = max((cell_len(self.columns[i].heading) for i in rest), default=0)
        for row in self.rows:
            head = " ".join(row[i].replace("\n", " ") for i in range(self.keys) if row[i])
            console.print(head, style="bold", markup=False, highlight=False, soft_wrap=True)
            for i in rest:
                if row[i]:
                    value = row[i].replace("\n", " ")
                    line = f"  {self.columns[i].heading:<{width}}  {value}"
                    console.print(line, markup=False, highlight=False, soft_wrap=True)


def texts(*headings: str, folds: bool = False) -> list[Column]:
    """Columns that are read as words."""
    return [Column(heading, folds=folds) for heading in headings]


def numbers(*headings: str) -> list[Column]:
    """Columns of figures."""
    return [Column(heading, right=True) for heading in headings]
