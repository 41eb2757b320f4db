# SPDX-License-Identifier: Apache-2.0
"""What all ops of this package share: values stay, their padding and dtype follow the output's spec."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch

from tt_cnn.virtual.arch import Card
from tt_cnn.virtual.errors.card_error import CardError
from tt_cnn.virtual.ops.operation import Context, Operation
from tt_cnn.virtual.planning.plan import CircularBuffer, Slot
from tt_cnn.virtual.tensors.conversion import pad_to, unpad
from tt_cnn.virtual.tensors.storage import CARRIER
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import CoreRangeSet, Shape, cores_to_ranges
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec


class Relayout(Operation):
    """An op whose output holds the values of its first input."""

    def numbers(self, context: Context, x: torch.Tensor, *_: torch.Tensor, **attributes: Any) -> list[torch.Tensor]:
        return [relaid(context, x, float(attributes.get("pad_value", 0.0) or 0.0))]


def relaid(context: Context, x: torch.Tensor, pad_value: float = 0.0) -> torch.Tensor:
    """The values as output 0 holds them; the same tensor where neither padding nor dtype change."""
    source, target = context.inputs[0], context.outputs[0]
    if source.dtype is target.dtype:
        if source.padded_shape == target.padded_shape:
            return x
        return pad_to(unpad(x, tuple(source.shape)), tuple(target.padded_shape), pad_value)
    value = unpad(x, tuple(source.shape))
    return context.store(value.to(CARRIER[target.dtype]), fill=pad_value)


def padded_as(shape: Shape, dtype: DataType, layout: Layout, config: MemoryConfig, padded: Shape) -> Spec:
    """A spec whose padded shape is given (TT-NN's `TensorLayout::fromPaddedShape`).

    A sharded tensor has the padding of its layout and shards, whatever is asked for.
    """
    spec = Spec(shape, dtype, layout, config)
    if spec.padded_shape == padded or config.is_sharded():
        return spec
    return Spec(shape, dtype, layout, config, tuple(padded)[-2:])


def alignment(card: Card, spec: Spec) -> int:
    """Bytes that pages of the tensor's memory start at multiples of."""
    return card.dram_alignment if spec.memory_config.is_dram() else card.l1_alignment


def staging(bytes_: int, cores: CoreRangeSet, alias: Slot | None = None, name: str = "") -> CircularBuffer:
    """A dataflow buffer, perhaps on a tensor's own memory."""
    return CircularBuffer(bytes_, rejoined(cores), alias, dataflow=True, name=name)


def scratchpad(bytes_: int, cores: CoreRangeSet, name: str = "scratch") -> CircularBuffer:
    return CircularBuffer(bytes_, rejoined(cores), dataflow=True, scratch=True, name=name)


@lru_cache(maxsize=4096)
def rejoined(cores: CoreRangeSet) -> CoreRangeSet:
    """The ranges of a dataflow program: whatever the grid was made of, joined along rows and in order of x, then y."""
    if cores.size() == 1:
        return cores
    joined = cores_to_ranges(cores.cores()).ranges()
    return CoreRangeSet(sorted(joined, key=lambda r: (r.start.x, r.start.y)))


def extent(shape: Shape, back: int) -> int:
    """A dimension counted from the last; shapes have ones in front without end, as in TT-NN."""
    return shape[-back] if back <= len(shape) else 1


def check_grid(card: Card, cores: CoreRangeSet) -> None:
    """A dataflow program cannot be put on cores that the card does not have (shards in DRAM name banks, not cores)."""
    if cores.empty():
        return
    x, y = card.grid
    end = cores.bounding_box().end
    if end.x >= x or end.y >= y:
        outside = next(c for c in cores.cores() if c.x >= x or c.y >= y)
        raise CardError(
            f"WorkUnitSpec 'main' targets node ({outside.x},{outside.y}), which is out of bounds. The compute worker "
            f"grid on this device is {x}x{y}."
        )
