# SPDX-License-Identifier: Apache-2.0
"""Replays that learn from their first inputs how much of them may run in 8 bits."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace

import torch

from tt_cnn.virtual.engines.precision import EightBits
from tt_cnn.virtual.engines.replay.eight_bit.inputs import InputRange, numbers_of
from tt_cnn.virtual.engines.replay.eight_bit.layers import layers_of
from tt_cnn.virtual.engines.replay.eight_bit.loss import Loss
from tt_cnn.virtual.engines.replay.eight_bit.rewrite import Rounding
from tt_cnn.virtual.engines.replay.eight_bit.witnesses import Watched
from tt_cnn.virtual.engines.replay.graph import Node, used_inputs
from tt_cnn.virtual.engines.replay.hosts import Host
from tt_cnn.virtual.engines.replay.replay import OnHost, Part, Replay, restore, values_of, written_by
from tt_cnn.virtual.engines.traced import TracedCell
from tt_cnn.virtual.errors.failures import Failure

log = logging.getLogger("tt_cnn.virtual")

Chips = list[list[torch.Tensor]]
"""For each of some cells its values, one per chip."""


class LearningReplay(Replay):
    """Runs as it would until it has seen enough different inputs, then with as much in 8 bits as the guard allows.

    The guard speaks of inputs like those. Each replay is looked at, and runs as it did before where its inputs, or what
    becomes of them, are unlike them: the parts without 8 bits are kept for it.
    """

    keeps_graphs = True
    rounding: type[Rounding]
    precision: EightBits
    _samples: list[tuple[Chips, Chips]]
    """Different inputs of the replays so far, and the outputs that were not in 8 bits; empty once it has learnt."""
    _plain: list[Part]
    """The parts without 8 bits, where some have them."""
    _written: list[TracedCell]
    """What a replay in 8 bits writes, and has to be undone where it turns out to be unlike the samples."""
    _ranges: list[tuple[TracedCell, InputRange]]
    """The inputs that layers in 8 bits depend on, with what they were like."""
    _learns: bool

    def _host(self, nodes: Sequence[Node], inputs: Sequence[torch.Tensor]) -> tuple[str, Host]:
        """Captured weights lie in the card's order, which torch is slow to read; it will do so again and again."""
        for layer in layers_of(nodes):
            weight = layer.inputs[1]
            if weight.value is not None and weight.value.dim() == 4:
                weight.value = weight.value.contiguous(memory_format=torch.channels_last)
        return super()._host(nodes, inputs)

    def _compile_whole(self) -> bool:
        self._samples, self._plain, self._written, self._ranges, self._learns = [], [], [], [], True
        return super()._compile_whole()

    def _run_parts(self) -> None:
        if self._learns:
            self._learn()
        elif self._plain:
            self._run_guarded()
        else:
            super()._run_parts()

    def _learn(self) -> None:
        """Run as ever, and learn from it where it is new. Nothing can be fitted to values that are not finite."""
        inputs = [values_of(cell) for cell in self._variable]
        new = _finite(inputs) and not any(_same(inputs, known) for known, _ in self._samples)
        compiled = [part.run for part in self.parts if isinstance(part.run, OnHost)]
        for run in compiled:
            run.keeps = new
        known = [len(run.samples) for run in compiled]
        try:
            super()._run_parts()
        except Failure:
            for run, count in zip(compiled, known, strict=True):
                del run.samples[count:]
            raise
        if not new:
            return
        self._samples.append((inputs, [values_of(cell) for cell in self.outputs]))
        if len(self._samples) == self.precision.samples:
            self._switch(self._learnt())
            for run in compiled:
                run.forget()
            self._samples, self._learns = [], False

    def _switch(self, parts: list[Part]) -> None:
        """From now on run these, and the present ones where inputs are unlike the samples."""
        if any(_in_eight_bits(part) for part in parts):
            needed = needed_for_eight_bits(self.parts, parts, self.rounding)
            for i, cell in enumerate(self._variable):
                if id(cell) in needed:
                    samples = [value for inputs, _ in self._samples for value in inputs[i]]
                    self._ranges.append((cell, InputRange.of(samples)))
            self._plain, self._written = self.parts, written_by(parts)
        self.parts = parts

    def _run_guarded(self) -> None:
        """In 8 bits, unless inputs are unlike the samples. Where that shows only after the run, all cells get back what
        they held before it, so that what carries over from replay to replay does so once."""
        why = self._look_at_inputs()
        if not why:
            before = [(cell, cell.values) for cell in self._written]
            try:
                super()._run_parts()
            except Failure:  # nothing can be said of the rest
                restore(before)
                self._run_plain()
                return
            why = self._look_at_results()
            if why:
                restore(before)
        if why:
            self._run_plain()
            self._tell(why)

    def _run_plain(self) -> None:
        parts, self.parts = self.parts, self._plain
        try:
            super()._run_parts()
        finally:
            self.parts = parts

    def _look_at_inputs(self) -> str:
        """Why they are unlike the samples, before anything runs; empty where they are not, or it is not known yet."""
        for cell, known in self._ranges:
            for value in distinct(values_of(cell)):
                if why := known.unlike(numbers_of(value)):
                    return why
        return ""

    def _look_at_results(self) -> str:
        """The same, once all was launched."""
        return _look_inside(self.parts)

    def _tell(self, why: str) -> None:
        searches = [part.eight_bit for part in self.parts if part.eight_bit and _in_eight_bits(part)]
        if not any(one.outside for one in searches):
            log.warning("a replay runs in %s, its inputs are outside the calibrated range: %s", searches[0].plain, why)
        self.parts = [_counted(part, why) for part in self.parts]

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
            _look_inside(parts)  # those were no replays
            log.info("the whole trace with 8 bits: PCC %.6f, in %.1f s", pcc, time.perf_counter() - start)
            if pcc < self.precision.guard:
                refused = f"all parts together reach PCC {pcc:.6f}; the guard is {self.precision.guard:g}"
                return [_refused(old, new, refused) for old, new in zip(self.parts, parts, strict=True)]
        return parts

    def _in_eight_bits(self, part: Part, guard: float) -> Part:
        """A part with as much in 8 bits as the guard allows, where that is quicker; it says what became of it."""
        raise NotImplementedError

    def _whole_pcc(self, parts: Sequence[Part]) -> float:
        """The worst of all samples, through all parts. The cells stay as the last replay left them."""
        expected = [[x for values in outputs for x in values] for _, outputs in self._samples]
        held = [(cell, cell.values) for cell in (*self._variable, *written_by(parts))]
        loss, worst = Loss(expected), 0.0
        try:
            for (inputs, _), wanted in zip(self._samples, expected, strict=True):
                for cell, values in zip(self._variable, inputs, strict=True):
                    cell.values = values
                for part in parts:
                    part.run()
                worst = max(worst, loss([x for cell in self.outputs for x in values_of(cell)], wanted))
        finally:
            restore(held)
        return 1 - worst


