# SPDX-License-Identifier: Apache-2.0
"""Rows of `zoo.py` as a page in Markdown, and as one in HTML that can be sorted and filtered."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import Any

Row = dict[str, Any]
HEADINGS = (
    "architecture",
    "family",
    "task",
    "card",
    "input",
    "lowest PCC",
    "device fps, batch 1",
    "fps, batch 1",
    "best batch",
    "device fps, best batch",
    "fps, best batch",
    "published device fps",
    "L1 peak, KB",
    "l1_small_size",
    "trace_region_size",
    "in torch",
    "multiply-adds, G",
    "parameters, M",
    "seconds",
)
TEXTS = 5
"""So many columns are words; the others are numbers."""
CHOSEN_BY = ("family", "task", "card")
"""What the page has menus for."""
ABOUT = (
    "Made by `python benchmarks/zoo.py --write`: every architecture brought up without the optimiser, on seeded "
    "weights. All times are predicted; nothing was measured on a card. In parentheses: where eight of ten such models "
    "would be. `fps` is end to end behind `trace+2cq`, of all chips of the card. PCC and memory are those of batch 1; "
    "another batch has its arithmetic. Seconds are those of one core beside other work. On n300 each chip runs what "
    "was brought up on n150. `python benchmarks/zoo.py NAME --card CARD` makes a row again, and `tt-cnn compare "
    "zoo:NAME --card CARD` its rates."
)


def cells(row: Row) -> list[str]:
    """One for each heading; of a row that failed only the first, and why."""
    first = [row["name"], row["family"], row["task"], row["card"], row["input"]]
    if "failed" in row:
        return [*first, f"fails in {row['failed']}"]
    missed = "" if row["passed"] else ", below its gate"
    first.append(f"{min(row['pcc'].values()):.4f}{missed}")
    rates = ["-"] * 5
    if "rates" in row:
        best = row["rates"][str(row["best_batch"])]
        rates = [*_rates(row), str(row["best_batch"]), *_rates(best)]
    return [
        *first,
        *rates,
        row.get("published", "-"),
        f"{row['l1_peak'] / 1024:.0f}",
        str(row.get("l1_small_size", "-")),
        str(row.get("trace_region_size", "-")),
        str(len(row["fallbacks"])),
        f"{row['macs'] / 1e9:.2f}" if "macs" in row else "-",
        f"{row['parameters'] / 1e6:.2f}" if "parameters" in row else "-",
        f"{sum(row['seconds'].values()):.0f}",
    ]


def _rates(row: Row) -> list[str]:
    found = []
    for key in ("device_fps", "fps"):
        low, high = row[f"{key}_band"]
        found.append(f"{row[key]:.0f} ({low:.0f} to {high:.0f})")
    return found


def markdown_page(rows: Sequence[Row], published: Sequence[str] = ()) -> str:
    """`published` are the lines of a table of our models beside published rates."""
    lines = ["# The zoo on cards", "", ABOUT, "", "[The same as a page](zoo.html) that can be sorted and filtered.", ""]
    lines += [f"| {' | '.join(HEADINGS)} |", "|" + "---|" * TEXTS + "---:|" * (len(HEADINGS) - TEXTS)]
    for row in rows:
        found = [cell.replace("|", "/") for cell in cells(row)]
        lines.append(f"| {' | '.join([*found, *['-'] * (len(HEADINGS) - len(found))])} |")
    came = [row for row in rows if "failed" not in row]
    leaving = sum(bool(row["fallbacks"]) for row in came)
    names = len({row["name"] for row in rows})
    lines += [
        "",
        f"{len(rows)} rows of {names} architectures, {len(rows) - len(came)} failed, {leaving} with ops in torch.",
    ]
    if published:
        lines += ["", "## Beside published rates", "", *published]
    return "\n".join(lines) + "\n"


def html_page(rows: Sequence[Row]) -> str:
    head = "".join(f"<th>{escape(each)}</th>" for each in HEADINGS)
    body = "\n".join(_html_row(row) for row in rows)
    menus = "\n".join(_menu(rows, name) for name in CHOSEN_BY)
    about = escape(ABOUT).replace("`", "")
    parts = {"about": about, "menus": menus, "head": head, "body": body, "texts": str(TEXTS)}
    return re.sub(r"\{(about|menus|head|body|texts)\}", lambda part: parts[part[1]], _PAGE)


def _menu(rows: Sequence[Row], name: str) -> str:
    """Of all that a column has."""
    column = HEADINGS.index(name)
    options = "".join(f"<option>{escape(each)}</option>" for each in sorted({row[name] for row in rows}))
    return (
        f'<select data-column="{column}" aria-label="{name}"><option value="">every {name}</option>{options}</select>'
    )


def _html_row(row: Row) -> str:
    found = cells(row)
    shown = []
    for index, cell in enumerate(found):
        last = index == len(found) - 1 and len(found) < len(HEADINGS)
        span = f' colspan="{len(HEADINGS) - len(found) + 1}"' if last else ""
        kind = ' class="n"' if index >= TEXTS and not last else ""
        shown.append(f"<td{kind}{span}>{escape(cell)}</td>")
    return f'<tr title="{escape(row["command"])}">{"".join(shown)}</tr>'


_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>The zoo on cards</title>
<style>
body { font: 14px system-ui, sans-serif; margin: 2em; color: #222; background: #fff }
table { border-collapse: collapse } td, th { padding: .2em .6em; border-bottom: 1px solid #ddd; text-align: left }
th { cursor: pointer; position: sticky; top: 0; background: #eee } td.n { text-align: right; white-space: nowrap }
input, select { font: inherit; padding: .3em } input { width: 24em } p { max-width: 60em }
</style>
<h1>The zoo on cards</h1>
<p>{about}</p>
<p><input id="filter" placeholder="filter: resnet n150" aria-label="filter">
{menus}
<span id="count"></span></p>
<table><thead><tr>{head}</tr></thead><tbody>
{body}
</tbody></table>
<script>
const body = document.querySelector("tbody"), rows = [...body.rows], field = document.getElementById("filter");
const menus = [...document.querySelectorAll("select")];
function filter() {
  const words = field.value.toLowerCase().split(/\\s+/).filter(Boolean);
  let shown = 0;
  for (const row of rows) {
    const chosen = menus.every(menu => !menu.value || row.cells[menu.dataset.column].textContent === menu.value);
    row.hidden = !(chosen && words.every(word => row.textContent.toLowerCase().includes(word)));
    shown += !row.hidden;
  }
  document.getElementById("count").textContent = shown + " of " + rows.length;
}
let last = -1, down = false;
document.querySelectorAll("th").forEach((heading, index) => heading.addEventListener("click", () => {
  down = index === last ? !down : false;
  last = index;
  const text = row => (row.cells[index] || { textContent: "" }).textContent;
  rows.sort((a, b) => {
    const x = parseFloat(text(a)), y = parseFloat(text(b));
    if (index < {texts}) return (down ? -1 : 1) * text(a).localeCompare(text(b));
    if (isNaN(x) || isNaN(y)) return isNaN(x) - isNaN(y);
    return down ? y - x : x - y;
  });
  body.append(...rows);
}));
field.addEventListener("input", filter);
menus.forEach(menu => menu.addEventListener("change", filter));
filter();
</script>
</html>
"""
