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
from tt_cnn.virtual.engines.replay.eight_bit.witnesses import Watched, witnesses_of
from tt_cnn.virtual.engines.replay.graph import Node
from tt_cnn.virtual.engines.replay.hosts import HOSTS, Host
from tt_cnn.virtual.engines.replay.installed import PACKAGES, installed
from tt_cnn.virtual.engines.replay.int8.rewrite import Int8Rounding
from tt_cnn.virtual.engines.replay.kernels.library import library
from tt_cnn.virtual.engines.replay.replay import OnHost, Part
from tt_cnn.virtual.engines.traced import TracedCell, TracedCommand

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
        names: list[str] = []

        def compiled(nodes: Sequence[Node]) -> Host:
            """The engine is chosen for all layers in 8 bits, and kept for fewer."""
            threads, witnesses = torch.get_num_threads(), witnesses_of(nodes)
            watched = [*nodes, *(one.node for one in witnesses)]
            if not names:
                name, host = quickest(watched, run.samples[0], threads, eight_bit_hosts(self.host))
                names.append(name)
                return Watched(host, len(nodes), witnesses)
            return Watched(HOSTS[names[0]](watched, threads), len(nodes), witnesses)

        try:
            found, host = Search(run.nodes, run.samples, run.host, compiled, guard, self.rounding).run()
        except Exception as error:  # of the engines, each with its own kinds; float32 runs
            log.warning("a trace stays in float32, 8 bits failed: %s", error)
            found, host = EightBit(0, guard, refused=f"8 bits failed: {error}"), None
        if isinstance(host, Watched):
            host.learn()
            ours, plain = quicker(host, run.host, run.samples[0])
            log.info("8 bits on %s: %.1f ms, float32 on %s: %.1f ms", names[0], ours * 1e3, part.engine, plain * 1e3)
            if ours >= plain:
                refused = f"8 bits on {names[0]} take {ours * 1e3:.1f} ms, float32 on {part.engine} {plain * 1e3:.1f}"
                found, host = replace(found, refused=refused), None
        log.info("%s", found)
        if host is None:
            return replace(part, eight_bit=found)
        return replace(part, engine=names[0], run=OnHost(host, run.sources, run.shapes, run.outputs), eight_bit=found)


def eight_bit_hosts(host: str | None) -> tuple[str, ...]:
    """The engines that have 8-bit convolutions: the one asked for, or those that are there."""
    found = tuple(name for name in PACKAGES if name in installed() and host in (None, name))
    ours = (
        ("kernels",) if "kernels" in installed() and host in (None, "kernels") and library().multiplies_bytes() else ()
    )
    return ours + found
