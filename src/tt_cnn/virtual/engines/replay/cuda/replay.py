# SPDX-License-Identifier: Apache-2.0
"""Replays of traces whose tensors are on the GPU."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

import torch

from tt_cnn.virtual.engines.precision import EightBits
from tt_cnn.virtual.engines.replay.cuda.guarded import GuardedReplay
from tt_cnn.virtual.engines.replay.cuda.host import CudaGraph
from tt_cnn.virtual.engines.replay.eight_bit.beside import LearningBeside
from tt_cnn.virtual.engines.replay.eight_bit.guard import EightBit
from tt_cnn.virtual.engines.replay.fp8.choice import in_fp8
from tt_cnn.virtual.engines.replay.fp8.rewrite import Fp8Rounding
from tt_cnn.virtual.engines.replay.graph import Node
from tt_cnn.virtual.engines.replay.hosts import Host
from tt_cnn.virtual.engines.replay.replay import OnHost, Part
from tt_cnn.virtual.engines.traced import TracedCell, TracedCommand

log = logging.getLogger("tt_cnn.virtual")


class CudaReplay(GuardedReplay):
    """Its commands run one by one where torch has no kernel of 16 bits for something that has none of ours, or where
    the GPU has no room for the replay's own memory."""

    @property
    def graphs(self) -> list[CudaGraph]:
        """Of the compiled parts, in their order."""
        hosts = [part.run.host for part in self.parts if isinstance(part.run, OnHost)]
        return [host for host in hosts if isinstance(host, CudaGraph)]

    def _graph(self, nodes: Sequence[Node], inputs: Sequence[torch.Tensor], room: float) -> Host:
        return CudaGraph(nodes, inputs, room=room)


class Fp8Replay(LearningBeside, CudaReplay):
    """In 16 bits until it has learnt which convolutions may be in 8."""

    rounding = Fp8Rounding

    def __init__(self, commands: Sequence[TracedCommand], outputs: Sequence[TracedCell], precision: EightBits) -> None:
        super().__init__(commands, outputs)
        self.precision = precision

    def _in_eight_bits(self, part: Part, guard: float) -> Part:
        run = part.run
        assert isinstance(run, OnHost) and isinstance(run.host, CudaGraph)
        sample, dtype = run.samples[0], run.host.launches.dtype
        try:
            found, host = in_fp8(run.nodes, run.samples, run.host, lambda nodes: CudaGraph(nodes, sample, dtype), guard)
        except Exception as error:  # of the compiler and of the GPU, each with its own kinds; 16 bits run
            log.warning("a trace stays in 16 bits, 8 bits failed: %s", error)
            found, host = EightBit(0, guard, refused=f"8 bits failed: {error}", plain="16 bits"), None
        log.info("%s", found)
        if host is None:
            return replace(part, eight_bit=found)
        return replace(part, run=OnHost(host, run.sources, run.shapes, run.outputs), eight_bit=found)
