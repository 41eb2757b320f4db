# SPDX-License-Identifier: Apache-2.0
"""The page stands alone, says the profile's numbers, and lets no name of a layer become markup."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tt_cnn.reports.equal_findings import group_equal
from tt_cnn.reports.findings import find
from tt_cnn.reports.graph_drawing import draw_svg
from tt_cnn.reports.html import report_html, write_report
from tt_cnn.reports.html.time_charts import steps_table
from tt_cnn.reports.profile import Accuracy, Profile
from tt_cnn.reports.records import Together
from tt_cnn.reports.time_sums import by_block, by_layer, by_op

EVIL = '<script>alert("x")</script><img src=x onerror=alert(1)>"\'&</title>'
VOID = frozenset(("meta", "link", "br", "img", "input"))


class Page(HTMLParser):
    """Elements in their order, and whether all that open close again."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.said: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.said.append(data)

    def all(self, tag: str, **attributes: str) -> list[dict[str, str | None]]:
        return [a for t, a in self.elements if t == tag and all(a.get(k) == v for k, v in attributes.items())]


@pytest.fixture(scope="module")
def page(unet: Profile) -> str:
    return report_html(unet)


def test_it_is_well_formed_and_fetches_nothing(page: str) -> None:
    parsed = Page(page)
    assert parsed.open == []
    for _, attributes in parsed.elements:
        for name in ("src", "href"):
            target = attributes.get(name)
            assert target is None or target.startswith(("#", "data:"))
    assert "http://" not in page and "https://" not in page and "@import" not in page and "url(" not in page
    ids = [a["id"] for _, a in parsed.elements if "id" in a]
    assert len(ids) == len(set(ids))


def test_charts_have_the_profiles_numbers(page: str, unet: Profile) -> None:
    parsed = Page(page)
    bars = [float(a["data-ns"] or 0) for a in parsed.all("g") if a.get("class") == "bar"]
    assert bars == pytest.approx([row.cost.ns for row in unet.rows], abs=0.1)
    slices = {a["data-op"]: float(a["data-ns"] or 0) for a in parsed.all("g") if "data-op" in a}
    assert sum(slices.values()) == pytest.approx(unet.device_ns, rel=1e-6)
    longest = by_op(unet)[0]
    assert slices[longest.name] == pytest.approx(longest.ns, abs=0.1)
    assert len([a for a in parsed.all("g") if a.get("class") == "step"]) == len(unet.rows)
    spans = [a for a in parsed.all("rect") if (a.get("class") or "").startswith("span ")]
    assert len(spans) == len(unet.timeline)
    points = [a for a in parsed.all("circle") if (a.get("class") or "").startswith("point ")]
    assert len(points) == len([row for row in unet.rows if row.macs])


def test_the_headline_says_that_times_are_predicted(page: str) -> None:
    assert "on the device, predicted</dt>" in page and "fps on the device, predicted" in page


def test_no_utilisation_is_over_100_percent(profile_of: Callable[..., Profile]) -> None:
    """Moves of YOLOv4 take less than tt-metal's rules call ideal; the sheet keeps those numbers."""
    profile = profile_of("yolov4")
    assert max(row.adjusted_utilization for row in profile.rows) > 3
    assert max(max(row.shown_utilization) for row in profile.rows) == 100
    shown = [[float(cell) for cell in one] for one in _utilisations(steps_table(profile))]
    assert len(shown) == len(profile.rows) and max(max(one) for one in shown) == 100


def _utilisations(table: str) -> list[list[str]]:
    """Plain and adjusted, of every row."""
    rows = re.findall(r"<tr><th scope=\"row\">.*?</tr>", table)
    return [re.findall(r"<td[^>]*>(.*?)</td>", row)[6:8] for row in rows]


def test_every_chart_has_a_table_and_a_title(page: str) -> None:
    parsed = Page(page)
    assert page.count("As a table") >= 5
    charts = [a for a in parsed.all("svg") if a.get("class") != "axis"]
    assert all(a.get("role") == "img" for a in charts)
    assert len(re.findall(r"<svg[^>]*><title>[^<]+</title>", page)) == len(charts) == 5
    assert all(a.get("aria-hidden") == "true" for a in parsed.all("svg", **{"class": "axis"}))
    for box in parsed.all("div"):
        if "scroll" in (box.get("class") or "").split():
            assert box.get("tabindex") == "0" and box.get("aria-label")


def test_steps_details_are_those_of_the_rows(page: str, unet: Profile) -> None:
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page)
    assert data is not None
    steps = json.loads(data.group(1))
    assert [(s["op"], s["free"], s["buffers"], s["tensors"]) for s in steps] == [
        (row.op, row.l1.free, row.l1.buffers, row.l1.tensors) for row in unet.rows
    ]
    for step, row in zip(steps, unet.rows, strict=True):
        lowest = min((address for _, _, address, _ in step["held"]), default=unet.l1_base + unet.l1_size)
        assert lowest >= unet.l1_base + unet.l1_size - row.l1.tensors


