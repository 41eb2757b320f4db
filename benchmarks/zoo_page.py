# SPDX-License-Identifier: Apache-2.0
"""Rows of `zoo.py` as a page in Markdown, and as one in HTML that can be sorted and filtered."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

Row = dict[str, Any]
HEADINGS = (
    "architecture",
    "task",
    "card",
    "input",
    "lowest PCC",
    "device fps, batch 1",
    "fps, batch 1",
    "best batch",
    "device fps, best batch",
    "fps, best batch",
    "L1 peak, KB",
    "l1_small_size",
    "trace_region_size",
    "in torch",
    "multiply-adds, G",
    "parameters, M",
    "seconds",
)
TEXTS = 4
"""So many columns are words; the others are numbers."""
ABOUT = (
    "Made by `python benchmarks/zoo.py --all --write`: every architecture brought up without the optimiser, on seeded "
    "weights. All times are predicted; nothing was measured on a card. In parentheses: where eight of ten such models "
    "would be. `fps` is end to end behind `trace+2cq`, of all chips of the card. `python benchmarks/zoo.py NAME --card "
    "CARD` makes a row again, and `tt-cnn compare zoo:NAME --card CARD` its rates."
)


def cells(row: Row) -> list[str]:
    """One for each heading; of a row that failed only the first, and why."""
    first = [row["name"], row["task"], row["card"], row["input"]]
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
        f"{row['l1_peak'] / 1024:.0f}",
        str(row.get("l1_small_size", "-")),
        str(row.get("trace_region_size", "-")),
        str(len(row["fallbacks"])),
        f"{row['macs'] / 1e9:.2f}" if "macs" in row else "-",
        f"{row['parameters'] / 1e6:.2f}" if "parameters" in row else "-",
        f"{sum(row['seconds'].values()) + row.get('batches_seconds', 0):.0f}",
    ]


def _rates(row: Row) -> list[str]:
    found = []
    for key in ("device_fps", "fps"):
        low, high = row[f"{key}_band"]
        found.append(f"{row[key]:.0f} ({low:.0f} to {high:.0f})")
    return found


def markdown_page(rows: Sequence[Row]) -> str:
    lines = ["# The zoo on cards", "", ABOUT, "", "[The same as a page](zoo.html) that can be sorted and filtered.", ""]
    lines += [f"| {' | '.join(HEADINGS)} |", "|" + "---|" * TEXTS + "---:|" * (len(HEADINGS) - TEXTS)]
    for row in rows:
        found = [cell.replace("|", "/") for cell in cells(row)]
        lines.append(f"| {' | '.join([*found, *['-'] * (len(HEADINGS) - len(found))])} |")
    came = [row for row in rows if "failed" not in row]
    leaving = sum(bool(row["fallbacks"]) for row in came)
    lines += ["", f"{len(rows)} rows, {len(rows) - len(came)} failed, {leaving} with ops in torch."]
    return "\n".join(lines) + "\n"


def html_page(rows: Sequence[Row]) -> str:
    head = "".join(f"<th>{escape(each)}</th>" for each in HEADINGS)
    body = "\n".join(_html_row(row) for row in rows)
    about = escape(ABOUT).replace("`", "")
    return _PAGE.replace("{about}", about).replace("{head}", head).replace("{body}", body)


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
input { font: inherit; padding: .3em; width: 24em } p { max-width: 60em }
</style>
<h1>The zoo on cards</h1>
<p>{about}</p>
<p><input id="filter" placeholder="filter: n150 classification" aria-label="filter"> <span id="count"></span></p>
<table><thead><tr>{head}</tr></thead><tbody>
{body}
</tbody></table>
<script>
const body = document.querySelector("tbody"), rows = [...body.rows], field = document.getElementById("filter");
function filter() {
  const words = field.value.toLowerCase().split(/\\s+/).filter(Boolean);
  let shown = 0;
  for (const row of rows) {
    row.hidden = !words.every(word => row.textContent.toLowerCase().includes(word));
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
    if (index < 4) return (down ? -1 : 1) * text(a).localeCompare(text(b));
    if (isNaN(x) || isNaN(y)) return isNaN(x) - isNaN(y);
    return down ? y - x : x - y;
  });
  body.append(...rows);
}));
field.addEventListener("input", filter);
filter();
</script>
</html>
"""
