# SPDX-License-Identifier: Apache-2.0
"""Numbers of a replay's inputs, found while the replay runs already: a GPU has work while the host decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from tt_cnn.virtual.engines.replay.cuda.recording import recorded

Measure = Callable[[torch.Tensor], torch.Tensor]
"""The numbers of one input, as a row on the input's device."""


class Measurement:
    """Where tensors are on the CPU: at once."""

    def __init__(self, measure: Measure) -> None:
        self._measure = measure
        self._found: list[list[float]] = []

    def start(self, inputs: Sequence[torch.Tensor]) -> None:
        self._found = self._rows(inputs).tolist() if inputs else []

    def wait(self) -> list[list[float]]:
        """A row for each input. Inputs must be kept until then."""
        return self._found

    def _rows(self, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
        return torch.stack([self._measure(value) for value in inputs])


class GpuMeasurement(Measurement):
    """One CUDA graph on a stream of its own and one copy to pinned memory. Only that is waited for."""

    def __init__(self, measure: Measure, inputs: Sequence[torch.Tensor]) -> None:
        super().__init__(measure)
        device = inputs[0].device
        self._stream = torch.cuda.Stream(device)
        self._static = [torch.empty_like(value, memory_format=torch.contiguous_format) for value in inputs]
        self._stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(self._stream):
            self._take(inputs)
            self._rows(self._static)  # what torch sets up at a first call cannot be captured
            torch.cuda.synchronize(device)
            self._graph = recorded(self._compute)
        self._host = torch.empty(self._numbers.shape, pin_memory=True)
        self._done = torch.cuda.Event()

    def _compute(self) -> None:
        self._numbers = self._rows(self._static)

    def start(self, inputs: Sequence[torch.Tensor]) -> None:
        self._stream.wait_stream(torch.cuda.current_stream(self._stream.device))
        with torch.cuda.stream(self._stream):
            self._take(inputs)
            self._graph.replay()
            self._host.copy_(self._numbers, non_blocking=True)
            self._done.record(self._stream)

    def wait(self) -> list[list[float]]:
        self._done.synchronize()
        found: list[list[float]] = self._host.tolist()
        return found

    def _take(self, inputs: Sequence[torch.Tensor]) -> None:
        for static, value in zip(self._static, inputs, strict=True):
            static.copy_(value.reshape(static.shape), non_blocking=True)


def create_measurement(measure: Measure, inputs: Sequence[torch.Tensor]) -> Measurement:
    return GpuMeasurement(measure, inputs) if inputs and inputs[0].is_cuda else Measurement(measure)
