"""How long it takes, on this machine: that there are figures, and that the outputs behind them are right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tt_cnn import ttnn
from tt_cnn.models import create_pipeline, create_tt, model_entry
from tt_cnn.models.measurement import Measurement
from tt_cnn.testing import DevicePerformanceTestConfiguration, run_device_perf_test
from tt_cnn.testing.engine_time import ENGINE_TIME

NO_LIMIT = 1e9
"""A margin so wide that no speed fails: the time is the virtual card's engine's, not a card's."""
FIRST: dict[str, Any] = {"precision": "tuned", "resolution": (640, 640), "batch_size": 1}


def test_device_performance(yolov8s: Any, device: Any, measured: Callable[..., Measurement]) -> None:
    model = create_tt("yolov8s", device, yolov8s)
    placed = model.place(model_entry("yolov8s").example_input())
    predictions = []
    report = run_device_perf_test(
        DevicePerformanceTestConfiguration(
            model_name="yolov8s",
            test_command=lambda: predictions.append(model.to_torch(model(placed))[0]),
            batch_size=1,
            expected_throughput_fps=1.0,
            margin=NO_LIMIT,
            device=device,
            warmup_iterations=0,
        )
    )
    results = report["post_processed_results"]
    assert results["time"] == ENGINE_TIME and results["AVG DEVICE KERNEL SAMPLES/S"] > 0
    assert torch.equal(predictions[-1], measured("yolov8s", **FIRST).outputs[0])


@pytest.mark.long
@pytest.mark.parametrize("executor", ["trace+2cq", "trace+2cq+io"])
def test_end_to_end_performance(executor: str, yolov8s: Any, measured: Callable[..., Measurement]) -> None:
    entry = model_entry("yolov8s")
    device = ttnn.open_device(device_id=0, l1_small_size=entry.l1_small_size, num_command_queues=2, hazards="raise")
    try:
        model = create_tt("yolov8s", device, yolov8s)
        inputs = [model.to_host_input(entry.example_input())] * 4
        with create_pipeline(model, executor) as pipeline:
            pipeline.compile(inputs[0])
            outputs = pipeline.enqueue(inputs).pop_all()
            predictions = [model.to_torch(output)[0] for output in outputs]
            stats = pipeline.stats()
    finally:
        ttnn.close_device(device)
    assert stats.inputs == len(inputs) and stats.fps > 0
    expected = measured("yolov8s", **FIRST).outputs[0]
    assert all(torch.equal(each, expected) for each in predictions)
