"""A program as a CUDA graph: inputs are copied in, one launch runs all of it, outputs are copied out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from tt_cnn.virtual.engines.replay.cuda import launch
from tt_cnn.virtual.engines.replay.cuda.program import Program
from tt_cnn.virtual.engines.replay.cuda.steps import ByTorch, Computed, Convolution
from tt_cnn.virtual.engines.replay.cuda.tuning import Tuner, library, signature
from tt_cnn.virtual.engines.replay.graph import Node

WARM_UPS = 2


class CudaGraph:
    """A host as `hosts.py` has them, for tensors on the GPU."""

    def __init__(self, outputs: Sequence[Node], device: torch.device, pdl: bool = True) -> None:
        self.program = Program(outputs, device)
        self.graph = torch.cuda.CUDAGraph()
        self._pdl = pdl
        stream = torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream), torch.no_grad():
            self._choose()
            for _ in range(WARM_UPS):
                self.program.run()
            with torch.cuda.graph(self.graph, stream=stream, capture_error_mode="thread_local"):
                self.program.run()
        torch.cuda.current_stream(device).wait_stream(stream)

    def __call__(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        for static, value in zip(self.program.inputs, inputs, strict=True):
            static.copy_(value)
        self.graph.replay()
        return [
            one.to(torch.float32, memory_format=torch.contiguous_format, copy=True) for one in self.program.outputs()
        ]

    def _choose(self) -> None:
        """A launch for every step."""
        program = self.program
        cache = Path(os.environ.get("TT_CNN_CACHE") or Path.home() / ".cache" / "tt-cnn")
        workspace = launch.Workspace(program.device)
        tuner = Tuner(workspace, cache)
        convolutions: list[tuple[str, Convolution, bool]] = []
        for step in program.steps:
            if isinstance(step, Convolution):
                in_place = program.in_place(step.fused.result)
                convolutions.append((signature(step, in_place), step, in_place))
            elif isinstance(step, Computed):
                step.run = launch.computed(step, cache / "expressions", self._pdl)
            elif not isinstance(step, ByTorch):
                step.run = launch.simple(step, self._pdl)
        tuner.tune(convolutions, partial(library, keep=lambda node, value: None, pdl=False))
        for key, step, _ in convolutions:
            way: Any = tuner.known(key)
            if way[1] is None:
                step.run = library(step, way, program.keep, self._pdl)
            else:
                step.run = launch.convolution(step, tuner.matrix(step), way[1], workspace, self._pdl)
        self._kept = workspace
