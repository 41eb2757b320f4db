# SPDX-License-Identifier: Apache-2.0
"""Models and single layers planned without computing, for the cost model's tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from tt_cnn import ttnn
from tt_cnn.models.registry import create_tt, model_entry
from tt_cnn.pipeline.outputs import leaves_of
from tt_cnn.reports.recording import PlanningCard
from tt_cnn.virtual.cost.executors import Pass
from tt_cnn.virtual.cost.schedule import Transfer
from tt_cnn.virtual.planning.plan import Step
from tt_cnn.virtual.queues.queue import Command


@contextmanager
def steps_of(device: Any) -> Iterator[list[Step]]:
    """The steps dispatched inside."""
    found: list[Step] = []

    def note(command: Command) -> None:
        found.extend(placed.step for placed in command.steps)

    device.listeners.append(note)
    try:
        yield found
    finally:
        device.listeners.remove(note)


@dataclass(frozen=True)
class Recording:
    steps: Sequence[Step]
    calls: Pass


def record_model(name: str, card: str, resolution: tuple[int, int], batch_size: int) -> Recording:
    """A warm pass of a registered model: weights are on the card, programs in the cache."""
    entry = model_entry(name)
    device = PlanningCard(card, l1_small_size=entry.l1_small_size)
    try:
        reference = entry.reference().eval()
        model = create_tt(name, device, reference, resolution=resolution, batch_size=batch_size)
        host = model.to_host_input(torch.zeros(batch_size, 3, *resolution))
        kept = ttnn.to_device(host, device, memory_config=model.dram_input_memory_config)
        return _warm_pass(model, device, kept)
    finally:
        device.close()


def _warm_pass(model: Any, device: Any, kept: Any) -> Recording:
    model(ttnn.to_memory_config(kept, model.l1_input_memory_config))
    with steps_of(device) as stage:
        staged = ttnn.to_memory_config(kept, model.l1_input_memory_config)
    with steps_of(device) as steps:
        outputs = list(leaves_of(model(staged)))
    configs = model.dram_output_memory_config
    targets = configs if isinstance(configs, (list, tuple)) else [configs] * len(outputs)
    with steps_of(device) as spill:
        spilled = [ttnn.to_memory_config(o, c) for o, c in zip(outputs, targets, strict=True)]
    reads = [_transfer(tensor, "read") for tensor in spilled]
    return Recording(steps, Pass(_transfer(kept, "write"), stage, steps, reads, spill))


def _transfer(tensor: Any, direction: Any) -> Transfer:
    spec = tensor.spec
    return Transfer(direction, spec.num_pages * spec.page_bytes, spec.page_bytes)


def convolution(
    device: Any,
    x: Any,
    size: int,
    channels: tuple[int, int],
    window: tuple[int, int, int],
    config: Any,
    compute: Any,
    dtype: Any = ttnn.bfloat8_b,
) -> Any:
    """A planned `conv2d` in L1 on a square image, with a bias; the window is kernel, stride and padding."""
    (inputs, outputs), (kernel, stride, padding) = channels, window
    return ttnn.conv2d(
        input_tensor=x,
        weight_tensor=ttnn.from_torch(torch.zeros(outputs, inputs, kernel, kernel), dtype=ttnn.float32),
        bias_tensor=ttnn.from_torch(torch.zeros(1, 1, 1, outputs), dtype=ttnn.float32),
        device=device,
        in_channels=inputs,
        out_channels=outputs,
        batch_size=1,
        input_height=size,
        input_width=size,
        kernel_size=(kernel, kernel),
        stride=(stride, stride),
        padding=(padding, padding),
        conv_config=config,
        compute_config=compute,
        slice_config=ttnn.Conv2dL1FullSliceConfig,
        dtype=dtype,
    )
