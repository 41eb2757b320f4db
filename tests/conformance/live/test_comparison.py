# SPDX-License-Identifier: Apache-2.0
"""Recordings of the real library beside changed copies of themselves: each difference is found where it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.live.recorded import real_recording
from tt_cnn.conformance.live.comparison import compare
from tt_cnn.conformance.live.recording import LiveStep, Recording, RecordingError, load_recording

STEP = 3


def test_a_recording_equals_itself() -> None:
    found = compare(real_recording(), real_recording())
    assert found.agrees and found.equal == found.steps
    assert found.counts["status"].agree == 1


def _spec(step: LiveStep, **changes: Any) -> None:
    step.outputs = [{**step.outputs[0], **changes}]


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("factory", lambda step: setattr(step, "factory", "Another")),
        ("outputs", lambda step: _spec(step, layout="ROW_MAJOR")),
        ("addresses", lambda step: _spec(step, address=64)),
        ("cbs", lambda step: step.cbs.pop()),
        ("staging", lambda step: step.staging.append([32, 0, []])),
        ("buffers", lambda step: step.buffers.pop()),
        ("frees", lambda step: step.frees.append([1, 64, 64])),
    ],
)
def test_each_field_is_compared(field: str, change: Callable[[LiveStep], Any]) -> None:
    virtual = real_recording()
    change(virtual.steps[STEP])
    (difference,) = compare(real_recording(), virtual).differences
    assert (difference.step, difference.op, difference.field) == (STEP, "Conv2d", field)
    assert difference.call == "ttnn.conv2d"


def test_peaks_are_compared_once_a_call() -> None:
    virtual = real_recording()
    virtual.calls[0].peak = {"cb": 0, "l1": 0, "staging": 0, "total": 0}
    (difference,) = compare(real_recording(), virtual).differences
    assert (difference.step, difference.field) == (0, "peak")


def test_a_step_too_few_does_not_make_the_rest_differ() -> None:
    virtual = real_recording()
    gone = virtual.steps.pop(STEP)
    found = compare(real_recording(), virtual)
    assert [(d.step, d.field, d.real, d.virtual) for d in found.differences] == [(STEP, "step", gone.op, None)]
    assert found.equal == found.steps - 1


def test_a_step_too_many_is_a_difference() -> None:
    virtual = real_recording()
    virtual.steps.insert(STEP, LiveStep("Clone"))
    (difference,) = compare(real_recording(), virtual).differences
    assert (difference.field, difference.real, difference.virtual) == ("step", None, "Clone")


def test_the_order_of_core_ranges_has_no_meaning() -> None:
    recordings = real_recording(), real_recording()
    ranges = [[[0, 0], [7, 2]], [[0, 3], [0, 3]]]
    recordings[0].steps[STEP].staging = [[64, 0, ranges]]
    recordings[1].steps[STEP].staging = [[64, 0, ranges[::-1]]]
    assert compare(*recordings).agrees


def test_buffers_that_the_real_library_does_not_tell_are_not_compared() -> None:
    real = real_recording()
    real.steps[STEP].cached, real.steps[STEP].cbs, real.steps[STEP].staging = True, [], None
    found = compare(real, real_recording())
    assert found.agrees and found.by_op["Conv2d"].keys().isdisjoint({"cbs", "staging"})


def test_outputs_that_the_real_library_does_not_report_are_not_compared() -> None:
    real = real_recording()
    read_by = [number for number, step in enumerate(real.steps) if number > STEP and step.inputs]
    real.steps[STEP].outputs = []
    found = compare(real, real_recording())
    assert found.agrees and "outputs" not in found.by_op["Conv2d"]
    virtual = real_recording()
    virtual.steps[read_by[0]].inputs[0]["address"] = 64
    assert "addresses" in {each.field for each in compare(real, virtual).differences}
    virtual = real_recording()
    virtual.steps[STEP].outputs = []
    assert {each.field for each in compare(real_recording(), virtual).differences} == {"outputs", "addresses"}


def _ended(message: str) -> Recording:
    recording = real_recording()
    recording.status, recording.error, recording.message = "error", "RuntimeError", message
    return recording


def test_programs_may_end_with_the_same_error() -> None:
    assert compare(_ended("clash in program 7"), _ended("clash in program 9")).agrees
    (difference,) = compare(_ended("Out of Memory"), real_recording()).differences
    assert (difference.field, difference.real, difference.virtual) == ("status", "RuntimeError: Out of Memory", "ok")


def test_recordings_are_kept_in_files(tmp_path: Any) -> None:
    file = tmp_path / "steps.json.gz"
    real_recording().save(file)
    assert load_recording(file) == real_recording()
    file.write_bytes(b"no recording")
    with pytest.raises(RecordingError, match=r"steps\.json\.gz: not a recording of a live run"):
        load_recording(file)
