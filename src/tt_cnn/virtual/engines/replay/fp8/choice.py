"""Which convolutions run in e4m3: those that are quicker so, as many as the guard allows."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

import torch

from tt_cnn.virtual.engines.replay.eight_bit.guard import EightBit, Search
from tt_cnn.virtual.engines.replay.eight_bit.loss import Values
from tt_cnn.virtual.engines.replay.evaluate import evaluated
from tt_cnn.virtual.engines.replay.fp8.rewrite import Fp8Rounding
from tt_cnn.virtual.engines.replay.graph import Node

log = logging.getLogger("tt_cnn.virtual")


class Measured(Protocol):
    """A compiled graph that knows its times."""

    def __call__(self, inputs: Values) -> list[torch.Tensor]: ...

    def seconds_of_convolutions(self) -> Mapping[int, float]:
        """Of each by itself, by the identity of its weights in the graph."""

    def seconds(self) -> float:
        """Of all of it."""


Compiled = TypeVar("Compiled", bound=Measured)


class InTorch:
    """A graph in float32 by torch, its e4m3 numbers rounded as the GPU rounds them."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes

    def __call__(self, inputs: Values) -> list[torch.Tensor]:
        return evaluated(self.nodes, inputs)


def in_fp8(
    nodes: Sequence[Node],
    samples: Sequence[Values],
    plain: Measured,
    compiled: Callable[[Sequence[Node]], Compiled],
    guard: float,
) -> tuple[EightBit, Compiled | None]:
    """What was found, and what runs it; None where 16 bits stay.

    Layers are tried out in torch, which takes no compiling; what is told was measured on what runs in the end.
    """
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        search = Search(nodes, samples, InTorch(nodes), InTorch, guard, Fp8Rounding)
        if search.layers:
            search.leave(_slower(search, plain, compiled))
        found, tried = search.run()
        if tried is None:
            return found, None
        assert isinstance(tried, InTorch)
        host = compiled(tried.nodes)
        found = replace(found, pcc=1 - max(search.losses_of(host)))
    ours, theirs = host.seconds() * 1e3, plain.seconds() * 1e3
    log.info("8 bits: %.3f ms, 16 bits: %.3f ms", ours, theirs)
    if found.pcc < guard:
        found = replace(found, refused=f"on the GPU PCC is {found.pcc:.6f}; the guard is {guard:g}")
    elif ours >= theirs:
        found = replace(found, refused=f"8 bits take {ours:.3f} ms, 16 bits {theirs:.3f}")
    return found, None if found.refused else host


def _slower(search: Search, plain: Measured, compiled: Callable[[Sequence[Node]], Measured]) -> dict[int, str]:
    """Layers that gain nothing by 8 bits when all are in them, by id, and why."""
    rounding = search.rounding
    everything = rounding.quantized(search.outputs, search.layers)
    assert isinstance(rounding, Fp8Rounding)
    before, after = plain.seconds_of_convolutions(), compiled(everything).seconds_of_convolutions()
    found = {}
    for layer in search.layers:
        old, new = before[id(layer.inputs[1].value)], after[id(rounding.weights(layer)[0].value)]
        if new >= old:
            found[id(layer)] = f"16 bits take {old * 1e6:.1f} us, 8 bits {new * 1e6:.1f}"
    return found
