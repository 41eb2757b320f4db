# SPDX-License-Identifier: Apache-2.0
"""A profile as a folder: every report of it, under the names that the tools of the ecosystem look for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tt_cnn.reports.findings import find
from tt_cnn.reports.findings_file import FINDINGS, write_findings
from tt_cnn.reports.graph_drawing import draw_svg
from tt_cnn.reports.html import write_report
from tt_cnn.reports.model_summary import model_card, summary_markdown
from tt_cnn.reports.performance_sheet import sheet_name, write_sheet
from tt_cnn.reports.profile_json import FILE, save_profile
from tt_cnn.reports.records import Profile
from tt_cnn.reports.visualizer_database import DATABASE, DEVICE_LOG, write_database, write_device_log

REPORT = "report.html"
MODEL_CARD = "model_card.md"
SUMMARY = "summary.md"
GRAPH = "graph.svg"


def write_folder(profile: Profile, folder: Path) -> dict[str, str]:
    """Everything into a folder that is there and empty. Returns what was written: names, and what they are for."""
    if any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty; a profile goes to a folder of its own")
    profile = replace(profile, findings=tuple(find(profile)))
    sheet = sheet_name(profile)
    graph = draw_svg(profile)
    write_report(profile, folder / REPORT, graph=graph)
    write_sheet(profile, folder / sheet)
    write_database(profile, folder)
    write_device_log(profile, folder / DEVICE_LOG)
    (folder / MODEL_CARD).write_text(model_card(profile), encoding="utf-8")
    (folder / SUMMARY).write_text(summary_markdown(profile), encoding="utf-8")
    (folder / GRAPH).write_text(graph, encoding="utf-8")
    write_findings(profile, folder / FINDINGS)
    save_profile(profile, folder / FILE)
    written = {
        REPORT: "the report, one page that stands alone",
        sheet: "the performance sheet: tt-perf-report reads it",
        DATABASE: "for ttnn-visualizer (with config.json and profile_log_device.csv)",
        MODEL_CARD: "what the model is and needs, and which ops it uses",
        SUMMARY: "every call with its arguments, shapes and multiply-adds",
        GRAPH: "the calls and the tensors between them",
        FINDINGS: "what would save time, each change as data: tt-cnn optimize --apply reads it",
        FILE: "all of it as data, for tt-cnn diff",
    }
    return {name: what for name, what in written.items() if (folder / name).exists()}
