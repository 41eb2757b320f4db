# SPDX-License-Identifier: Apache-2.0
"""Whether a model fits: the answer, its numbers, and what would help."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.optimizer.residual import ENTRY, TtResidual, registered
from tt_cnn import ttnn
from tt_cnn.models import model_entry, registry
from tt_cnn.reports.memory_report import MemoryReport, memory_of, report_text, timeline_html, timeline_text
from tt_cnn.reports.profile import Profile
from tt_cnn.reports.profiling import planned_model, profile_fitting


class TtResidualLarge(TtResidual):
    """Weights of 16 bits: the last stage's do not fit in height shards."""

    weights_dtype = ttnn.bfloat16


@pytest.fixture(scope="module")
def report() -> MemoryReport:
    return memory_of("vanilla_unet")


def test_the_answer_comes_first(report: MemoryReport) -> None:
    first, second, third = report_text(report)
    peak, size = report.profile.l1_peak, report.profile.l1_size
    spoken = re.fullmatch(
        r"vanilla_unet 480x640 on n150: fits\.  peak ([\d ]+) KB of ([\d ]+) KB per core, at (\S+) "
        r"\(headroom (\d+) KB\)",
        first,
    )
    assert spoken is not None, first
    assert int(spoken[1].replace(" ", "")) == round(peak / 1024)
    assert int(spoken[2].replace(" ", "")) == round(size / 1024)
    assert int(spoken[4]) == round((size - peak) / 1024)
    assert second.startswith("needs l1_small_size >= ") and "trace_region_size >= " in second
    assert third.startswith(f"tightest: {spoken[3]} ") and third.count("%") == 3


@pytest.mark.parametrize("executor", ["plain", "2cq", "trace+2cq"])
def test_it_says_what_the_profile_says(executor: str, profile_of: Callable[..., Profile]) -> None:
    """The trace is the model's, also where the executor that was asked for has none."""
    ours = memory_of("vanilla_unet", executor=executor).profile
    profile = profile_of("vanilla_unet", executor=executor)
    assert (ours.trace_bytes, ours.l1_small_needed) == (profile.trace_bytes, profile.l1_small_needed)
    assert ours.trace_bytes == profile_of("vanilla_unet").trace_bytes


@pytest.mark.parametrize(
    ("name", "card", "executor"),
    [
        ("vanilla_unet", "n150", "trace+2cq"),
        ("yolov8s", "p150", "trace+2cq+io"),  # its fullest step is a copy of the output outside of the trace
        ("mobilenetv2", "n150", "plain"),
    ],
)
def test_memory_and_profile_are_one_reading(
    name: str, card: str, executor: str, profile_of: Callable[..., Profile]
) -> None:
    ours = memory_of(name, card=card, executor=executor).profile
    profile = profile_of(name, card=card, executor=executor)
    assert (ours.l1_peak, ours.tightest and ours.tightest.name) == (
        profile.l1_peak,
        profile.tightest and profile.tightest.name,
    )
    assert [(row.name, row.op, row.l1) for row in ours.rows] == [(row.name, row.op, row.l1) for row in profile.rows]


def test_the_timeline_has_a_line_a_step(report: MemoryReport) -> None:
    lines = timeline_text(report)
    assert len(lines) == len(report.profile.rows)
    assert all(line.count("|") == 2 for line in lines)
    page = timeline_html(report)
    assert page.count("<tr>") == len(lines) + 1 and "http" not in page


@pytest.fixture
def with_little_l1_small() -> Iterator[str]:
    """UNet, said to need less L1_SMALL than it does."""
    entry = replace(model_entry("vanilla_unet"), name="stingy_unet", l1_small_size=8192, aliases=())
    registry.register(entry)
    original = registry._ENTRIES["vanilla_unet"]
    yield entry.name
    del registry._ENTRIES[entry.name]
    assert registry._ENTRIES["vanilla_unet"] is original


def test_the_l1_small_size_is_found_where_the_model_says_too_little(
    with_little_l1_small: str, report: MemoryReport
) -> None:
    stingy = memory_of(with_little_l1_small)
    assert stingy.fits and stingy.l1_small_size == 65536
    assert stingy.profile.l1_small_needed == report.profile.l1_small_needed


