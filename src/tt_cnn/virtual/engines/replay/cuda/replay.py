"""Replays of traces whose tensors are on the GPU."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from tt_cnn.virtual.engines.replay.cuda.host import CudaGraph
from tt_cnn.virtual.engines.replay.graph import Node
from tt_cnn.virtual.engines.replay.hosts import Host
from tt_cnn.virtual.engines.replay.replay import Replay
from tt_cnn.virtual.queues import Command
from tt_cnn.virtual.storage import Cell


class CudaReplay(Replay):
    """Compiles as those on the CPU do, with one host."""

    def __init__(self, commands: Sequence[Command], outputs: Sequence[Cell]) -> None:
        super().__init__(commands, outputs, "cuda")

    def _host(self, nodes: Sequence[Node], inputs: Sequence[torch.Tensor]) -> tuple[str, Host]:
        return "cuda", CudaGraph(nodes, inputs)
