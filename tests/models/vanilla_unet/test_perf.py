"""How long it takes, on this machine: that there are figures, and that the outputs behind them are right."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tt_cnn import ttnn
from tt_cnn.models import create_pipeline, create_reference, create_tt, model_entry
from tt_cnn.testing import DevicePerformanceTestConfiguration, assert_with_pcc, run_device_perf_test
from tt_cnn.testing.engine_time import ENGINE_TIME

NO_LIMIT = 1e9
"""A margin so wide that no speed fails: the time is the virtual card's engine's, not a card's."""


def test_device_performance(device: Any) -> None:
    reference = create_reference("vanilla_unet", shipped=True)
    images = model_entry("vanilla_unet").example_input()
    model = create_tt("vanilla_unet", device, reference)
    placed = model.place(images)
    masks = []
    report = run_device_perf_test(
        DevicePerformanceTestConfiguration(
            model_name="vanilla_unet",
            test_command=lambda: masks.append(model.to_torch(model(placed))[0]),
            batch_size=1,
            expected_throughput_fps=1.0,
            margin=NO_LIMIT,
            device=device,
            warmup_iterations=0,
        )
    )
    results = report["post_processed_results"]
    assert results["time"] == ENGINE_TIME and results["AVG DEVICE KERNEL SAMPLES/S"] > 0
    with torch.no_grad():
        assert_with_pcc(reference(images), masks[-1], 0.99)


@pytest.mark.long
@pytest.mark.parametrize("executor", ["trace+2cq", "trace+2cq+io"])
def test_end_to_end_performance(executor: str) -> None:
    entry = model_entry("vanilla_unet")
    reference = create_reference("vanilla_unet", shipped=True)
    images = entry.example_input()
    device = ttnn.open_device(device_id=0, l1_small_size=entry.l1_small_size, num_command_queues=2, hazards="raise")
    try:
        model = create_tt("vanilla_unet", device, reference)
        inputs = [model.to_host_input(images)] * 4
        with create_pipeline(model, executor) as pipeline:
            pipeline.compile(inputs[0])
            outputs = pipeline.enqueue(inputs).pop_all()
            masks = [model.to_torch(output)[0] for output in outputs]
            stats = pipeline.stats()
    finally:
        ttnn.close_device(device)
    assert stats.inputs == len(inputs) and stats.fps > 0
    with torch.no_grad():
        assert_with_pcc(reference(images), masks[0], 0.99)
    assert all(torch.equal(mask, masks[0]) for mask in masks)
