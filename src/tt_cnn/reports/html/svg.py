# SPDX-License-Identifier: Apache-2.0
"""Small pieces of SVG and HTML. All text that comes from a model goes through `text`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from math import floor, log10


def text(value: object) -> str:
    """Escaped for elements and for attributes in double quotes."""
    return escape(str(value), quote=True)


def number(value: float) -> str:
    """A coordinate: short, and never in exponents."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if value % 1 else str(int(value))


def tag(name: str, content: str = "", **attributes: object) -> str:
    """An element; `class_` is `class`, underscores in names are hyphens."""
    said = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{number(value) if isinstance(value, float) else text(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{said}>{content}</{name}>"


def label(x: float, y: float, said: object, anchor: str = "start", class_: str = "tick", **more: object) -> str:
    return tag("text", text(said), x=float(x), y=float(y), text_anchor=anchor, class_=class_, **more)


def line(x1: float, y1: float, x2: float, y2: float, class_: str = "grid") -> str:
    return tag("line", x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), class_=class_)


def picture(width: float, height: float, content: str, title: str, class_: str = "", **more: object) -> str:
    """An SVG that is as wide as it can be but no wider than drawn."""
    size = f"0 0 {number(width)} {number(height)}"
    inside = tag("title", text(title)) + content
    return tag("svg", inside, viewBox=size, width=float(width), height=float(height), role="img", class_=class_, **more)


def axis(width: float, height: float, labels: Iterable[str]) -> str:
    """Labels beside a chart that scrolls; they stay where they are."""
    size = f"0 0 {number(width)} {number(height)}"
    return tag(
        "svg",
        "".join(labels),
        viewBox=size,
        width=float(width),
        height=float(height),
        class_="axis",
        aria_hidden="true",
    )


def plot(width: float, height: float, content: Iterable[str], title: str, **more: object) -> str:
    """A chart between axes: in print it is made as narrow as the paper, and not lower."""
    wide = "wide" if width > WIDE else ""
    return picture(width, height, "".join(content), title, class_=wide, preserveAspectRatio="none", **more)


WIDE = 1000.0
"""Points; a chart that is wider loses the numbers of its steps in print."""


def table(headings: Sequence[str], rows: Iterable[Sequence[object]], caption: str, numeric_from: int = 1) -> str:
    """Cells from `numeric_from` on are numbers, set to the right."""
    head = "".join(
        tag("th", text(h), scope="col", class_="n" if i >= numeric_from else None) for i, h in _numbered(headings)
    )
    body = "".join(
        tag(
            "tr",
            "".join(
                tag("td", text(cell), class_="n" if i >= numeric_from else None)
                if i
                else tag("th", text(cell), scope="row")
                for i, cell in _numbered(row)
            ),
        )
        for row in rows
    )
    inside = tag("caption", text(caption)) + tag("thead", tag("tr", head)) + tag("tbody", body)
    return tag("div", tag("table", inside), class_="scroll", tabindex=0, role="region", aria_label=caption)


def as_table(summary: str, content: str) -> str:
    """A chart's numbers, folded away at first."""
    return tag("details", tag("summary", text(summary)) + content)


def _numbered(items: Sequence[object]) -> list[tuple[int, object]]:
    return list(enumerate(items))


def round_steps(highest: float, count: int = 4) -> list[float]:
    """Round numbers from 0 to at least `highest`."""
    if highest <= 0:
        return [0.0, 1.0]
    rough = highest / count
    size = 10 ** floor(log10(rough))
    step = next(m * size for m in (1, 2, 2.5, 5, 10) if m * size >= rough * (1 - 1e-9))
    steps = [0.0]
    while steps[-1] < highest * (1 - 1e-9):
        steps.append(steps[-1] + step)
    return steps


def short(value: float) -> str:
    """A number for an axis."""
    return f"{value:,.0f}".replace(",", " ") if value >= 10 or value == int(value) else f"{value:g}"
