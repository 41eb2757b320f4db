# SPDX-License-Identifier: Apache-2.0
"""Whether values within a graph stay where those of the samples were.

An input may look like the samples and still drive some layer beyond the values that its scale was fitted to. Some
values of a graph are witnesses: the largest of each channel, before it is rounded, is one more output of the graph.
Few and small ones do, since what is beyond its range in one layer is so in most that follow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from tt_cnn.virtual.engines.replay.graph import Node, ordered
from tt_cnn.virtual.engines.replay.hosts import Host

COUNT = 4
"""Witnesses of a graph: the smallest value of each quarter of its layers."""
TIMES = 3.0
"""How far from the samples' mean a witness may be, in units of the sample that is farthest from the mean of the others.
Of fresh images beside four samples it is 2.5."""
LEAST = 0.05
"""That unit, at least, in units of the mean: samples that are nearly the same would make it nothing."""


CUT = 0.03
"""How much of a vector may be cut off by rounding, in units of its length, where samples lose less: all that follows,
such as a classifier's scores, comes of it."""
LEVELS = 255


@dataclass(frozen=True)
class Witness:
    """The largest of each channel of a value that is rounded, and the range that rounding leaves of it."""

    node: Node
    low: float
    high: float
    whole: bool
    """A channel has one number only, as after a pool of all pixels: nothing is hidden behind its largest."""

    def cut(self, rows: torch.Tensor) -> float:
        """The largest share of a row that rounding cuts off."""
        beyond = (rows - rows.clamp(self.low, self.high)).norm(dim=1)
        return float((beyond / rows.norm(dim=1).clamp_min(torch.finfo(rows.dtype).tiny)).max())


def witnesses_of(outputs: Sequence[Node]) -> list[Witness]:
    """Some of the values that an 8-bit graph rounds; inputs are looked at by themselves."""
    rounded = [node for node in ordered(outputs) if node.kind == "quantize"]
    rounded = [node for node in rounded if node.source.kind != "input" and len(node.shape) > 1]
    quarters = [rounded[len(rounded) * i // COUNT : len(rounded) * (i + 1) // COUNT] for i in range(COUNT)]
    return [_witness(min(quarter, key=lambda node: math.prod(node.shape))) for quarter in quarters if quarter]


def _witness(node: Node) -> Witness:
    """Of each channel: the second axis of an image, the last of rows."""
    image = len(node.shape) == 4 and node.shape[1] > 1
    axes = (2, 3) if image else tuple(range(len(node.shape) - 1))
    shape = tuple(1 if axis in axes else size for axis, size in enumerate(node.shape))
    scale, zero = (float(one.value) for one in node.inputs[1:] if one.value is not None)
    largest = Node("reduce", (node.source,), ("amax", axes), shape)
    return Witness(largest, -zero * scale, (LEVELS - zero) * scale, shape == node.shape)


@dataclass(frozen=True)
class Ball:
    """Where a witness may be: as far around the samples' mean as they lie apart, and some more."""

    center: torch.Tensor
    radius: float

    @classmethod
    def around(cls, rows: torch.Tensor) -> Ball:
        """From a row of channels for each sample, and for each image of its batch."""
        center = rows.mean(0)
        others = (rows.sum(0) - rows) / max(1, len(rows) - 1)
        unit = max(float((rows - others).norm(dim=1).max()), LEAST * float(center.norm()))
        return cls(center, TIMES * unit)

    def holds(self, rows: torch.Tensor) -> bool:
        """What is not a number is nowhere."""
        return bool(((rows - self.center).norm(dim=1) <= self.radius).all())


@dataclass(frozen=True)
class WatchedGraph:
    """The outputs of an 8-bit graph, and its witnesses."""

    outputs: Sequence[Node]
    witnesses: Sequence[Witness]

    @classmethod
    def of(cls, outputs: Sequence[Node]) -> WatchedGraph:
        return cls(outputs, witnesses_of(outputs))

    @property
    def all(self) -> list[Node]:
        """What an engine computes."""
        return [*self.outputs, *(one.node for one in self.witnesses)]


class Watched:
    """A compiled 8-bit graph whose last outputs are witnesses: it hands on the others, and remembers those."""

    def __init__(self, host: Host, graph: WatchedGraph) -> None:
        self.graph = graph
        self._host, self._outputs, self._witnesses = host, len(graph.outputs), graph.witnesses
        self._seen: list[list[torch.Tensor]] = []
        self._balls: list[Ball] = []
        self._cuts: list[float] = []

    def __call__(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        results = self._host(inputs)
        self._seen.append([one.reshape(len(one), -1) for one in results[self._outputs :]])
        return results[: self._outputs]

    def learn(self) -> None:
        """All that ran so far were samples."""
        known = [torch.cat(rows) for rows in zip(*self._seen, strict=True)]
        self._balls = [Ball.around(rows) for rows in known]
        self._cuts = [max(CUT, one.cut(rows)) for one, rows in zip(self._witnesses, known, strict=True)]
        self._seen = []

    def unlike(self) -> str:
        """Why what ran since the last question is not like the samples; empty where it is."""
        seen, self._seen = self._seen, []
        alike = all(self._alike(number, rows) for chip in seen for number, rows in enumerate(chip))
        return "" if alike else "values within the network leave their range"

    def _alike(self, number: int, rows: torch.Tensor) -> bool:
        witness = self._witnesses[number]
        return self._balls[number].holds(rows) and (not witness.whole or witness.cut(rows) <= self._cuts[number])
