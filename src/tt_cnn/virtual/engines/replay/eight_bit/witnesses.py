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
Of fresh pictures beside four samples it is 2.5."""
LEAST = 0.05
"""That unit, at least, in units of the mean: samples that are nearly the same would make it nothing."""


def witnesses_of(outputs: Sequence[Node]) -> list[Node]:
    """The largest of each channel of some values that an 8-bit graph rounds; inputs are looked at by themselves."""
    sources = [node.inputs[0] for node in ordered(outputs) if node.kind == "quantize"]
    sources = [one for one in sources if one.kind != "input" and len(one.shape) > 1]
    quarters = [sources[len(sources) * i // COUNT : len(sources) * (i + 1) // COUNT] for i in range(COUNT)]
    return [_largest(min(quarter, key=lambda node: math.prod(node.shape))) for quarter in quarters if quarter]


def _largest(node: Node) -> Node:
    """Of each channel: the second axis of an image, the last of rows."""
    image = len(node.shape) == 4 and node.shape[1] > 1
    axes = (2, 3) if image else tuple(range(len(node.shape) - 1))
    shape = tuple(1 if axis in axes else size for axis, size in enumerate(node.shape))
    return Node("reduce", (node,), ("amax", axes), shape)


@dataclass(frozen=True)
class Ball:
    """Where a witness may be: as far around the samples' mean as they lie apart, and some more."""

    center: torch.Tensor
    radius: float

    @classmethod
    def around(cls, rows: torch.Tensor) -> Ball:
        """From a row of channels for each sample, and for each picture of its batch."""
        center = rows.mean(0)
        others = (rows.sum(0) - rows) / max(1, len(rows) - 1)
        unit = max(float((rows - others).norm(dim=1).max()), LEAST * float(center.norm()))
        return cls(center, TIMES * unit)

    def holds(self, rows: torch.Tensor) -> bool:
        """What is not a number is nowhere."""
        return bool(((rows - self.center).norm(dim=1) <= self.radius).all())


class Watched:
    """A compiled 8-bit graph whose last outputs are witnesses: it hands on the others, and remembers those."""

    def __init__(self, host: Host, outputs: int) -> None:
        self._host, self._outputs = host, outputs
        self._seen: list[list[torch.Tensor]] = []
        self._balls: list[Ball] = []

    def __call__(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        results = self._host(inputs)
        self._seen.append([one.reshape(len(one), -1) for one in results[self._outputs :]])
        return results[: self._outputs]

    def learn(self) -> None:
        """All that ran so far were samples."""
        self._balls = [Ball.around(torch.cat(rows)) for rows in zip(*self._seen, strict=True)]
        self._seen = []

    def unlike(self) -> str:
        """Why what ran since the last question is not like the samples; empty where it is."""
        seen, self._seen = self._seen, []
        pairs = ((ball, one) for chip in seen for ball, one in zip(self._balls, chip, strict=True))
        return "" if all(ball.holds(one) for ball, one in pairs) else "values within the network leave their range"
