"""Figures of a run: the engine's time for a call, and a pipeline from host to host. They say nothing of a card."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tt_cnn.models import create_pipeline, create_tt, model_entry
from tt_cnn.models.resnet50.reference.model import ResNet50
from tt_cnn.testing import DevicePerformanceTestConfiguration, assert_with_pcc, run_device_perf_test
from tt_cnn.testing.engine_time import ENGINE_TIME

NO_LIMIT = 1e9
GATE = 0.98


@pytest.mark.parametrize("batch_size", [1, pytest.param(16, marks=pytest.mark.long)])
def test_device_performance(batch_size: int, resnet50: ResNet50, open_device: Callable[..., Any]) -> None:
    device = open_device()
    model = create_tt("resnet50", device, resnet50, batch_size=batch_size)
    images = model_entry("resnet50").example_input(batch_size=batch_size)
    placed = model.place(images)
    logits = []
    report = run_device_perf_test(
        DevicePerformanceTestConfiguration(
            model_name="resnet50",
            test_command=lambda: logits.append(model.to_torch(model(placed))[0]),
            batch_size=batch_size,
            expected_throughput_fps=1.0,
            margin=NO_LIMIT,
            device=device,
            warmup_iterations=0,
        )
    )
    results = report["post_processed_results"]
    assert results["time"] == ENGINE_TIME and results["AVG DEVICE KERNEL SAMPLES/S"] > 0
    with torch.no_grad():
        assert_with_pcc(resnet50(images), logits[-1], GATE)


@pytest.mark.long
@pytest.mark.parametrize("batch_size", [1, 16])
@pytest.mark.parametrize("executor", ["trace+2cq", "trace+2cq+io"])
def test_end_to_end_performance(
    executor: str, batch_size: int, resnet50: ResNet50, open_device: Callable[..., Any]
) -> None:
    device = open_device(num_command_queues=2, hazards="raise")
    model = create_tt("resnet50", device, resnet50, batch_size=batch_size)
    images = model_entry("resnet50").example_input(batch_size=batch_size)
    inputs = [model.to_host_input(images)] * 3
    with create_pipeline(model, executor) as pipeline:
        pipeline.compile(inputs[0])
        logits = [model.to_torch(output)[0] for output in pipeline.enqueue(inputs).pop_all()]
        stats = pipeline.stats()
    assert stats.inputs == len(inputs) and stats.fps > 0
    with torch.no_grad():
        assert_with_pcc(resnet50(images), logits[0], GATE)
    assert all(torch.equal(one, logits[0]) for one in logits)
