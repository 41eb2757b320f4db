"""Inputs on a GPU, looked at while their replay runs already: the GPU has work while the host decides."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from tt_cnn.virtual.engines.replay.eight_bit.inputs import statistics
from tt_cnn.virtual.engines.replay.eight_bit.replay import LearningReplay
from tt_cnn.virtual.engines.replay.replay import values_of


def measured(inputs: Sequence[torch.Tensor]) -> torch.Tensor:
    """A row of numbers for each input."""
    return torch.stack([statistics(value) for value in inputs])


class Measurement:
    """Where tensors are on the CPU: at once."""

    def __init__(self) -> None:
        self._found: list[list[float]] = []

    def start(self, inputs: Sequence[torch.Tensor]) -> None:
        self._found = measured(inputs).tolist() if inputs else []

    def wait(self) -> list[list[float]]:
        return self._found


class GpuMeasurement(Measurement):
    """One CUDA graph on a stream of its own and one copy to pinned memory. Only that is waited for."""

    def __init__(self, inputs: Sequence[torch.Tensor]) -> None:
        super().__init__()
        device = inputs[0].device
        self._stream = torch.cuda.Stream(device)
        self._static = [torch.empty_like(value, memory_format=torch.contiguous_format) for value in inputs]
        self._stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(self._stream):
            self._take(inputs)
            measured(self._static)  # what torch sets up at a first call cannot be captured
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, stream=self._stream, capture_error_mode="thread_local"):
            self._numbers = measured(self._static)
        self._host = torch.empty(self._numbers.shape, pin_memory=True)
        self._done = torch.cuda.Event()

    def start(self, inputs: Sequence[torch.Tensor]) -> None:
        self._stream.wait_stream(torch.cuda.current_stream(self._stream.device))
        with torch.cuda.stream(self._stream):
            self._take(inputs)
            self._graph.replay()
            self._host.copy_(self._numbers, non_blocking=True)
            self._done.record(self._stream)

    def wait(self) -> list[list[float]]:
        """Inputs must be kept until then: they belong to another stream."""
        self._done.synchronize()
        found: list[list[float]] = self._host.tolist()
        return found

    def _take(self, inputs: Sequence[torch.Tensor]) -> None:
        for static, value in zip(self._static, inputs, strict=True):
            static.copy_(value, non_blocking=True)


def create_measurement(inputs: Sequence[torch.Tensor]) -> Measurement:
    return GpuMeasurement(inputs) if inputs and inputs[0].is_cuda else Measurement()


class LearningBeside(LearningReplay):
    """Launches a replay in 8 bits, and another without them where its inputs turn out to be unlike the samples.

    There are no witnesses within it: the host would have to wait for its end, and the GPU for the host.
    """

    _measurement: Measurement | None

    def _compile_whole(self) -> bool:
        self._measurement = None
        return super()._compile_whole()

    def _look_at_inputs(self) -> str:
        inputs = [value for cell, _ in self._ranges for value in values_of(cell)]
        if self._measurement is None:
            self._measurement = create_measurement(inputs)
        self._measurement.start(inputs)
        return ""

    def _look_at_results(self) -> str:
        assert self._measurement is not None
        ranges = [known for cell, known in self._ranges for _ in values_of(cell)]
        found = zip(ranges, self._measurement.wait(), strict=True)
        return next(filter(None, (known.unlike(numbers) for known, numbers in found)), "")
