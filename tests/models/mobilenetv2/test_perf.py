"""Figures of a run: the engine's time for a call, and a pipeline from host to host. They say nothing of a card."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tt_cnn import ttnn
from tt_cnn.models import create_pipeline, create_tt, model_entry
from tt_cnn.testing import DevicePerformanceTestConfiguration, assert_with_pcc, run_device_perf_test
from tt_cnn.testing.engine_time import ENGINE_TIME

NAME = "mobilenetv2"
GATE = 0.94
NO_LIMIT = 1e9
"""A margin so wide that no speed fails."""


def test_device_performance(reference: Any, device: Any) -> None:
    model = create_tt(NAME, device, reference)
    images = model_entry(NAME).example_input()
    placed = model.place(images)
    logits = []
    report = run_device_perf_test(
        DevicePerformanceTestConfiguration(
            model_name=NAME,
            test_command=lambda: logits.append(model.to_torch(model(placed))[0]),
            batch_size=1,
            expected_throughput_fps=1.0,
            margin=NO_LIMIT,
            device=device,
        )
    )
    results = report["post_processed_results"]
    assert results["time"] == ENGINE_TIME and results["AVG DEVICE KERNEL SAMPLES/S"] > 0
    with torch.no_grad():
        assert_with_pcc(reference(images), logits[-1], GATE)
    assert torch.equal(logits[0], logits[1])


@pytest.mark.long
@pytest.mark.parametrize("executor", ["trace+2cq", "trace+2cq+io"])
def test_end_to_end_performance(executor: str, reference: Any) -> None:
    entry = model_entry(NAME)
    device = ttnn.open_device(device_id=0, l1_small_size=entry.l1_small_size, num_command_queues=2, hazards="raise")
    try:
        model = create_tt(NAME, device, reference)
        images = entry.example_input()
        inputs = [model.to_host_input(images)] * 4
        with create_pipeline(model, executor) as pipeline:
            pipeline.compile(inputs[0])
            logits = [model.to_torch(output)[0] for output in pipeline.enqueue(inputs).pop_all()]
            stats = pipeline.stats()
    finally:
        ttnn.close_device(device)
    assert stats.inputs == len(inputs) and stats.fps > 0
    with torch.no_grad():
        assert_with_pcc(reference(images), logits[0], GATE)
    assert all(torch.equal(one, logits[0]) for one in logits)
