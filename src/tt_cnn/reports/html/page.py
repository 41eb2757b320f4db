# SPDX-License-Identifier: Apache-2.0
"""The page: its sections, its style and its script, all in one file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from tt_cnn.reports.findings import find
from tt_cnn.reports.html.accuracy_chart import pcc_chart
from tt_cnn.reports.html.findings_list import findings_list
from tt_cnn.reports.html.memory_chart import l1_timeline, step_data
from tt_cnn.reports.html.model_section import model_section
from tt_cnn.reports.html.queue_chart import queue_timeline
from tt_cnn.reports.html.roofline import roofline
from tt_cnn.reports.html.svg import short, tag, text
from tt_cnn.reports.html.time_charts import bars, times
from tt_cnn.reports.records import Profile, between
from tt_cnn.reports.words import amount


def write_report(
    profile: Profile, path: Path | str, pcc: Mapping[str, float] | None = None, graph: str | None = None
) -> None:
    Path(path).write_text(report_html(profile, pcc, graph), encoding="utf-8")


Section = tuple[str, str, str]
"""Its id, its heading, and its content."""


def report_html(
    profile: Profile,
    pcc: Mapping[str, float] | None = None,
    graph: str | None = None,
    first: Sequence[Section] = (),
    title: str | None = None,
) -> str:
    """`pcc`: measured PCC by layer or output; without it that of the profile, if it has any. `graph`: its SVG.

    `first`: sections before those of the profile.
    """
    measured = dict(pcc) if pcc is not None else {one.layer: one.pcc for one in profile.accuracy}
    sections = [
        *first,
        ("findings", "Findings", findings_list(find(profile), profile)),
        ("time", "Time by op, block and layer", times(profile)),
        ("steps", "Steps: duration, cores, utilisation", bars(profile)),
        ("memory", "L1 timeline", l1_timeline(profile)),
        ("timeline", "Command queues", queue_timeline(profile)),
        ("roof", "Roofline", roofline(profile)),
    ]
    if measured:
        sections.append(("accuracy", "PCC by layer", pcc_chart(measured)))
    sections.append(("model", "Model: ops, layers, graph", model_section(profile, graph)))
    footer = f"Predicted by tt-cnn {profile.version}, {profile.created} UTC; nothing was measured on a card."
    data = f'<script type="application/json" id="data">{_json(step_data(profile))}</script>'
    scripts = data + f"<script>{_file('script.js')}</script>"
    return page_html(title or f"{profile.model.title} on {profile.card}", _facts(profile), sections, footer, scripts)


def page_html(title: str, facts: str, sections: Sequence[Section], footer: str, scripts: str = "") -> str:
    """A page that stands alone. `facts` and the sections' contents are HTML; title, headings and footer are text."""
    links = "".join(tag("a", text(heading), href=f"#{name}") for name, heading, _ in sections)
    body = "".join(
        tag("section", tag("h2", text(heading)) + content, id=name, aria_label=heading)
        for name, heading, content in sections
    )
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'
        + tag("title", text(title))
        + tag("style", _file("style.css"))
    )
    name, heading, _ = sections[0]
    page = (
        tag("a", text(f"To the {heading[0].lower()}{heading[1:]}"), href=f"#{name}", class_="skip")
        + tag("header", tag("h1", text(title)) + facts)
        + tag("nav", links, aria_label="Sections")
        + tag("main", body)
        + tag("footer", text(footer))
        + scripts
        + f"<script>{_file('tables.js')}</script>"
    )
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>{page}</body></html>\n'


def facts_html(said: str, facts: Sequence[tuple[str, str]]) -> str:
    """A sentence, and tiles of values with what they are."""
    tiles = "".join(tag("div", tag("dt", text(what)) + tag("dd", text(value))) for value, what in facts)
    return tag("p", text(said)) + tag("dl", tiles, class_="facts")


def _facts(profile: Profile) -> str:
    model = profile.model
    height, width = model.resolution
    size = f"{height}×{width}, " if height else ""
    said = f"{size}{profile.batch}, {model.precision or 'as recorded'}, executor {profile.executor}"
    facts = [
        (f"{profile.device_ns / 1e6:.3f} ms", "on the device, predicted"),
        (f"{profile.device_fps:.0f}", f"fps on the device, predicted{between(profile.device_fps_band)}"),
        (f"{profile.fps:.0f}", f"fps end to end, predicted{between(profile.fps_band)}"),
        (f"{len(profile.rows)}", "steps"),
        (amount(profile.macs), "multiply-adds on the card"),
        (amount(model.parameters), "parameters"),
        (f"{profile.l1_peak / 1024:.0f} KB", f"L1 peak of {profile.l1_size / 1024:.0f} KB"),
        (short(profile.l1_small_needed), "l1_small_size needed"),
        (short(profile.trace_bytes), "trace_region_size, estimated"),
    ]
    return facts_html(said, facts)


def _json(data: Any) -> str:
    """Safe inside a script element, whatever names a model has."""
    said = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    return said.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _file(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
