# SPDX-License-Identifier: Apache-2.0
"""config.json, config.py, the diff and the report: what is written is what the search found."""

from __future__ import annotations

import json
import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from tests.reports.html.test_report import Page
from tt_cnn import ttnn
from tt_cnn.builder import Conv2dConfiguration, HeightShardedStrategyConfiguration, PlacementConfiguration
from tt_cnn.builder.configuration import Configuration
from tt_cnn.builder.overrides import Assignment, read_settings
from tt_cnn.models import create_tt, model_entry
from tt_cnn.optimizer.checklist import CONV2D, PROGRESS, checklist
from tt_cnn.optimizer.prediction import Prediction, planned_network
from tt_cnn.optimizer.python_form import python_module
from tt_cnn.optimizer.report_page import answer, optimization_page, profiled
from tt_cnn.optimizer.result import OptimizationResult, StepReport
from tt_cnn.optimizer.result_folder import CONFIG, DIFF, PYTHON, REPORT, config_diff, write_files
from tt_cnn.optimizer.run import optimize
from tt_cnn.optimizer.settings import settings_in_force
from tt_cnn.optimizer.waterfall import kept_changes
from tt_cnn.reports.recording import PlanningCard

pytestmark = pytest.mark.usefixtures("fake_steps")


@pytest.fixture
def found() -> OptimizationResult:
    return optimize("vanilla_unet", steps=["fake_blocks", "pipeline"], candidates=60)


def test_config_json_gives_the_same_predicted_time(found: OptimizationResult, tmp_path: Path) -> None:
    write_files(found, tmp_path, "")
    with planned_network("vanilla_unet", "n150", config=read_settings(tmp_path / CONFIG)) as network:
        predicted = network.predict(Assignment())
    assert isinstance(predicted, Prediction)
    assert predicted.device_ns == found.after.prediction.device_ns < found.before.prediction.device_ns
    data = json.loads((tmp_path / CONFIG).read_text())
    assert set(data["layers"]) == set(found.configurations), "every layer is there"
    assert all("kernel_size" in data["layers"][name] for name in data["layers"] if ".conv" in name)


def test_create_tt_reads_it_and_refuses_it_for_another_task(found: OptimizationResult, tmp_path: Path) -> None:
    write_files(found, tmp_path, "")
    path = tmp_path / CONFIG
    device = PlanningCard("n150", 32768)
    try:
        model = create_tt("vanilla_unet", device, model_entry("vanilla_unet").reference().eval(), config=path)
        changed = next(iter(found.after.assignment))
        strategy: Any = model.layers[changed].configuration.sharding_strategy
        assert strategy == found.after.assignment[changed]["sharding_strategy"]
        with pytest.raises(ValueError, match="was made for model vanilla_unet, and model is mobilenetv2 here"):
            create_tt("mobilenetv2", device, nn.Module(), config=path)
        with pytest.raises(ValueError, match="was made for precision tuned"):
            create_tt("vanilla_unet", device, nn.Module(), precision="bfloat16", config=path)
        path.write_text(path.read_text()[:1000])
        with pytest.raises(ValueError, match="is no JSON file"):
            create_tt("vanilla_unet", device, nn.Module(), config=path)
    finally:
        device.close()


@pytest.mark.parametrize("model", ["vanilla_unet", "resnet50", "mobilenetv2", "yolov8s"])
def test_config_py_is_the_same_assignment(model: str, tmp_path: Path) -> None:
    result = optimize(model, steps=["fake_blocks"], candidates=30)
    write_files(result, tmp_path, "")
    module = runpy.run_path(str(tmp_path / PYTHON))
    assert Assignment(module["LAYERS"]) == read_settings(tmp_path / CONFIG)
    assert module["BATCH_SIZE"] == 1 and module["RESOLUTION"] == result.task.resolution
    assert max(map(len, (tmp_path / PYTHON).read_text().splitlines())) <= 120


def test_every_kind_of_value_has_a_python_form(tmp_path: Path) -> None:
    cores = ttnn.CoreRangeSet(
        [
            ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(7, 4)),
            ttnn.CoreRange(ttnn.CoreCoord(0, 5), ttnn.CoreCoord(2, 5)),
        ]
    )
    sharded = ttnn.MemoryConfig(
        ttnn.TensorMemoryLayout.HEIGHT_SHARDED,
        ttnn.BufferType.L1,
        ttnn.ShardSpec(cores, [64, 32], ttnn.ShardOrientation.ROW_MAJOR),
    )
    layers: dict[str, dict[str, Any]] = {
        'odd "name"\n\\': {"text": "it's", "more": 'a "quote"', "none": None, "one": (1,), "several": (1, 2.5, True)},
        "enums": {
            "a": ttnn.bfloat8_b,
            "b": ttnn.MathFidelity.HiFi2,
            "c": ttnn.ROW_MAJOR_LAYOUT,
            "d": ttnn.UnaryWithParam(ttnn.UnaryOpType.LEAKY_RELU, 0.125),
        },
        "cores": {"grid": ttnn.CoreGrid(y=3, x=5), "set": cores},
        "memory": {"l1": ttnn.L1_MEMORY_CONFIG, "dram": ttnn.DRAM_MEMORY_CONFIG, "sharded": sharded},
        "strategy": {"s": HeightShardedStrategyConfiguration(act_block_h_override=64, override_core_grid=cores)},
    }
    path = tmp_path / "config.py"
    path.write_text(python_module(layers, 'Title """ with \\ odd signs', {"MODEL": "x"}))
    assert Assignment(runpy.run_path(str(path))["LAYERS"]) == Assignment(layers)
    with pytest.raises(TypeError, match="cannot be written as Python"):
        python_module({"a": {"b": object()}}, "", {})


