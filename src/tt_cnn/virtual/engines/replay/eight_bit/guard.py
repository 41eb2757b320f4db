# SPDX-License-Identifier: Apache-2.0
"""As many layers in 8 bits as the guard allows: what is lost is measured, never assumed.

All layers are tried first. Where that loses too much, the loss of every layer alone is measured, and layers go back to
what they were, those first that lose most for what they are worth.
"""

from __future__ import annotations

import hashlib
import logging
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import torch

from tt_cnn.virtual.engines.replay.choice import key_of, remember, remembered
from tt_cnn.virtual.engines.replay.eight_bit.layers import multiplications, name_of
from tt_cnn.virtual.engines.replay.eight_bit.loss import Loss, Values
from tt_cnn.virtual.engines.replay.eight_bit.rewrite import Rounding
from tt_cnn.virtual.engines.replay.evaluate import walk
from tt_cnn.virtual.engines.replay.graph import Node
from tt_cnn.virtual.engines.replay.hosts import Host

log = logging.getLogger("tt_cnn.virtual")

ATTEMPTS = 5
"""So many numbers of layers are tried at most, each time half way between too many and too few."""

NOTHING = 1e-12
"""The worth of a layer that is worth nothing."""


@dataclass(frozen=True)
class EightBit:
    """What became of a graph's layers, and the PCC that was measured."""

    layers: int
    """Those that could run in 8 bits."""
    guard: float
    pcc: float = 1.0
    """The worst of all samples and outputs against float32, as the engine computes them."""
    kept: tuple[str, ...] = ()
    """Layers that stay as they were, each with the reason."""
    refused: str = ""
    """Why all of it stays as it was; empty where it does not."""
    plain: str = "float32"
    """What is computed in that is not in 8 bits."""
    outside: int = 0
    """Replays since then that ran without 8 bits, their inputs being unlike the samples."""
    reason: str = ""
    """Why the last of them was."""

    def __str__(self) -> str:
        if self.refused:
            return f"all in {self.plain}: {self.refused}"
        count = self.layers - len(self.kept)
        kept = f"{count} of {self.layers} layers in 8 bits, PCC {self.pcc:.6f} against float32 (guard {self.guard:g})"
        if not self.outside:
            return kept
        replays = "1 replay" if self.outside == 1 else f"{self.outside} replays"
        return f"{kept}; {replays} ran in {self.plain}: inputs outside the calibrated range ({self.reason})"


