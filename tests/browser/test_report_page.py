# SPDX-License-Identifier: Apache-2.0
"""report.html in a real browser: `make test-browser`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tt_cnn.reports.html import write_report
from tt_cnn.reports.profile import Profile, profile_model
from tt_cnn.reports.profile_folder import write_folder
from tt_cnn.reports.records import Signpost

pytestmark = pytest.mark.browser
EVIL = '<script>window.broken = 1</script><img src=x onerror="window.broken = 1">'


class Opened:
    """A page, with all that it complained about and asked for."""

    def __init__(self, browser: Any, path: Path, **options: Any) -> None:
        self.page = browser.new_page(**options)
        self.complaints: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())


@pytest.fixture(scope="module")
def report(unet: Profile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(unet, path, {"encoder1.conv1": 0.9998, "decoder1.conv2": 0.985})
    return path


def test_it_loads_quietly_with_all_charts(browser: Any, report: Path, unet: Profile) -> None:
    opened = Opened(browser, report)
    page = opened.page
    assert opened.complaints == []
    assert [url for url in opened.asked if not url.startswith("data:")] == [report.as_uri()]
    for name in ("pie", "bars", "l1-picture", "queues", "roofline", "pcc"):
        box = page.locator(f"#{name}").bounding_box()
        assert box and box["width"] > 100 and box["height"] > 50
    bars = page.eval_on_selector_all("#bars .bar", "bars => bars.map(b => [Number(b.dataset.ns), b.getBBox().height])")
    assert [ns for ns, _ in bars] == pytest.approx([row.cost.ns for row in unet.rows], abs=0.1)
    (longest, height), (second, lower) = sorted(bars, reverse=True)[:2]
    assert height / lower == pytest.approx(longest / second, rel=0.02)
    page.close()


def test_the_l1_timeline_answers_to_a_click_and_to_keys(browser: Any, report: Path, unet: Profile) -> None:
    page = Opened(browser, report, viewport={"width": 1100, "height": 900}).page
    for index in (4, 20):
        row = unet.rows[index]
        page.locator(f"#l1 .step[data-row='{index}'] .hit").click()
        said = page.locator("#l1-details").inner_text()
        assert f"Step {index}: {row.op} of {row.name}" in said
        assert f"{row.l1.free / 1024:.1f} KB of headroom" in said
    page.locator("#l1").focus()
    page.keyboard.press("ArrowRight")
    assert f"Step 21: {unet.rows[21].op}" in page.locator("#l1-details").inner_text()
    page.keyboard.press("End")
    last = unet.rows[-1]
    assert f"Step {last.index}: {last.op}" in page.locator("#l1-details").inner_text()
    assert page.locator("#l1").get_attribute("aria-valuenow") == str(last.index)
    page.close()


def test_tables_open_by_keyboard(browser: Any, report: Path) -> None:
    page = Opened(browser, report).page
    summary = page.get_by_text("By layer: ")
    by_layer = page.get_by_role("table", name="Time by layer")
    assert not by_layer.is_visible()
    summary.focus()
    page.keyboard.press("Enter")
    assert by_layer.is_visible()
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_have_enough_contrast(browser: Any, report: Path, scheme: str) -> None:
    page = Opened(browser, report, color_scheme=scheme).page
    colors = page.evaluate(
        """() => [...document.querySelectorAll("section p, .kind, .saved, summary, .caution")].map(one => {
            const panel = one.closest("section");
            return [getComputedStyle(one).color, getComputedStyle(panel).backgroundColor];
        })"""
    )
    assert colors and all(_contrast(ink, paper) >= 4.5 for ink, paper in colors)
    page.close()


def _contrast(ink: str, paper: str) -> float:
    """By WCAG's formula."""

    def luminance(color: str) -> float:
        parts = [int(part) / 255 for part in color[color.index("(") + 1 : -1].split(",")[:3]]
        red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    light, dark = sorted((luminance(ink), luminance(paper)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_a_phone_needs_no_sideways_scrolling(browser: Any, report: Path) -> None:
    page = Opened(browser, report, viewport={"width": 360, "height": 740}).page
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.close()


@pytest.mark.parametrize("width", [360, 1280])
def test_both_axes_stay_in_sight_beside_a_long_chart(browser: Any, tmp_path: Path, width: int) -> None:
    write_report(profile_model("yolov4"), tmp_path / "report.html")
    page = Opened(browser, tmp_path / "report.html", viewport={"width": width, "height": 740}).page
    chart = page.locator("#steps .framed .scroll")
    assert chart.evaluate("one => one.scrollWidth > one.clientWidth")
    chart.evaluate("one => { one.scrollLeft = 500; }")
    axes = page.locator("#steps .framed .axis")
    assert axes.count() == 2
    boxes = [axes.nth(i).bounding_box() for i in (0, 1)]
    assert all(box and box["x"] >= 0 and box["x"] + box["width"] <= width for box in boxes)
    assert "100" in axes.nth(1).text_content() and "µs" in axes.nth(0).text_content()
    page.close()


def column(page: Any, caption: str, index: int, shown: bool = True) -> list[str]:
    """The cells of one, from the table with the caption."""
    script = """([caption, index, shown]) => [...document.querySelectorAll("table")]
        .find(one => one.caption && one.caption.textContent === caption)
        .tBodies[0].querySelectorAll(shown ? "tr:not([hidden])" : "tr")
        .values().map(row => row.cells[index].textContent).toArray()"""
    return page.evaluate(script, [caption, index, shown])


def test_tables_sort_and_filter(browser: Any, report: Path, unet: Profile) -> None:
    opened = Opened(browser, report)
    page = opened.page
    page.locator("#steps summary").click()
    steps = page.locator("#steps table")
    numbers = [str(row.index) for row in unet.rows]
    for turns, order in enumerate((-1, 1), 1):
        steps.get_by_role("button", name="µs").click()
        times = [float(cell) for cell in column(page, "All steps of one input", 4)]
        assert times == sorted(times, key=lambda ns: order * ns), turns
        assert len(times) == len(unet.rows)
    steps.get_by_role("button", name="µs").click()
    assert column(page, "All steps of one input", 0) == numbers, "the third time as it was"
    steps.get_by_role("button", name="layer").focus()
    page.keyboard.press("Enter")
    assert steps.locator("th[aria-sort=ascending]").inner_text().startswith("layer")
    names = column(page, "All steps of one input", 1)
    assert names[0] == min((row.name for row in unet.rows), key=str.casefold) and sorted(names) != numbers
    page.locator("#steps input[type=search]").fill("decoder1 halo")
    left = [row for row in unet.rows if row.name.startswith("decoder1") and row.op == "Halo"]
    assert column(page, "All steps of one input", 1) == sorted(row.name for row in left) and left
    assert f"{len(left)} of {len(unet.rows)} rows" in page.locator("#steps .filter").inner_text()
    page.locator("#steps input[type=search]").fill("")
    assert len(column(page, "All steps of one input", 0)) == len(unet.rows)
    assert opened.complaints == []
    page.close()


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("model", ["vanilla_unet", "yolov4", "resnet50"])
def test_no_label_is_cut_by_the_edge_of_its_chart(browser: Any, tmp_path: Path, model: str, width: int) -> None:
    profile = profile_model(model)
    pcc = {f"a.long.name.of.a.backbone.{row.name}": 0.999 for row in profile.rows[:30]}
    last = replace(profile, signposts=(Signpost(len(profile.rows) - 1, "the last step of all"),))
    write_report(last, tmp_path / "report.html", pcc)
    page = Opened(browser, tmp_path / "report.html", viewport={"width": width, "height": 740}).page
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    labels, cut = page.evaluate(
        """() => {
            const labels = [...document.querySelectorAll("svg text")].filter(one => one.textContent);
            const cut = labels.filter(one => {
                const box = one.getBoundingClientRect(), frame = one.ownerSVGElement.getBoundingClientRect();
                return box.left < frame.left - 0.5 || box.right > frame.right + 0.5 ||
                    box.top < frame.top - 0.5 || box.bottom > frame.bottom + 0.5;
            });
            return [labels.length, cut.map(one => one.textContent)];
        }"""
    )
    assert labels > 50 and cut == []
    page.close()


def test_the_model_its_ops_and_its_graph_are_there(browser: Any, unet: Profile, tmp_path: Path) -> None:
    write_folder(unet, tmp_path)
    opened = Opened(browser, tmp_path / "report.html")
    page = opened.page
    assert "No op is missing in TT-NN." in page.locator("#model").inner_text()
    page.get_by_text("Graph of the calls").click()
    box = page.locator("#model details svg").bounding_box()
    assert box and box["height"] > 1000
    page.get_by_text("All 52 calls").click()
    assert page.locator("#model details table tbody tr").count() == len({row.call for row in unet.rows}) == 52
    assert opened.complaints == []
    page.close()


def test_it_prints(browser: Any, report: Path) -> None:
    page = Opened(browser, report).page
    page.emulate_media(media="print")
    assert not page.locator("nav").is_visible() and page.locator("#bars").is_visible()
    assert page.pdf()[:4] == b"%PDF"
    page.close()


def test_names_are_text(browser: Any, unet: Profile, tmp_path: Path) -> None:
    rows = tuple(replace(row, layer=EVIL) for row in unet.rows)
    buffers = tuple(replace(b, made_by=EVIL) for b in unet.buffers)
    write_report(replace(unet, rows=rows, buffers=buffers), tmp_path / "report.html", {EVIL: 0.9})
    opened = Opened(browser, tmp_path / "report.html")
    opened.page.locator("#l1 .step[data-row='4'] .hit").click()
    assert EVIL in opened.page.locator("#l1-details").inner_text()
    assert opened.page.evaluate("window.broken") is None and opened.complaints == []
    opened.page.close()