def test_the_diff_says_what_changed_and_nothing_else(found: OptimizationResult) -> None:
    lines = config_diff(found).splitlines()
    added = [line for line in lines if line.startswith("+") and "act_block_h_override" in line]
    assert len(added) == len(found.after.assignment) > 0
    settings = [line for line in lines if line.startswith((f'+{8 * " "}"', f'-{8 * " "}"'))]
    assert settings and all("sharding_strategy" in line for line in settings)


def test_nothing_is_written_over(found: OptimizationResult, tmp_path: Path) -> None:
    (tmp_path / DIFF).write_text("mine")
    with pytest.raises(FileExistsError):
        write_files(found, tmp_path, "")
    assert (tmp_path / DIFF).read_text() == "mine"


def test_the_checklist_is_ticked_truthfully(found: OptimizationResult) -> None:
    before, after = profiled(found, found.before), profiled(found, found.after)
    items = {(item.list, item.title): item for item in checklist(found, before, after)}
    assert len([key for key in items if key[0] == PROGRESS]) == 9 and len([k for k in items if k[0] == CONV2D]) == 8
    ticked = {title: item.ticked for (_, title), item in items.items()}
    assert ticked["act_block_h_override tuned for L1 utilization"], "blocks were tried and kept"
    assert ticked["Step 4: Metal Trace enabled"] and ticked["Step 5: Multi-CQ configured (if applicable)"]
    assert ticked["Batch normalization folded into convolutions"]
    assert not ticked["Final PCC verified ≥ 0.99"], "nobody measured it"
    assert not ticked["Activation dtype optimized per layer"], "it was not tried"
    assert not ticked["Step 7: Multi-device scaling (if applicable)"]
    assert "not applicable" in items[PROGRESS, "Step 7: Multi-device scaling (if applicable)"].evidence
    idle = optimize("vanilla_unet", steps=[], candidates=0)
    nothing = {item.title: item for item in checklist(idle)}
    assert not nothing["act_block_h_override tuned for L1 utilization"].ticked
    assert not nothing["Step 6: Conv2d tuned (if CNN)"].ticked and not nothing["Step 4: Metal Trace enabled"].ticked
    assert "not known" in nothing["Batch normalization folded into convolutions"].evidence
    measured = replace(found, pcc={"mask": 0.98})
    assert not next(i for i in checklist(measured, before, after) if "PCC" in i.title).ticked
    assert next(i for i in checklist(replace(found, pcc={"mask": 0.995})) if "PCC" in i.title).ticked


def test_the_report_shows_the_path_and_escapes_what_others_wrote(found: OptimizationResult) -> None:
    evil = "<script>alert(1)</script>"
    attempts = [replace(attempt, words=evil, reason=evil, step=evil) for attempt in found.journal.attempts]
    journal = replace(found.journal, attempts=attempts)
    fault = StepReport("bad <b>step</b>", 1, 0, 0, 0.0, 0.0, error=f"Traceback\nValueError: {evil}")
    page = optimization_page(replace(found, journal=journal, steps=(*found.steps, fault)))
    parsed = Page(page)
    assert parsed.open == [] and "https://" not in page
    ids = [attributes["id"] for _, attributes in parsed.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    bars = [attributes for attributes in parsed.all("rect") if attributes.get("class") == "c2"]
    assert len(bars) == sum(attempt.value is not None for attempt in found.kept)
    assert evil not in page and "&lt;script&gt;alert(1)" in page and "<b>step" not in page
    for said in ('id="waterfall"', "baseline", "Checklist", "L1 timeline", "act_block_h_override", "fault of the step"):
        assert said in page
    first = found.journal.kept[0]
    assert first.value is not None and f"{(first.value - first.best_value) / 1e3:+.1f}" in page
    assert found.verification.said in page
    before = f"{found.before.prediction.device_ns / 1e3:.1f} µs"
    assert answer(found).startswith(f"vanilla_unet 480x640, batch 1, on n150, predicted: {before} to ")
    assert {REPORT, CONFIG} <= {"report.html", "config.json"}


def test_bars_say_which_layers_changed_and_the_page_why_two_device_times_differ(found: OptimizationResult) -> None:
    page = optimization_page(found)
    for change in kept_changes(found):
        assert f"{change.step}: {change.where}" in page
    layers = next(attempt.changes for attempt in found.kept if attempt.value is not None)
    assert kept_changes(found)[0].where == (next(iter(layers)) if len(layers) == 1 else f"{len(layers)} layers")
    after = profiled(found, found.after)
    moves = after.device_ns - found.after.prediction.device_ns
    assert moves > 0.001 * after.device_ns
    assert f"{moves / 1e3:.1f} µs in which {found.after.deployment.executor} moves an input" in page


def test_settings_in_force_are_complete() -> None:
    own: dict[str, Configuration] = {"place": PlacementConfiguration()}
    assert settings_in_force(own, Assignment({"place": {"reallocate": True}})).to_dict() == {
        "place": {"memory_config": None, "reallocate": True}
    }
    assert Conv2dConfiguration.tensors == ("weight", "bias")
