"""Replays that learn from their first inputs how much of them may run in 8 bits."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace

import torch

from tt_cnn.virtual.engines.precision import Int8
from tt_cnn.virtual.engines.replay.choice import quicker, quickest
from tt_cnn.virtual.engines.replay.graph import Node
from tt_cnn.virtual.engines.replay.hosts import HOSTS, Host
from tt_cnn.virtual.engines.replay.installed import PACKAGES, installed
from tt_cnn.virtual.engines.replay.int8.guard import EightBit, Search
from tt_cnn.virtual.engines.replay.int8.layers import layers_of
from tt_cnn.virtual.engines.replay.int8.loss import Loss
from tt_cnn.virtual.engines.replay.replay import OnHost, Part, Replay, values_of
from tt_cnn.virtual.queues import Command
from tt_cnn.virtual.storage import Cell

log = logging.getLogger("tt_cnn.virtual")

Chips = list[list[torch.Tensor]]
"""For each of some cells its values, one a chip."""


class Int8Replay(Replay):
    """Runs in float32 until it has seen enough different inputs, then with as much in 8 bits as the guard allows."""

    keeps_graphs = True

    def __init__(self, commands: Sequence[Command], outputs: Sequence[Cell], host: str | None, precision: Int8) -> None:
        super().__init__(commands, outputs, host)
        self.precision = precision
        self._samples: list[tuple[Chips, Chips]] = []
        """Different inputs of the replays so far, and the outputs in float32."""

    def _compile(self) -> list[Part]:
        self._samples = []
        return super()._compile()

    def _run_parts(self) -> None:
        if len(self._samples) == self.precision.samples:
            return super()._run_parts()
        inputs = [values_of(cell) for cell in self._variable]
        seen = any(_same(inputs, known) for known, _ in self._samples)
        compiled = [part.run for part in self.parts if isinstance(part.run, OnHost)]
        for run in compiled:
            run.keeps = not seen
        super()._run_parts()
        if seen:
            return
        self._samples.append((inputs, [values_of(cell) for cell in self.outputs]))
        if len(self._samples) == self.precision.samples:
            self.parts = self._learnt()
            for run in compiled:
                run.forget()

    def _learnt(self) -> list[Part]:
        """The parts, in 8 bits where that holds and is quicker."""
        start = time.perf_counter()
        count = sum(isinstance(part.run, OnHost) and bool(layers_of(part.run.nodes)) for part in self.parts)
        share = 1 - (1 - self.precision.guard) / max(1, count)
        parts = [self._in_eight_bits(part, share) if isinstance(part.run, OnHost) else part for part in self.parts]
        if any(part.eight_bit and not part.eight_bit.refused for part in parts):
            pcc = self._whole_pcc(parts)
            log.info("the whole trace with 8 bits: PCC %.6f, in %.1f s", pcc, time.perf_counter() - start)
            if pcc < self.precision.guard:
                refused = f"all parts together reach PCC {pcc:.6f}; the guard is {self.precision.guard:g}"
                return [_refused(old, new, refused) for old, new in zip(self.parts, parts, strict=True)]
        return parts

    def _in_eight_bits(self, part: Part, guard: float) -> Part:
        run = part.run
        assert isinstance(run, OnHost)
        names: list[str] = []

        def compiled(nodes: Sequence[Node]) -> Host:
            """The engine is chosen for all layers in 8 bits, and kept for fewer."""
            threads = torch.get_num_threads()
            if not names:
                name, host = quickest(nodes, run.samples[0], threads, eight_bit_hosts(self.host))
                names.append(name)
                return host
            return HOSTS[names[0]](nodes, threads)

        try:
            found, host = Search(run.nodes, run.samples, run.host, compiled, guard).run()
        except Exception as error:  # of the engines, each with its own kinds; float32 runs
            log.warning("a trace stays in float32, 8 bits failed: %s", error)
            found, host = EightBit(0, guard, refused=f"8 bits failed: {error}"), None
        if host is not None:
            ours, plain = quicker(host, run.host, run.samples[0])
            log.info("8 bits on %s: %.1f ms, float32 on %s: %.1f ms", names[0], ours * 1e3, part.engine, plain * 1e3)
            if ours >= plain:
                refused = f"8 bits on {names[0]} take {ours * 1e3:.1f} ms, float32 on {part.engine} {plain * 1e3:.1f}"
                found, host = replace(found, refused=refused), None
        log.info("%s", found)
        if host is None:
            return replace(part, eight_bit=found)
        return replace(part, engine=names[0], run=OnHost(host, run.sources, run.outputs), eight_bit=found)

    def _whole_pcc(self, parts: Sequence[Part]) -> float:
        """The worst of all samples, through all parts. This replay's outputs, the last sample's, stay as they were."""
        expected = [[x for values in outputs for x in values] for _, outputs in self._samples]
        loss, worst = Loss(expected), 0.0
        for (inputs, _), wanted in zip(self._samples, expected, strict=True):
            for cell, values in zip(self._variable, inputs, strict=True):
                cell.values = values
            for part in parts:
                part.run()
            worst = max(worst, loss([x for cell in self.outputs for x in values_of(cell)], wanted))
        for cell, values in zip(self.outputs, self._samples[-1][1], strict=True):
            cell.values = values
        return 1 - worst


def eight_bit_hosts(host: str | None) -> tuple[str, ...]:
    """The engines that have 8-bit convolutions: the one asked for, or those that are there."""
    return tuple(name for name in PACKAGES if name in installed() and host in (None, name))


def _refused(plain: Part, part: Part, why: str) -> Part:
    return replace(plain, eight_bit=part.eight_bit and replace(part.eight_bit, refused=why))


def _same(a: Chips, b: Chips) -> bool:
    pairs = [(x, y) for one, other in zip(a, b, strict=True) for x, y in zip(one, other, strict=True)]
    return all(x is y or torch.equal(x, y) for x, y in pairs)
