"""Replays that learn from their first inputs how much of them may run in 8 bits."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace

import torch

from tt_cnn.virtual.engines.precision import EightBits
from tt_cnn.virtual.engines.replay.eight_bit.layers import layers_of
from tt_cnn.virtual.engines.replay.eight_bit.loss import Loss
from tt_cnn.virtual.engines.replay.eight_bit.rewrite import Rounding
from tt_cnn.virtual.engines.replay.graph import Node
from tt_cnn.virtual.engines.replay.hosts import Host
from tt_cnn.virtual.engines.replay.replay import OnHost, Part, Replay, values_of

log = logging.getLogger("tt_cnn.virtual")

Chips = list[list[torch.Tensor]]
"""For each of some cells its values, one a chip."""


class LearningReplay(Replay):
    """Runs as it would until it has seen enough different inputs, then with as much in 8 bits as the guard allows."""

    keeps_graphs = True
    rounding: type[Rounding]
    precision: EightBits
    _samples: list[tuple[Chips, Chips]]
    """Different inputs of the replays so far, and the outputs that were not in 8 bits."""

    def _host(self, nodes: Sequence[Node], inputs: Sequence[torch.Tensor]) -> tuple[str, Host]:
        """Captured weights lie in the card's order, which torch is slow to read; it will do so again and again."""
        for layer in layers_of(nodes):
            weight = layer.inputs[1]
            if weight.value is not None and weight.value.dim() == 4:
                weight.value = weight.value.contiguous(memory_format=torch.channels_last)
        return super()._host(nodes, inputs)

    def _compile_whole(self) -> bool:
        self._samples = []
        return super()._compile_whole()

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
        count = sum(
            isinstance(part.run, OnHost) and bool(self.rounding.layers_of(part.run.nodes)) for part in self.parts
        )
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
        """A part with as much in 8 bits as the guard allows, where that is quicker; it says what became of it."""
        raise NotImplementedError

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


def _refused(plain: Part, part: Part, why: str) -> Part:
    return replace(plain, eight_bit=part.eight_bit and replace(part.eight_bit, refused=why))


def _same(a: Chips, b: Chips) -> bool:
    pairs = [(x, y) for one, other in zip(a, b, strict=True) for x, y in zip(one, other, strict=True)]
    return all(x is y or torch.equal(x, y) for x, y in pairs)
