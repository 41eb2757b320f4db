# SPDX-License-Identifier: Apache-2.0
"""A program as a CUDA graph: inputs are copied in, one launch runs all of it, outputs are copied out."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

import torch

from tt_cnn import cache_folder
from tt_cnn.virtual.engines.replay.cuda import launch
from tt_cnn.virtual.engines.replay.cuda.compilation import compile_all, jobs_of
from tt_cnn.virtual.engines.replay.cuda.convolution_arguments import Workspace
from tt_cnn.virtual.engines.replay.cuda.guarded import ROOM
from tt_cnn.virtual.engines.replay.cuda.kernel_calls import ByTorch, Computed, Convolution, KernelCall
from tt_cnn.virtual.engines.replay.cuda.launches import Launches
from tt_cnn.virtual.engines.replay.cuda.recording import recorded
from tt_cnn.virtual.engines.replay.cuda.tuning import Tuner, library, replayed, signature
from tt_cnn.virtual.engines.replay.cuda.tunings import Way
from tt_cnn.virtual.engines.replay.fp8.e4m3 import E4M3
from tt_cnn.virtual.engines.replay.graph import Node

log = logging.getLogger("tt_cnn.virtual")

WARM_UPS, REPLAYS = 2, 10


class CudaGraph:
    """A host as `hosts.py` has them, for tensors on the GPU. All that lies between inputs and outputs has 16 bits.

    Float16 is eight times as fine as bfloat16 and as quick: it is taken where the values for `inputs` leave room.
    """

    def __init__(
        self,
        outputs: Sequence[Node],
        inputs: Sequence[torch.Tensor],
        dtype: torch.dtype | None = None,
        room: float = ROOM,
    ) -> None:
        device = inputs[0].device
        stream = torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream), torch.no_grad():
            self._prepare(outputs, inputs, dtype or torch.float16)
            if dtype is None and not self._has_room(room):
                self._prepare(outputs, inputs, torch.bfloat16)
            self._tune()
            self._compile()
            captured = [self._captured(early) for early in (False, True)]
            times = [_seconds(graph) for graph, _ in captured]
            self.graph, self._outputs = captured[times.index(min(times))]
            log.info("%d steps, %.1f us; starting early %.1f us", len(self.launches.calls), *(t * 1e6 for t in times))
        torch.cuda.current_stream(device).wait_stream(stream)

    def __call__(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        for static, value in zip(self.launches.inputs, inputs, strict=True):
            static.copy_(value)
        self.graph.replay()
        return [one.to(torch.float32, memory_format=torch.contiguous_format, copy=True) for one in self._outputs]

    @property
    def dtype(self) -> torch.dtype:
        return self.launches.dtype

    def seconds(self) -> float:
        """Of a replay by itself."""
        return _seconds(self.graph)

    def seconds_of_convolutions(self) -> dict[int, float]:
        """Of each by itself, by the identity of its weights in the graph; of those that share them, together."""
        found: dict[int, float] = {}
        for step in self.launches.calls:
            if isinstance(step, Convolution):
                key = id(step.node.inputs[1].value)
                found[key] = found.get(key, 0.0) + self._tuner.seconds(self._signature(step))
        return found

    def _prepare(self, outputs: Sequence[Node], inputs: Sequence[torch.Tensor], dtype: torch.dtype) -> None:
        self.launches = Launches(outputs, inputs[0].device, dtype)
        for static, value in zip(self.launches.inputs, inputs, strict=True):
            static.copy_(value)

    def _captured(self, early: bool) -> tuple[torch.cuda.CUDAGraph, list[torch.Tensor]]:
        """With kernels that start before the one before has ended, or not; and where its outputs are: cuDNN's are in
        memory of the graph's own."""
        self._launch(early)
        for _ in range(WARM_UPS):
            self.launches.run()
        torch.cuda.synchronize(self.launches.device)
        return recorded(self.launches.run), self.launches.outputs()

    def _has_room(self, room: float) -> bool:
        """Whether no step's values come near to the largest number; looked at before their memory is used again. Torch
        runs the steps: nothing is compiled for numbers that may not be taken."""
        largest = torch.zeros((), device=self.launches.device)
        for step in self.launches.calls:
            step.run()
            if isinstance(step, KernelCall) and step.y.dtype == E4M3:
                continue
            value = self.launches.tensor(step.node if isinstance(step, ByTorch) else step.result)
            largest = torch.maximum(largest, value.abs().amax().float())  # what is not a number stays
        return bool(largest * room <= torch.finfo(self.launches.dtype).max)

    def _tune(self) -> None:
        """Find out how each convolution runs quickest."""
        self._workspace = Workspace(self.launches.device)
        os.environ.setdefault("TRITON_CACHE_DIR", str(cache_folder.folder("triton")))  # it loads what lies there
        self._tuner = Tuner(self._workspace, cache_folder.folder())
        convolutions = [
            (self._signature(step), step, self.launches.in_place(step.result))
            for step in self.launches.calls
            if isinstance(step, Convolution)
        ]
        self._tuner.tune(convolutions, partial(library, keep=lambda node, value: None, pdl=False))

    def _signature(self, step: Convolution) -> str:
        return signature(step, self.launches.in_place(step.result))

    def _compile(self) -> None:
        """All kernels, of both kinds of launches."""
        jobs: dict[Hashable, Callable[[], Any]] = {}
        for early in (False, True):
            self._launch(early)
            tiled = []
            for step in self.launches.calls:
                way = self._way(step) if isinstance(step, Convolution) else ("triton", None)
                if isinstance(step, Convolution) and way[1] is not None:
                    tiled.append((step, way[1]))
                elif not isinstance(step, ByTorch) and way[0] != "cudnn":
                    jobs |= jobs_of(launch.noted(step.run))
            jobs |= self._tuner.jobs(tiled, early)
        compile_all(jobs)

    def _way(self, step: Convolution) -> Way:
        return self._tuner.known(self._signature(step))

    def _launch(self, early: bool) -> None:
        """A launch for every step."""
        for step in self.launches.calls:
            if isinstance(step, Convolution):
                name, tiles = self._way(step)
                if tiles is None:
                    step.run = library(step, name, self.launches.keep, early)
                else:
                    matrix = self._tuner.matrix(step, tiles.neighbours)
                    step.run = launch.convolution(step, matrix, tiles, self._workspace, early)
            elif isinstance(step, Computed):
                step.run = launch.computed(step, early)
            elif not isinstance(step, ByTorch):
                step.run = launch.simple(step, early)


def _seconds(graph: torch.cuda.CUDAGraph) -> float:
    return min(replayed(graph) for _ in range(REPLAYS))
