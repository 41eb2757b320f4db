# SPDX-License-Identifier: Apache-2.0
"""Replays of traces in `exact` numerics: what the commands launch, as a CUDA graph.

The host takes longer to launch the kernels of a small model than the GPU to run them. A graph launches them at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor

from tt_cnn.virtual.engines.replay.cuda.exact.launches import keeping
from tt_cnn.virtual.engines.replay.cuda.recording import recorded
from tt_cnn.virtual.engines.replay.replay import OnHost, Part, Replay
from tt_cnn.virtual.engines.streams import here
from tt_cnn.virtual.engines.traced import TracedCell, TracedCommand
from tt_cnn.virtual.errors.failures import run_commands

log = logging.getLogger("tt_cnn.virtual")


class CapturedCommands:
    """A host as `hosts.py` has them: inputs are copied in, one launch runs all commands, outputs are copied out."""

    def __init__(self, program: Callable[..., list[Tensor]], inputs: Sequence[Tensor]) -> None:
        device = inputs[0].device
        self._inputs = [x.clone() for x in inputs]
        self._outputs: list[Tensor] = []
        stream = torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        with _of_no_queue(), torch.cuda.stream(stream), keeping() as self._kept:
            program(*self._inputs)  # kernels are compiled, tables are made
            stream.synchronize()
            self._graph = recorded(lambda: self._outputs.extend(program(*self._inputs)))
        torch.cuda.current_stream(device).wait_stream(stream)

    def __call__(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        for static, value in zip(self._inputs, inputs, strict=True):
            static.copy_(value)
        self._graph.replay()
        return [one.clone() for one in self._outputs]


@contextmanager
def _of_no_queue() -> Iterator[None]:
    """What is read meanwhile stays for as long as the graph does: no queue need be done with it."""
    streams = getattr(here, "streams", None)
    here.streams = None
    try:
        yield
    finally:
        here.streams = streams


class FollowedReplay(Replay):
    """Its commands run one by one where some of them look at their values, or compute on the host."""

    def __init__(self, commands: Sequence[TracedCommand], outputs: Sequence[TracedCell]) -> None:
        super().__init__(commands, outputs, "cuda", exact=True)

    def _compiled(self, commands: Sequence[TracedCommand], outputs: Sequence[TracedCell]) -> Part:
        program, inputs = self._program(commands, outputs)
        sources = self._sources(commands)
        if not sources:
            return self._one_by_one("the same at every replay")
        try:
            host = CapturedCommands(program, inputs)
        except Exception as error:  # of CUDA, of Triton and of commands, each with its own kinds
            log.info("a trace is not captured, its commands run one by one: %s", error)
            return self._one_by_one(f"not captured: {error}")
        return Part("cuda", commands, OnHost(host, sources, [x.shape for x in inputs], outputs))

    def _in_parts(self) -> list[Part]:
        return [self._one_by_one("inputs of whole numbers")]

    def _one_by_one(self, why: str) -> Part:
        return Part("torch", self.commands, partial(run_commands, self.commands), why)
