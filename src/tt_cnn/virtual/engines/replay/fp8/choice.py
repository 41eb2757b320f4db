"""Which convolutions run in e4m3: as many as the guard allows, those first that save most time for what they lose."""

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

ATTEMPTS = 8
"""Of the guard: by torch on a GPU each takes a fraction of a second."""


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
        search = Search(nodes, samples, InTorch(nodes), InTorch, guard, Fp8Rounding, ATTEMPTS)
        if search.layers:
            _judge(search, plain, compiled)
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


class _Tried:
    """Layers in 8 bits, whatever they lose: how long the graph takes, and what each saves by itself."""

    def __init__(
        self, search: Search, layers: Sequence[Node], plain: Measured, compiled: Callable[[Sequence[Node]], Measured]
    ) -> None:
        self.layers, rounding = layers, search.rounding
        host = compiled(rounding.quantized(search.outputs, layers))
        self.milliseconds = host.seconds() * 1e3
        before, after = plain.seconds_of_convolutions(), host.seconds_of_convolutions()
        self.saved = {
            id(one): before[id(one.inputs[1].value)] - after[id(rounding.weights(one)[0].value)] for one in layers
        }


def _judge(search: Search, plain: Measured, compiled: Callable[[Sequence[Node]], Measured]) -> None:
    """Tell the search what each layer saves, and leave out what makes the whole slower.

    That may be layers for which an image is stored a second time, and layers that are slower themselves.
    """
    rounding = search.rounding
    assert isinstance(rounding, Fp8Rounding)
    best = _Tried(search, search.layers, plain, compiled)
    twice = {id(layer) for layer in rounding.stored_twice(search.outputs)}
    for why in ("its input is stored for it a second time", "16 bits are quicker"):
        slower = {key for key, saved in best.saved.items() if saved <= 0}
        without = twice if why.startswith("its") else slower
        rest = [layer for layer in best.layers if id(layer) not in without]
        if not without or not rest:
            continue
        other = _Tried(search, rest, plain, compiled)
        if other.milliseconds < best.milliseconds:
            told = f"{why}: {best.milliseconds:.3f} ms with all such layers in 8 bits, {other.milliseconds:.3f} without"
            search.leave({key: told for key in without})
            best = other
    search.value(lambda layer: best.saved[id(layer)])