class Search:
    """Finds the layers of a graph that run in 8 bits. The last sample is checked but not calibrated on."""

    def __init__(
        self,
        outputs: Sequence[Node],
        samples: Sequence[Values],
        plain: Host,
        compiled: Callable[[Sequence[Node]], Host],
        guard: float,
        rounding: type[Rounding],
        attempts: int = ATTEMPTS,
    ) -> None:
        self.outputs, self.samples, self.compiled, self.guard = outputs, samples, compiled, guard
        self.allowed, self.attempts = rounding.room * (1 - guard), attempts
        self.expected = [plain(sample) for sample in samples]
        self.loss = Loss(self.expected)
        self.rounding = rounding(outputs, samples[:-1])
        self.layers = self.rounding.layers
        self._worth: Callable[[Node], float] = multiplications

    def value(self, worth: Callable[[Node], float]) -> None:
        """Say what it is worth to have a layer in 8 bits; without it that is its multiplications."""
        self._worth = worth

    def run(self) -> tuple[EightBit, Host | None]:
        """What was found, and what runs it; None where nothing may be in 8 bits."""
        losses = self._remembered()
        chosen = [layer for layer in self.layers if id(layer) not in losses]
        if not chosen:
            return self._refused("no layer can be in 8 bits"), None
        host: Host | None
        host, found = self._measured(chosen)
        if max(found) > self.allowed:
            losses = self._losses(self.samples[found.index(max(found))])
            chosen, host, found = self._most(losses)
        if not chosen:
            why = f"in 8 bits PCC does not stay above the guard of {self.guard:g} with room to spare"
            return self._refused(why), None
        self._remember(chosen, losses)
        kept = self._kept(chosen, losses)
        return EightBit(len(self.layers), self.guard, 1 - max(found), kept, plain=self.rounding.plain), host

    def _refused(self, why: str) -> EightBit:
        return EightBit(len(self.layers), self.guard, refused=why, plain=self.rounding.plain)

    def losses_of(self, host: Host) -> list[float]:
        """What each sample loses on a host."""
        return [self.loss(host(x), y) for x, y in zip(self.samples, self.expected, strict=True)]

    def _measured(self, chosen: Sequence[Node]) -> tuple[Host, list[float]]:
        """These layers in 8 bits, and what each sample loses by it."""
        host = self.compiled(self.rounding.quantized(self.outputs, chosen))
        found = self.losses_of(host)
        log.info("%d of %d layers in 8 bits: PCC %.6f", len(chosen), len(self.layers), 1 - max(found))
        return host, found

    def _most(self, losses: dict[int, float]) -> tuple[list[Node], Host | None, list[float]]:
        """As many layers as may be, those last that lose most for their worth. Sums of losses are a first guess."""
        order = sorted(self.layers, key=lambda one: losses[id(one)] / max(self._worth(one), NOTHING))
        sums = list(accumulate(losses[id(one)] for one in order))
        best: tuple[list[Node], Host | None, list[float]] = ([], None, [])
        few, many, attempts = 0, len(order), self.attempts
        guess = bisect_right(sums, self.allowed)
        while many - few > 1 and attempts:
            count, attempts = min(max(guess, few + 1), many - 1), attempts - 1
            host, found = self._measured(order[:count])
            if max(found) <= self.allowed:
                few, best = count, (order[:count], host, found)
            else:
                many = count
            guess = (few + many) // 2
        for one in order[few + 1 :]:  # some may still fit in where the next did not
            chosen, _, found = best
            if chosen and attempts and max(found) + losses[id(one)] <= self.allowed:
                attempts -= 1
                host, found = self._measured([*chosen, one])
                if max(found) <= self.allowed:
                    best = ([*chosen, one], host, found)
        return best

    @cached_property
    def _key(self) -> str:
        """The graph with its weights, the guard, and what layers are worth."""
        weights = [
            float(layer.inputs[1].value.abs().sum()) for layer in self.layers if layer.inputs[1].value is not None
        ]
        worth = [f"{self._worth(one):.2g}" for one in self.layers]
        kind = type(self.rounding).__name__
        key = (key_of(self.outputs, torch.get_num_threads()), weights, self.guard, kind, worth)
        return hashlib.sha256(repr(key).encode()).hexdigest()[:32]

    def _remembered(self) -> dict[int, float]:
        """Layers that were not in 8 bits the last time, with their losses: a first guess, measured like any other."""
        known = remembered().get(self._key)
        if not isinstance(known, dict):
            return {}
        losses = {id(layer): known.get(str(i)) for i, layer in enumerate(self.layers)}
        sound = {layer: float(loss) for layer, loss in losses.items() if isinstance(loss, (int, float))}
        return sound if len(sound) < len(self.layers) else {}

    def _remember(self, chosen: Sequence[Node], losses: dict[int, float]) -> None:
        taken = {id(one) for one in chosen}
        if len(taken) < len(self.layers):
            kept = {str(i): losses[id(one)] for i, one in enumerate(self.layers) if id(one) not in taken}
            remember(self._key, kept)

    def _losses(self, sample: Values) -> dict[int, float]:
        """What each layer alone loses on a sample, by torch: only what comes after it is computed again."""
        start = time.perf_counter()
        known = {id(node): value for node, value in walk(self.outputs, sample)}
        expected = [known[id(node)] for node in self.outputs]
        losses = {}
        for layer in self.layers:
            nodes = self.rounding.quantized(self.outputs, [layer])
            wanted = {id(node) for node in nodes}
            found = {id(node): value for node, value in walk(nodes, sample, known) if id(node) in wanted}
            results = [found[id(node)] if id(node) in found else known[id(node)] for node in nodes]
            losses[id(layer)] = self.loss(results, expected)
        log.info("losses of %d layers measured in %.1f s", len(losses), time.perf_counter() - start)
        return losses

    def _kept(self, chosen: Sequence[Node], losses: dict[int, float]) -> tuple[str, ...]:
        taken = {id(one) for one in chosen}
        return tuple(
            f"{name_of(one, number)}: alone it loses {losses[id(one)]:.2g} of PCC"
            for number, one in enumerate(self.layers, 1)
            if id(one) not in taken
        )
