# SPDX-License-Identifier: Apache-2.0
"""Whether a model fits into a card's L1, how tightly, and what it must be given when the device is opened."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from html import escape
from typing import Any

from tt_cnn.builder.overrides import Assignment
from tt_cnn.models.registry import ModelEntry, Resolution, model_entry
from tt_cnn.reports.figures import memory_figures
from tt_cnn.reports.l1_picture import L1Use, draw
from tt_cnn.reports.misfits import Planning, misfits_of, settings_that_fit
from tt_cnn.reports.profiling import planned_model, profile_fitting
from tt_cnn.reports.records import Profile, Row
from tt_cnn.reports.words import counted
from tt_cnn.virtual.arch import Card, card_by_name
from tt_cnn.virtual.errors.card_error import CardError
from tt_cnn.virtual.memory.memory import OutOfMemory
from tt_cnn.virtual.types.enums import BufferType

_TIGHTEST = 3
_LARGEST_L1_SMALL = 1 << 19


@dataclass(frozen=True)
class MemoryReport:
    model: str
    resolution: Resolution
    batch_size: int
    card: str
    l1_small_size: int
    """What the device was opened with for the plan."""
    profile: Profile
    """Of all steps that fit: the whole model, or those before the one that does not."""
    refusal: str = ""
    """The card's error, with the step, who holds the memory, and what would fit; empty where all fits."""
    other_options: tuple[str, ...] = ()
    """Where it does not fit: options of the command with which the whole model does, each of them planned."""
    misfits: tuple[str, ...] = ()
    """All calls that do not fit, as the card's errors tell them; those after the first as if the ones before had."""
    settings: Assignment | None = None
    """Of layers, where some were found with which the whole model fits as it was asked for."""

    @property
    def fits(self) -> bool:
        return not self.refusal

    @property
    def tightest(self) -> list[Row]:
        """The steps with the least room, one per layer."""
        found: dict[str, Row] = {}
        for row in sorted(self.profile.rows, key=lambda row: row.l1.free):
            found.setdefault(row.name, row)
        return list(found.values())[:_TIGHTEST]


def memory_of(
    name: str,
    *,
    card: str = "n150",
    resolution: Resolution | None = None,
    batch_size: int = 1,
    precision: str = "tuned",
    executor: str = "trace+2cq",
) -> MemoryReport:
    """Plan the model as an executor compiles it, which may keep inputs and outputs in L1.

    Where its tables do not fit L1_SMALL, it is planned again with twice as much, until they do.
    """
    entry = model_entry(name)
    asked = _Options(resolution or entry.resolution, batch_size, precision, executor)
    report = _planned(entry, card, asked)
    if report.fits:
        return report
    others = (said for said, options in _alternatives(entry, asked) if _planned(entry, card, options).fits)
    size, batch = asked.resolution, asked.batch_size
    planning = Planning(entry.name, card, size, batch, precision, executor, report.l1_small_size)
    return replace(
        report,
        other_options=tuple(others),
        misfits=tuple(str(one) for one in misfits_of(planning)),
        settings=settings_that_fit(planning),
    )


@dataclass(frozen=True)
class _Options:
    resolution: Resolution
    batch_size: int
    precision: str
    executor: str


def _planned(entry: ModelEntry, card: str, options: _Options) -> MemoryReport:
    l1_small = entry.l1_small_size
    size, batch = options.resolution, options.batch_size
    while True:
        with planned_model(entry.name, card, size, batch, options.precision, l1_small_size=l1_small) as planned:
            profile, error = profile_fitting(planned, options.executor)
        if not _lacks_l1_small(error) or l1_small >= _LARGEST_L1_SMALL:
            return MemoryReport(entry.name, size, batch, card, l1_small, profile, str(error) if error else "")
        l1_small *= 2


def _alternatives(entry: ModelEntry, asked: _Options) -> Iterator[tuple[str, _Options]]:
    """One step away from what was asked, in the words of the command line."""
    if asked.precision != "tuned":
        yield "--precision tuned", replace(asked, precision="tuned")
    smaller = [size for size in entry.batch_sizes if size < asked.batch_size]
    if smaller:
        yield f"--batch {max(smaller)}", replace(asked, batch_size=max(smaller))
    fewer = [size for size in entry.resolutions if size[0] * size[1] < asked.resolution[0] * asked.resolution[1]]
    if fewer:
        height, width = max(fewer, key=lambda size: size[0] * size[1])
        yield f"--resolution {height}x{width}", replace(asked, resolution=(height, width))
    if asked.executor != "plain":
        yield "--executor plain", replace(asked, executor="plain")


def _lacks_l1_small(error: CardError | None) -> bool:
    return isinstance(error, OutOfMemory) and error.region.name is BufferType.L1_SMALL


# --- text -----------------------------------------------------------------------------------------------------------