def test_findings_are_grouped_by_kind_in_their_order(page: str, unet: Profile) -> None:
    kinds = [a["data-kind"] for a in Page(page).all("li") if "data-kind" in a]
    findings = group_equal(find(unet))
    groups = list(dict.fromkeys(one.first.kind for one in findings))
    assert kinds == sorted((one.first.kind for one in findings), key=groups.index)
    assert "can be applied together" not in page


def test_equal_findings_are_one_with_all_their_layers(profile_of: Callable[..., Profile]) -> None:
    profile = profile_of("mobilenetv2")
    shown = report_html(profile)
    found = find(profile)
    assert len([a for a in Page(shown).all("li") if "data-kind" in a]) == len(group_equal(found)) < len(found)
    section = shown[shown.index('<section id="findings"') : shown.index('<section id="time"')]
    steps = re.findall(r'data-goto="(\d+)"', section)
    assert sorted(map(int, steps)) == sorted(one.rows[0] for one in found), "each layer has a link to its step"


def test_times_of_blocks_and_layers_stand_beside_those_of_ops(page: str, unet: Profile) -> None:
    for caption, sums in (
        ("Time by op type", by_op(unet)),
        ("Time by block", by_block(unet)),
        ("Time by layer", by_layer(unet)),
    ):
        rows = re.search(rf"<caption>{caption}</caption>.*?<tbody>(.*?)</tbody>", page)
        assert rows is not None and rows[1].count("<tr>") == len(sums) > 8
        for one in sums:
            assert f">{one.name}</th>" in rows[1] and f">{one.ns / 1e3:.1f}</td>" in rows[1]


def test_what_findings_save_together_is_told(unet: Profile) -> None:
    page = report_html(replace(unet, together=Together(12_345.0, (0, 2, 3), {"encoder1.conv1": {}})))
    share = f"{100 * 12_345 / unet.device_ns:.1f}"
    assert f"planned with all of them at once, takes 12 µs less ({share} %" in page
    assert "3 of them can be applied together." in page


def test_pcc_is_shown_when_it_was_measured(page: str, unet: Profile) -> None:
    assert "PCC by layer" not in page
    for shown in (
        report_html(unet, {"encoder1.conv1": 0.99987, "decoder1": 0.972}),
        report_html(replace(unet, accuracy=(Accuracy("encoder1.conv1", 0.99987), Accuracy("decoder1", 0.972)))),
    ):
        rects = [a for a in Page(shown).all("rect") if "data-pcc" in a]
        assert [(a["class"], float(a["data-pcc"] or 0)) for a in rects] == [("pcc", 0.99987), ("pcc bad", 0.972)]
        assert "The lowest is 0.9720, of decoder1." in shown


def test_the_model_is_told(unet: Profile) -> None:
    shown = report_html(unet)
    said = " ".join(Page(shown).said)
    assert "ttnn.conv_transpose2d" in said and "No op is missing in TT-NN." in said and "Graph of the calls" not in said
    strange = tuple(replace(row, call_name="ttnn.soft_pool") for row in unet.rows)
    assert "Missing in TT-NN: soft_pool" in report_html(replace(unet, rows=strange))
    assert "Graph of the calls" in report_html(unet, graph=draw_svg(unet))


def test_the_queues_show_what_runs_before_the_first_input(unet: Profile) -> None:
    before = [span for span in unet.timeline if span.input < 0]
    assert before and all(0 <= span.start_ns < span.end_ns for span in unet.timeline)
    assert "kernels of the input before" in report_html(unet)
    only = tuple(span for span in unet.timeline if span.input >= 0)
    assert "kernels of the input before" not in report_html(replace(unet, timeline=only))


def evil(profile: Profile) -> Profile:
    """The same with markup wherever a user's text can come."""
    rows = tuple(replace(row, layer=EVIL, signpost=EVIL) for row in profile.rows)
    buffers = tuple(replace(b, made_by=EVIL) for b in profile.buffers)
    model = replace(profile.model, name=EVIL, title=EVIL, precision=EVIL)
    timeline = tuple(replace(span, name=EVIL) for span in profile.timeline)
    posts = tuple(replace(post, header=EVIL) for post in profile.signposts)
    return replace(profile, rows=rows, buffers=buffers, model=model, timeline=timeline, signposts=posts, version=EVIL)


def test_names_never_become_markup(page: str, unet: Profile) -> None:
    shown = report_html(evil(unet), {EVIL: 0.5}, draw_svg(evil(unet)))
    parsed = Page(shown)
    assert len(parsed.all("script")) == 3 and not parsed.all("img")
    assert "<img" not in shown and "alert(" in shown
    assert not [a for _, a in parsed.elements if any(name.startswith("on") for name in a)]
    assert EVIL in "".join(parsed.said)


def test_an_empty_program_has_a_page(unet: Profile) -> None:
    empty = replace(unet, rows=(), buffers=(), signposts=(), transfers=(), timeline=())
    assert "Nothing was found" in report_html(empty)


def test_it_is_written_as_utf8(unet: Profile, tmp_path: Path) -> None:
    write_report(unet, tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_other_cards_and_models(profile_of: Callable[..., Profile]) -> None:
    for name, card in (("resnet50", "p150"), ("mobilenetv2", "n150")):
        assert Page(report_html(profile_of(name, card=card))).open == []
