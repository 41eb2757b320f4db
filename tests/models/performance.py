# SPDX-License-Identifier: Apache-2.0
"""What every `test_perf.py` looks at: the device's time for a call, and a pipeline from host to host."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tt_cnn.models import create_pipeline, create_tt, model_entry
from tt_cnn.models.running import opened_card, reference_outputs
from tt_cnn.reports.profile import profile_model
from tt_cnn.testing import DevicePerformanceTestConfiguration, check_with_pcc, run_device_perf_test
from tt_cnn.testing.device_time import PREDICTED

MARGIN = 0.2
"""How far from a published figure a prediction may be."""
SAME = 1e-6
"""How far from the profile's, which only plans."""


def check_device_performance(
    name: str, reference: nn.Module, *, batch_size: int = 1, published_fps: float | None = None
) -> None:
    """The predicted throughput of the steps that ran is the published one, or else the profile's."""
    entry = model_entry(name)
    images = entry.example_input(batch_size=batch_size)
    outputs: list[Any] = []
    with opened_card(entry) as device:
        model = create_tt(name, device, reference, batch_size=batch_size)
        placed = model.place(images)
        report = run_device_perf_test(
            DevicePerformanceTestConfiguration(
                model_name=name,
                test_command=lambda: outputs.append(model.to_torch(model(placed))),
                batch_size=batch_size,
                expected_throughput_fps=published_fps
                or profile_model(name, batch_size=batch_size, executor="plain").device_fps,
                margin=MARGIN if published_fps else SAME,
                device=device,
            )
        )
    assert report["post_processed_results"]["time"] == PREDICTED
    _check_outputs(name, reference, images, outputs)


def check_end_to_end_performance(
    name: str, reference: nn.Module, executor: str, *, batch_size: int = 1, count: int = 4
) -> None:
    """There are figures of the host's own time, and the outputs behind them are right."""
    entry = model_entry(name)
    images = entry.example_input(batch_size=batch_size)
    with opened_card(entry, executor=executor, hazards="raise") as device:
        model = create_tt(name, device, reference, batch_size=batch_size)
        inputs = [model.to_host_input(images)] * count
        with create_pipeline(model, executor) as pipeline:
            pipeline.compile(inputs[0])
            outputs = [model.to_torch(output) for output in pipeline.enqueue(inputs).pop_all()]
            stats = pipeline.stats()
    assert stats.inputs == count and stats.fps > 0
    _check_outputs(name, reference, images, outputs)


def _check_outputs(name: str, reference: nn.Module, images: torch.Tensor, outputs: list[Any]) -> None:
    """The last is near the reference's, and all are the same."""
    gates, expected = model_entry(name).gates.values(), reference_outputs(reference, images)
    for gate, golden, found in zip(gates, expected, outputs[-1], strict=True):
        passed, message = check_with_pcc(golden, found, gate)
        assert passed, message
    assert all(torch.equal(a, b) for one in outputs for a, b in zip(one, outputs[-1], strict=True))
