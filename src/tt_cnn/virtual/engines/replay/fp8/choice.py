# SPDX-License-Identifier: Apache-2.0
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

ATTEMPTS = 20
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

    Layers are tried out in torch, which takes no compiling; what is reported was measured on what runs in the end.
    Layers that save nothing come last: they are in 8 bits where all may be, since an image that is read in 16 bits as
    well must be stored twice.
    """
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        search = Search(nodes, samples, InTorch(nodes), InTorch, guard, Fp8Rounding, ATTEMPTS)
        if search.layers:
            saved = _saved(search, plain, compiled)
            search.value(lambda layer: saved[id(layer)])
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


def _saved(search: Search, plain: Measured, compiled: Callable[[Sequence[Node]], Measured]) -> dict[int, float]:
    """The seconds that each layer saves by 8 bits, by id, when all are in them."""
    rounding = search.rounding
    everything = compiled(rounding.quantized(search.outputs, search.layers))
    before, after = plain.seconds_of_convolutions(), everything.seconds_of_convolutions()
    return {
        id(one): before[id(one.inputs[1].value)] - after[id(rounding.weights(one)[0].value)] for one in search.layers
    }