def _refused(plain: Part, part: Part, why: str) -> Part:
    return replace(plain, eight_bit=part.eight_bit and replace(part.eight_bit, refused=why))


def _same(a: Chips, b: Chips) -> bool:
    pairs = [(x, y) for one, other in zip(a, b, strict=True) for x, y in zip(one, other, strict=True)]
    return all(x is y or torch.equal(x, y) for x, y in pairs)


def _finite(inputs: Chips) -> bool:
    return all(bool(value.isfinite().all()) for values in inputs for value in distinct(values))


def _in_eight_bits(part: Part) -> bool:
    return part.eight_bit is not None and not part.eight_bit.refused


def _counted(part: Part, why: str) -> Part:
    """The part, with one more replay that ran without its 8 bits."""
    search = part.eight_bit
    if search is None or search.refused:
        return part
    return replace(part, eight_bit=replace(search, outside=search.outside + 1, reason=why))


def _look_inside(parts: Sequence[Part]) -> str:
    """Why what ran last is unlike the samples within the parts; empty where it is not. All are asked, so all forget."""
    hosts = [part.run.host for part in parts if isinstance(part.run, OnHost)]
    return next(filter(None, [host.unlike() for host in hosts if isinstance(host, Watched)]), "")


def distinct(values: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Chips often share one tensor."""
    return list({id(value): value for value in values}.values())


def needed_for_eight_bits(plain: Sequence[Part], parts: Sequence[Part], rounding: type[Rounding]) -> set[int]:
    """The cells, by identity, that layers in 8 bits depend on. What is only added to their results may be anything.

    `plain` are the same parts with their graphs. What is needed may have been left by the replay before, so the parts
    are gone through until nothing more is found.
    """
    needed: set[int] = set()
    known = -1
    while len(needed) > known:
        known = len(needed)
        for old, new in zip(reversed(plain), reversed(parts), strict=True):
            if not isinstance(old.run, OnHost):
                for command in reversed(old.commands):
                    if any(id(cell) in needed for cell in command.writes):
                        needed.update(id(cell) for cell in command.reads)
                continue
            if any(id(cell) in needed for cell in old.run.outputs):
                needed.update(id(cell) for cell in old.run.sources)
            if _in_eight_bits(new):
                leading = set(used_inputs(rounding.layers_of(old.run.nodes)))
                numbers = zip(old.run.sources, used_inputs(old.run.nodes), strict=True)
                needed.update(id(cell) for cell, number in numbers if number in leading)
    return needed
