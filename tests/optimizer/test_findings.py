# SPDX-License-Identifier: Apache-2.0
"""Findings of a whole model: each bottleneck is planted, named, cured by its settings, and saves what was said."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.optimizer.residual import AUTOMATIC, ENTRY, IN_DRAM, registered
from tt_cnn.builder.overrides import Assignment
from tt_cnn.optimizer.findings import apply, find_in_model
from tt_cnn.optimizer.prediction import PlannedNetwork, Prediction, planned_network
from tt_cnn.reports.collection import no_collection
from tt_cnn.reports.findings import KINDS
from tt_cnn.reports.findings_file import read_findings, write_findings
from tt_cnn.reports.profile_json import load_profile, save_profile
from tt_cnn.reports.profiling import planned_model
from tt_cnn.reports.records import Finding, Profile


@pytest.fixture(scope="module", autouse=True)
def models() -> Iterator[None]:
    with registered(ENTRY, IN_DRAM, AUTOMATIC):
        yield


FOUND: dict[str, Profile] = {}


def judged(name: str) -> Profile:
    """Found once for each model."""
    if name not in FOUND:
        with planned_network(name, "n150") as network:
            FOUND[name] = find_in_model(network)
    return FOUND[name]


def built_with(name: str, settings: Any) -> Prediction:
    """The model made anew from a configuration, as a user does."""
    with planned_model(name, "n150", config=settings) as planned, no_collection():
        prediction = PlannedNetwork(planned).predict(Assignment())
    assert isinstance(prediction, Prediction), prediction
    return prediction


def saved(name: str, settings: Any) -> float:
    """With the gaps between steps, as findings count."""
    before, after = built_with(name, None), built_with(name, settings)
    gap = min(row.gap_ns for row in judged(name).rows[1:])
    return before.device_ns - after.device_ns + gap * (before.steps - after.steps)


def named(name: str, kind: str, words: str) -> Finding:
    ours = [one for one in judged(name).findings or () if one.kind == kind and words in str(one)]
    assert ours, [str(one) for one in judged(name).findings or ()]
    return ours[0]


PLANTED = {
    "a stage in height shards": ("naive_residual", "few cores", "block sharding for all of them"),
    "a stage that TT-NN shards": ("residual_automatic", "few cores", "block sharding for all of them"),
    "a network in DRAM": ("residual_in_dram", "DRAM", "keep tensors in DRAM that fit into L1"),
    "a slow average": ("naive_residual", "average", "brings its image of 7x7 to rows"),
    "single buffers": ("naive_residual", "double buffering", "set enable_act_double_buffer=True"),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_a_bottleneck_is_named_and_cured_as_predicted(planted: str) -> None:
    model, kind, words = PLANTED[planted]
    finding = named(model, kind, words)
    assert kind in KINDS and finding.changes
    comes = saved(model, Assignment.from_dict(finding.changes))
    assert finding.saves_ns == pytest.approx(comes, rel=0.05)


def test_cores_that_only_hold_input_do_not_count_as_working() -> None:
    profile = judged("residual_automatic")
    row = next(row for row in profile.rows if row.layer == "layer3.0.conv2" and row.op == "Conv2d")
    assert (row.cores, row.working_cores) == (64, 7)
    assert "run on 7 of 64 cores" in named("residual_automatic", "few cores", "layer3.0.conv1 to ").problem


def test_a_stage_saves_more_than_its_layers_alone_and_replaces_them() -> None:
    stage = named("naive_residual", "few cores", "layer3.0.conv1 to layer4.1.conv2")
    few = [one for one in judged("naive_residual").findings or () if one.kind == "few cores"]
    assert len(stage.changes) == 10 and few[0] is stage
    assert not [one for one in few[1:] if one.changes.keys() <= stage.changes.keys()]


@pytest.mark.parametrize("model", ["naive_residual", "residual_in_dram", "residual_automatic"])
def test_the_total_holds_when_all_are_applied(model: str) -> None:
    profile = judged(model)
    together = profile.together
    assert together is not None and profile.findings is not None
    assert together.saves_ns == pytest.approx(saved(model, apply(profile)), rel=0.05)
    applied = [profile.findings[number] for number in together.applied]
    assert together.saves_ns >= max(one.saves_ns for one in applied)
    assert together.saves_ns <= sum(one.saves_ns for one in applied) * 1.001
    assert set(together.changes) == {layer for one in applied for layer in one.changes}


def test_findings_are_applied_from_files(tmp_path: Path) -> None:
    profile = judged("naive_residual")
    save_profile(profile, tmp_path / "profile.json")
    write_findings(profile, tmp_path / "findings.json")
    wanted = apply(profile)
    assert wanted and apply(tmp_path) == apply(tmp_path / "profile.json") == apply(tmp_path / "findings.json") == wanted
    assert load_profile(tmp_path).findings == profile.findings
    assert read_findings(tmp_path / "findings.json") == (profile.findings, profile.together)
    data = json.loads((tmp_path / "findings.json").read_text())
    assert data["model"] == "naive_residual" and data["findings"][0]["changes"]


def test_findings_of_some_kinds_or_layers_are_applied() -> None:
    profile = judged("naive_residual")
    average = apply(profile, kinds=["average"])
    assert average.to_dict() == {"average": {"as_mean": True}}
    assert apply(profile, layers=["average"]) == average
    assert not apply(profile, kinds=["weights"])


def test_of_two_findings_about_one_setting_the_first_is_applied() -> None:
    profile = judged("naive_residual")
    one, other = (
        Finding("weights", "a", "p", "a", ns, (), changes={"a": {"weights_dtype": f"DataType.{dtype}"}})
        for ns, dtype in ((2.0, "BFLOAT8_B"), (1.0, "BFLOAT4_B"))
    )
    merged = apply(replace(profile, findings=(one, other), together=None))
    assert merged.to_dict() == one.changes


def test_a_file_without_findings_is_refused(tmp_path: Path) -> None:
    for text, said in (("[]", "has no findings"), ("{", "is not JSON"), ('{"kind": "tt-cnn findings"}', "no findings")):
        (tmp_path / "wrong.json").write_text(text)
        with pytest.raises(ValueError, match=said):
            apply(tmp_path / "wrong.json")


def test_what_the_whole_model_does_not_take_is_not_told() -> None:
    """Every finding with settings was planned with the whole model: none is refused, and none is slower."""
    for name in ("vanilla_unet", "mobilenetv2"):
        with planned_network(name, "n150") as network:
            profile = find_in_model(network)
            base = network.predict(Assignment())
            assert isinstance(base, Prediction) and profile.findings
            for one in profile.findings:
                if one.changes:
                    after = network.predict(Assignment.from_dict(one.changes))
                    assert isinstance(after, Prediction)
                    gap = min(row.gap_ns for row in profile.rows[1:])
                    less = base.device_ns - after.device_ns + gap * (base.steps - after.steps)
                    assert one.saves_ns == pytest.approx(less, rel=0.05)


@pytest.mark.parametrize("name", ["mobilenetv2", "vanilla_unet", "yolov4", "yolov8s"])
def test_findings_of_shipped_models_save_what_is_said(name: str) -> None:
    """Their code has calls of its own between layers, which findings also name and no setting can change."""
    profile = judged(name)
    assert profile.findings is not None
    if profile.together is not None:
        assert profile.together.saves_ns == pytest.approx(saved(name, apply(profile)), rel=0.05)
