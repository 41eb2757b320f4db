# SPDX-License-Identifier: Apache-2.0
"""What people see of a profile in the real ttnn-visualizer: its pages in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tt_cnn.reports.profile import Profile, Row
from tt_cnn.reports.profile_folder import write_folder
from tt_cnn.reports.serving import LOOPBACK, Visualizer, visualizer_command

pytestmark = pytest.mark.browser
SECONDS = 60_000
"""Milliseconds that a page may take on a busy machine."""


@pytest.fixture(scope="module")
def visualizer(unet: Profile, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visualizer]:
    folder = tmp_path_factory.mktemp("profile")
    write_folder(unet, folder)
    command = visualizer_command()
    assert command is not None, "ttnn-visualizer is a dependency of the tests: pip install 'tt-cnn[dev]'"
    with Visualizer(folder, command) as running:
        yield running


class Pages:
    """The visualizer in one tab, with nothing from outside this machine, and all errors of its scripts."""

    def __init__(self, browser: Any, visualizer: Visualizer) -> None:
        self.visualizer = visualizer
        self.page = browser.new_page(viewport={"width": 1500, "height": 1000})
        self.page.set_default_timeout(SECONDS)
        self.errors: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.route(_is_elsewhere, lambda route: route.abort())
        self.page.goto(visualizer.url)
        self.page.get_by_text("Operations").first.wait_for()

    def open(self, name: str) -> Any:
        self.page.goto(f"{self.visualizer.base}/{name}?instanceId={self.visualizer.instance}")
        return self.page


def _is_elsewhere(url: str) -> bool:
    return url.startswith("http") and not url.startswith(f"http://{LOOPBACK}:")


@pytest.fixture(scope="module")
def pages(browser: Any, visualizer: Visualizer) -> Iterator[Pages]:
    opened = Pages(browser, visualizer)
    yield opened
    opened.page.close()
    assert opened.errors == []


def calls(profile: Profile) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = {}
    for row in profile.rows:
        found.setdefault(row.call, []).append(row)
    return found


def test_the_operations_are_listed(pages: Pages, unet: Profile) -> None:
    page = pages.open("operations")
    page.get_by_text(f"Showing {len(calls(unet))} operations").wait_for()
    for number, rows in list(calls(unet).items())[:8]:
        assert page.get_by_text(f"{number + 1} {rows[0].call_name} (", exact=False).first.is_visible()


def test_an_operation_shows_its_l1_tensors_and_device_operations(pages: Pages, unet: Profile) -> None:
    number, rows = next((n, rows) for n, rows in calls(unet).items() if rows[0].layer == "encoder1.conv2")
    page = pages.open(f"operations/{number + 1}")
    page.get_by_text("Device operations graph view").wait_for()
    said = page.locator("main").inner_text()
    last = rows[-1]
    output = last.outputs[0]
    assert "encoder1.conv2" in said
    assert f"{output.address:07d}" in said and f"Address: {output.address}" in said
    assert f"{unet.buffers[output.buffer].bank_bytes / 1024:.2f}".rstrip("0").rstrip(".") + " KiB" in said
    assert output.shard_shape is not None and f"{output.shard_shape[0]}" in said
    assert "std::nullopt" not in said.split("Outputs")[1].split("Device operations")[0]
    for row in rows:
        assert row.device_operation in said and f"{row.cost.ns / 1e3:.0f} µs" in said
    for buffer in last.circular_buffers:
        assert f"{buffer.address:07d}" in said
    assert page.locator(".js-plotly-plot .bars path").count() > 3


def test_the_buffers_of_all_operations_are_drawn(pages: Pages, unet: Profile) -> None:
    page = pages.open("buffer-summary")
    page.locator(".buffer-summary-row canvas").first.wait_for()
    page.get_by_text("L1 SMALL").first.wait_for()
    drawn = page.eval_on_selector_all(
        ".buffer-summary-row canvas",
        """all => all.slice(0, 8).map(one => {
            const data = one.getContext("2d").getImageData(0, 0, one.width, one.height).data;
            const seen = new Set();
            for (let i = 0; i < data.length; i += 4) if (data[i + 3]) seen.add(`${data[i]},${data[i+1]},${data[i+2]}`);
            return seen.size;
        })""",
    )
    assert len(drawn) == 8 and all(colours >= 2 for colours in drawn)


def test_the_tensors_are_listed_with_their_sizes(pages: Pages, unet: Profile) -> None:
    tensors = pages.visualizer.ask("tensors")
    page = pages.open("tensors")
    page.get_by_text(f"Showing {len(tensors)} of {len(tensors)} tensors").wait_for()
    made = unet.rows[0].outputs[0]
    line = page.get_by_text("(1 ttnn.to_memory_config").first
    assert str(list(made.shape)) in line.inner_text()
    assert page.get_by_text(f"{made.total_bytes / 2**20:.2f} MiB").first.is_visible()


def test_the_graph_has_every_call_and_the_tensors_between_them(pages: Pages, unet: Profile) -> None:
    page = pages.open("graphtree")
    nodes, edges = page.locator(".react-flow__node"), page.locator(".react-flow__edge")
    nodes.first.wait_for()
    names = [f"{number + 1} {rows[0].call_name}" for number, rows in calls(unet).items()]
    assert nodes.count() == len(names)
    for at in (0, 3, len(names) - 1):
        assert names[at] in nodes.nth(at).text_content()
    made: dict[int, int] = {}
    between = set()
    for number, rows in calls(unet).items():
        inside: set[int] = set()
        for row in rows:
            between |= {(made[t.buffer], number) for t in row.inputs if t.buffer in made and t.buffer not in inside}
            inside |= {t.buffer for t in row.outputs}
        made |= {t.buffer: number for t in rows[-1].outputs}
    seen = {tuple(map(int, one.split("-")[:2])) for one in edges.evaluate_all("all => all.map(one => one.dataset.id)")}
    assert seen == {(a + 1, b + 1) for a, b in between}
    first, last = nodes.first.bounding_box(), nodes.last.bounding_box()
    assert first and last and first["width"] > 10 and last["y"] > first["y"]


def test_the_performance_page_has_a_row_for_every_step(pages: Pages, unet: Profile) -> None:
    page = pages.open("performance")
    page.get_by_text("Performance report").first.wait_for()
    page.get_by_text(f"Showing {len(unet.rows)} rows").wait_for()
    assert "wormhole" in page.locator("main").inner_text().lower()
