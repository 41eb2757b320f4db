# SPDX-License-Identifier: Apache-2.0
"""Replays on engines of the CPU that have products of whole numbers of 8 bits."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

import torch

from tt_cnn.virtual.engines.precision import EightBits
from tt_cnn.virtual.engines.replay.choice import quicker, quickest
from tt_cnn.virtual.engines.replay.eight_bit.guard import EightBit, Search
from tt_cnn.virtual.engines.replay.eight_bit.replay import LearningReplay
from tt_cnn.virtual.engines.replay.eight_bit.witnesses import Watched, WatchedGraph
from tt_cnn.virtual.engines.replay.graph import Node
from tt_cnn.virtual.engines.replay.hosts import HOSTS
from tt_cnn.virtual.engines.replay.installed import PACKAGES, installed
from tt_cnn.virtual.engines.replay.int8.rewrite import Int8Rounding
from tt_cnn.virtual.engines.replay.replay import OnHost, Part
from tt_cnn.virtual.engines.traced import TracedCell, TracedCommand
from tt_cnn.virtual.kernel_library import library

log = logging.getLogger("tt_cnn.virtual")


class Int8Replay(LearningReplay):
    rounding = Int8Rounding

    def __init__(
        self, commands: Sequence[TracedCommand], outputs: Sequence[TracedCell], host: str | None, precision: EightBits
    ) -> None:
        super().__init__(commands, outputs, host)
        self.precision = precision

    def _in_eight_bits(self, part: Part, guard: float) -> Part:
        run = part.run
        assert isinstance(run, OnHost)
        names, threads = eight_bit_hosts(self.host), torch.get_num_threads()
        name, host = names[0], None

        def compiled(nodes: Sequence[Node]) -> Watched:
            """On the engine that compiles soonest, while layers are searched for."""
            graph = WatchedGraph.of(nodes)
            return Watched(HOSTS[names[0]](graph.all, threads), graph)

        try:
            search = Search(run.nodes, run.samples, run.host, compiled, guard, self.rounding)
            found, host = search.run()
            if isinstance(host, Watched):
                found, name, host = _on_the_quickest(search, found, host, names)
        except Exception as error:  # of the engines, each with its own kinds; float32 runs
            log.warning("a trace stays in float32, 8 bits failed: %s", error)
            found, host = EightBit(0, guard, refused=f"8 bits failed: {error}"), None
        if isinstance(host, Watched):
            host.learn()
            ours, plain = quicker(host, run.host, run.samples[0])
            log.info("8 bits on %s: %.1f ms, float32 on %s: %.1f ms", name, ours * 1e3, part.engine, plain * 1e3)
            if ours >= plain:
                refused = f"8 bits on {name} take {ours * 1e3:.1f} ms, float32 on {part.engine} {plain * 1e3:.1f}"
                found, host = replace(found, refused=refused), None
        log.info("%s", found)
        if host is None:
            return replace(part, eight_bit=found)
        return replace(part, engine=name, run=OnHost(host, run.sources, run.shapes, run.outputs), eight_bit=found)


def _on_the_quickest(
    search: Search, found: EightBit, host: Watched, names: tuple[str, ...]
) -> tuple[EightBit, str, Watched]:
    """The engine for the layers that were found: another than the first where it is quicker and keeps the guard too."""
    if len(names) == 1:
        return found, names[0], host
    name, compiled = quickest(host.graph.all, search.samples[0], torch.get_num_threads(), names)
    if name == names[0]:
        return found, name, host
    other = Watched(compiled, host.graph)
    loss = max(search.losses_of(other))
    return (replace(found, pcc=1 - loss), name, other) if loss <= search.allowed else (found, names[0], host)


def eight_bit_hosts(host: str | None) -> tuple[str, ...]:
    """The engines that have 8-bit convolutions: the one asked for, or those that are there."""
    found = tuple(name for name in PACKAGES if name in installed() and host in (None, name))
    ours = (
        ("kernels",) if "kernels" in installed() and host in (None, "kernels") and library().multiplies_bytes() else ()
    )
    return ours + found