def report_text(report: MemoryReport) -> list[str]:
    """The answer first, then what to do with it, then where to look further."""
    profile = report.profile
    height, width = report.resolution
    batch = f" batch {report.batch_size}" if report.batch_size > 1 else ""
    what = f"{report.model} {height}x{width}{batch} on {report.card}"
    if not report.fits:
        misfits = report.misfits or (report.refusal,)
        count = "1 call does" if len(misfits) == 1 else f"{len(misfits)} calls do"
        lines = [f"{what}: does not fit.  refused after {counted(len(profile.rows), 'step')}; {count} not fit in all"]
        for said in misfits:
            lines += said.splitlines()
            if "\n  fits: " not in said:
                lines.append("  no change of this call alone was found that fits")
        if report.settings:
            layers = ", ".join(report.settings)
            lines.append(f"the model fits with other settings of {layers}; --settings FILE writes them")
        if report.other_options:
            lines.append(f"the model fits with {', or with '.join(report.other_options)}")
        return lines
    tightest = profile.tightest
    at = f", at {tightest.name} (headroom {_kb(tightest.l1.free)})" if tightest is not None else ""
    lines = [
        f"{what}: fits.  peak {_kb(profile.l1_peak)} of {_kb(profile.l1_size)} per core{at}",
        f"needs l1_small_size >= {_spaced(profile.l1_small_needed)}, trace_region_size >= "
        f"{_spaced(profile.trace_bytes)} (an estimate)",
    ]
    shares = [f"{row.name} {100 * (profile.l1_size - row.l1.free) / profile.l1_size:.0f} %" for row in report.tightest]
    if shares:
        lines.append(f"tightest: {'   '.join(shares)}")
    return lines


def report_figures(report: MemoryReport) -> dict[str, Any]:
    """The same as plain data, with every step's L1."""
    return {
        "model": report.model,
        "resolution": list(report.resolution),
        "batch_size": report.batch_size,
        "card": report.card,
        "fits": report.fits,
        **memory_figures(report.profile),
        "steps": [{"layer": row.name, "op": row.op, "cores": row.cores, **vars(row.l1)} for row in report.profile.rows],
        "misfits": list(report.misfits or ((report.refusal,) if report.refusal else ())),
        "other_options": list(report.other_options),
        "settings": report.settings.to_dict() if report.settings else None,
    }


def timeline_text(report: MemoryReport) -> list[str]:
    """A line per step: circular buffers from the left, tensors from the right."""
    return draw(_uses(report.profile), _card(report))


def timeline_html(report: MemoryReport) -> str:
    """The same as a page that stands alone; colors follow the reader's light or dark."""
    title = f"{report.model} on {report.card}: L1 by step"
    said = "\n".join(report_text(report))
    rows = "\n".join(_html_row(row, report.profile) for row in report.profile.rows)
    return _PAGE.format(title=escape(title), said=escape(said), rows=rows)


def _html_row(row: Row, profile: Profile) -> str:
    total = profile.l1_size
    shares = [100 * part / total for part in (row.l1.buffers, row.l1.free, row.l1.tensors)]
    cells = "".join(
        f'<span class="{kind}" style="width:{share:.2f}%" title="{kind} {size / 1024:.1f} KB"></span>'
        for kind, share, size in zip(
            ("buffers", "free", "tensors"), shares, (row.l1.buffers, row.l1.free, row.l1.tensors), strict=True
        )
    )
    return (
        f"<tr><td>{row.index}</td><td>{escape(row.name)}</td><td>{escape(row.op)}</td><td>{row.cores}</td>"
        f'<td><div class="bar">{cells}</div></td><td>{row.l1.free / 1024:.0f}</td></tr>'
    )


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>{title}</title><style>
:root {{ color-scheme: light dark; --buffers: #d97706; --tensors: #2563eb; --free: #9ca3af33; }}
body {{ font: 14px/1.4 system-ui, sans-serif; margin: 1rem auto; max-width: 72rem; padding: 0 1rem; }}
pre {{ white-space: pre-wrap; }} table {{ border-collapse: collapse; width: 100%; }}
td, th {{ padding: 1px 6px; text-align: left; white-space: nowrap; }} td:nth-child(5) {{ width: 60%; }}
.bar {{ display: flex; height: 14px; min-width: 12rem; }} .bar span {{ display: block; }}
.buffers {{ background: var(--buffers); }} .tensors {{ background: var(--tensors); }}
.free {{ background: var(--free); }}
</style></head><body>
<h1>{title}</h1>
<pre>{said}</pre>
<p><span class="buffers">&nbsp;&nbsp;&nbsp;</span> circular buffers, from below
<span class="tensors">&nbsp;&nbsp;&nbsp;</span> tensors, from above</p>
<table><thead><tr><th>step</th><th>layer</th><th>op</th><th>cores</th><th>L1 per core</th><th>KB free</th></tr></thead>
<tbody>
{rows}
</tbody></table></body></html>
"""


def _uses(profile: Profile) -> list[L1Use]:
    return [L1Use(row.name, row.op, row.cores, row.l1.buffers, row.l1.tensors, row.l1.free) for row in profile.rows]


def _card(report: MemoryReport) -> Card:
    return card_by_name(report.card)


def _kb(size: int) -> str:
    return f"{_spaced(round(size / 1024))} KB"


def _spaced(number: int) -> str:
    """1 240 000"""
    return f"{number:,}".replace(",", " ")
