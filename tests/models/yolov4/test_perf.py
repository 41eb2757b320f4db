"""How long it takes, on this machine: that there are figures, and that the outputs behind them are right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tt_cnn.models import create_pipeline, create_reference, create_tt, model_entry
from tt_cnn.testing import DevicePerformanceTestConfiguration, assert_with_pcc, run_device_perf_test
from tt_cnn.testing.engine_time import ENGINE_TIME

NO_LIMIT = 1e9
"""A margin so wide that no speed fails: the time is the virtual card's engine's, not a card's."""
ENTRY = model_entry("yolov4")


def test_device_performance(open_device: Callable[..., Any]) -> None:
    reference = create_reference("yolov4", shipped=True)
    images = ENTRY.example_input()
    device = open_device()
    model = create_tt("yolov4", device, reference)
    placed = model.place(images)
    boxes = []
    report = run_device_perf_test(
        DevicePerformanceTestConfiguration(
            model_name="yolov4",
            test_command=lambda: boxes.append(model.to_torch(model(placed))[0]),
            batch_size=1,
            expected_throughput_fps=1.0,
            margin=NO_LIMIT,
            device=device,
            warmup_iterations=1,
        )
    )
    results = report["post_processed_results"]
    assert results["time"] == ENGINE_TIME and results["AVG DEVICE KERNEL SAMPLES/S"] > 0
    with torch.no_grad():
        assert_with_pcc(reference(images)[0], boxes[-1], ENTRY.gates["boxes"])


@pytest.mark.long
@pytest.mark.parametrize("executor", ["trace+2cq", "trace+2cq+io"])
def test_end_to_end_performance(executor: str, open_device: Callable[..., Any]) -> None:
    reference = create_reference("yolov4", shipped=True)
    images = ENTRY.example_input()
    model = create_tt("yolov4", open_device(num_command_queues=2, hazards="raise"), reference)
    inputs = [model.to_host_input(images)] * 4
    with create_pipeline(model, executor) as pipeline:
        pipeline.compile(inputs[0])
        outputs = [model.to_torch(output) for output in pipeline.enqueue(inputs).pop_all()]
        stats = pipeline.stats()
    assert stats.inputs == len(inputs) and stats.fps > 0
    with torch.no_grad():
        assert_with_pcc(reference(images)[0], outputs[0][0], ENTRY.gates["boxes"])
    assert all(torch.equal(a, b) for one in outputs for a, b in zip(one, outputs[0], strict=True))
