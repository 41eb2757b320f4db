# SPDX-License-Identifier: Apache-2.0
"""The layer that brings the values of a tensor into another order: a view, a permutation, and a view of the result."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder.configuration import Configuration
from tt_cnn.builder.flow import TILE, Flow, interleaved_beside
from tt_cnn.builder.layer import Layer
from tt_cnn.builder.rules import Rule, flags, instance


@dataclass(frozen=True, eq=False)
class RearrangeConfiguration(Configuration):
    """As torch writes it: x.view(shape).permute(order).view(output_shape)."""

    shape: tuple[int, ...]
    order: tuple[int, ...]
    output_shape: tuple[int, ...]
    memory_config: Any = None
    """Where the result is put. None: interleaved, in the memory that the input is in."""
    deallocate_input: bool = False

    pairs = ("shape", "order", "output_shape")
    rules = (
        Rule(
            "order", lambda c: sorted(c.order) == list(range(len(c.shape))), "a permutation of the shape's dimensions"
        ),
        Rule("output_shape", lambda c: prod(c.output_shape) == prod(c.shape), "a view of as many values as the shape"),
        instance("memory_config", None, ttnn.MemoryConfig),
        *flags("deallocate_input"),
    )

    @property
    def only_views(self) -> bool:
        """Whether nothing changes its place."""
        moving = [dim for dim in self.order if self.shape[dim] != 1]
        return moving == sorted(moving)


class TtRearrange(Layer):
    """Works on rows: in tiles every small dimension would be filled up to 32."""

    configuration: RearrangeConfiguration
    configured_by = RearrangeConfiguration

    def __call__(self, x: Any) -> Any:  # type: ignore[override]
        return super().__call__(x)

    def run(self, x: Any) -> Any:
        config = self.configuration
        memory = config.memory_config or interleaved_beside(x)
        flow = Flow(x, config.deallocate_input).interleaved(memory)
        shape, order = config.shape, config.order
        turned = None if config.only_views else _turned(flow.value, shape, order)
        if turned is not None:
            shape, order = turned
            flow.then(ttnn.permute, (0, 1, 3, 2), memory_config=memory)
        if not (config.only_views and _same_rows(flow.value, config.output_shape)):
            flow.in_rows()
        if not config.only_views:
            flow.then(ttnn.reshape, shape)
            if list(order) != sorted(order):
                flow.then(ttnn.permute, order, memory_config=memory)
        return flow.then(ttnn.reshape, config.output_shape).move_to(config.memory_config).value


def _turned(x: Any, shape: tuple[int, ...], order: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The shape and the order behind a transposition of the rows and columns of tiles, where that goes before the rest:
    it is quick, and spares moving many short rows, where a long dimension comes last."""
    if x.layout != ttnn.TILE_LAYOUT or len(x.shape) != 4 or (x.shape[0], x.shape[1]) != (1, 1):
        return None
    first = next((dim for dim in range(len(shape)) if prod(shape[dim:]) == x.shape[-1]), 0)
    if first == 0 or order[-1] != first - 1 or shape[first - 1] <= TILE:
        return None
    rest = len(shape) - first
    moved = tuple(dim - first if dim >= first else dim + rest for dim in order)
    return (*shape[first:], *shape[:first]), moved


def _same_rows(x: Any, shape: tuple[int, ...]) -> bool:
    """Tiles can be seen in another shape without a copy where their last two dimensions stay."""
    last = tuple(x.shape)[-2:]
    wanted = (1, 1, *shape)[-2:]
    return bool(last == wanted or (x.layout == ttnn.ROW_MAJOR_LAYOUT and last[-1] == wanted[-1]))
