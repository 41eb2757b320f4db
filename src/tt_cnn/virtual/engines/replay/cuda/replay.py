"""Replays of traces whose tensors are on the GPU."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import torch

from tt_cnn.virtual.engines.replay.cuda.host import CudaGraph
from tt_cnn.virtual.engines.replay.graph import Node
from tt_cnn.virtual.engines.replay.hosts import Host
from tt_cnn.virtual.engines.replay.replay import Part, Replay, _runner
from tt_cnn.virtual.queues import Command
from tt_cnn.virtual.storage import Cell

log = logging.getLogger("tt_cnn.virtual")


class CudaReplay(Replay):
    """Compiles as those on the CPU do, with one host. Its commands run one by one where torch has no kernel of 16 bits
    for something that has none of ours, or where the GPU has no room for the replay's own memory."""

    def __init__(self, commands: Sequence[Command], outputs: Sequence[Cell]) -> None:
        super().__init__(commands, outputs, "cuda")
        self.graphs: list[CudaGraph] = []
        """Of the compiled parts, in their order."""

    def _compile(self) -> list[Part]:
        self.graphs = []
        try:
            return super()._compile()
        except (NotImplementedError, torch.OutOfMemoryError) as error:
            log.warning("a trace is not compiled for CUDA, its commands run one by one: %s", error)
            return [Part("torch", self.commands, _runner(self.commands), str(error))]

    def _host(self, nodes: Sequence[Node], inputs: Sequence[torch.Tensor]) -> tuple[str, Host]:
        self.graphs.append(CudaGraph(nodes, inputs))
        return "cuda", self.graphs[-1]