@pytest.fixture
def too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """A card whose cores have less L1 than UNet needs."""
    from tt_cnn.virtual import arch

    small = replace(arch.CARDS["n150"], l1_size=arch.CARDS["n150"].l1_size - 60 * 1024)
    monkeypatch.setitem(arch.CARDS, "n150", small)


@pytest.mark.usefixtures("too_large")
def test_what_does_not_fit_is_explained() -> None:
    report = memory_of("vanilla_unet")
    assert not report.fits
    text = "\n".join(report_text(report))
    assert text.startswith("vanilla_unet 480x640 on n150: does not fit.")
    assert re.search(r"(Out of Memory: Not enough space|Statically allocated circular buffers)", text)
    assert re.search(r"  \S+ .* of '\S+', step \d of \d", text), text
    assert "held by: " in text and "fits: " in text
    assert report.profile.rows and all(row.l1.free >= 0 for row in report.profile.rows)
    assert "does not fit" in timeline_html(report)


def test_all_misfits_are_told_at_once_and_settings_that_cure_them() -> None:
    """Three convolutions of a stage do not fit; those after the first are planned as if it had."""
    large = replace(ENTRY, name="large_residual", tt=TtResidualLarge)
    with registered(large):
        report = memory_of("large_residual")
        assert not report.fits and len(report.misfits) == 3 and report.misfits[0] == report.refusal
        for layer, said in zip(("layer4.0.conv2", "layer4.1.conv1", "layer4.1.conv2"), report.misfits, strict=True):
            assert f"of '{layer}', step 3 of 3: Conv2d" in said and "\n  fits: " in said
        text = "\n".join(report_text(report))
        assert "; 3 calls do not fit in all" in text
        assert "fits with other settings of layer4.0.conv2, layer4.1.conv1, layer4.1.conv2; --settings FILE" in text
        assert report.settings is not None
        with planned_model("large_residual", "n150", config=report.settings) as planned:
            _, refusal = profile_fitting(planned, "trace+2cq")
        assert refusal is None


def test_each_misfit_is_one_that_the_model_has_when_those_before_are_cured() -> None:
    large = replace(ENTRY, name="large_residual", tt=TtResidualLarge)
    smaller = {"weights_dtype": ttnn.bfloat8_b}
    with registered(large):
        misfits = memory_of("large_residual").misfits
        cured: dict[str, Any] = {}
        for layer, said in zip(("layer4.0.conv2", "layer4.1.conv1", "layer4.1.conv2"), misfits, strict=True):
            with planned_model("large_residual", "n150", config=cured) as planned:
                _, refusal = profile_fitting(planned, "trace+2cq")
                assert refusal is not None and str(refusal).splitlines()[:2] == said.splitlines()[:2]
            assert "weights_dtype=ttnn.bfloat8_b" in said
            cured[layer] = smaller


@pytest.mark.usefixtures("too_large")
def test_calls_after_a_misfit_are_planned_as_if_it_had_fitted() -> None:
    report = memory_of("vanilla_unet")
    assert report.misfits[0] == report.refusal
    assert len({said.splitlines()[1] for said in report.misfits}) == len(report.misfits)


def test_other_options_are_told_where_the_model_fits_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """L1 between what the two precisions need: the report finds the one that fits."""
    from tt_cnn.virtual import arch

    peaks = {p: memory_of("resnet50", precision=p).profile.l1_peak for p in ("tuned", "bfloat16")}
    assert peaks["tuned"] < peaks["bfloat16"]
    n150 = arch.CARDS["n150"]
    between = n150.l1_base + (peaks["tuned"] + peaks["bfloat16"]) // 2
    monkeypatch.setitem(arch.CARDS, "n150", replace(n150, l1_size=between // 64 * 64))
    report = memory_of("resnet50", precision="bfloat16")
    assert not report.fits and "--precision tuned" in report.other_options
    assert "the model fits with --precision tuned" in "\n".join(report_text(report))
