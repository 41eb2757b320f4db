"""The layer that brings the values of a tensor into another order: a view, a permutation, and a view of the result."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder.channel_slices import free
from tt_cnn.builder.configuration import Configuration
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
        memory = config.memory_config or _interleaved_beside(x)
        if config.only_views and _same_rows(x, config.output_shape):
            return self._end(x, [], ttnn.reshape(_moved(x, memory) if x.is_sharded() else x, config.output_shape))
        made: list[Any] = []
        y = _moved(x, memory) if x.is_sharded() else x
        made.append(y)
        if y.layout != ttnn.ROW_MAJOR_LAYOUT:
            y = ttnn.to_layout(y, ttnn.ROW_MAJOR_LAYOUT)
            made.append(y)
        if not config.only_views:
            y = ttnn.reshape(y, config.shape)
            made.append(y)
            y = ttnn.permute(y, config.order, memory_config=memory)
            made.append(y)
        return self._end(x, made, ttnn.reshape(y, config.output_shape))

    def _end(self, x: Any, made: list[Any], result: Any) -> Any:
        """Give back what lies in other memory than the result."""
        for each in made:
            if each is not x and each.is_allocated() and each.buffer_address() != result.buffer_address():
                free(each)
        if self.configuration.deallocate_input and x.is_allocated() and not _shares(x, result):
            free(x)
        return result


def _shares(x: Any, y: Any) -> bool:
    same = x.memory_config().buffer_type == y.memory_config().buffer_type
    return bool(same and x.buffer_address() == y.buffer_address())


def _same_rows(x: Any, shape: tuple[int, ...]) -> bool:
    """Tiles can be seen in another shape for nothing where their last two dimensions stay."""
    last = tuple(x.shape)[-2:]
    wanted = (1, 1, *shape)[-2:]
    return bool(last == wanted or (x.layout == ttnn.ROW_MAJOR_LAYOUT and last[-1] == wanted[-1]))


def _interleaved_beside(x: Any) -> Any:
    in_dram = x.memory_config().buffer_type == ttnn.BufferType.DRAM
    return ttnn.DRAM_MEMORY_CONFIG if in_dram else ttnn.L1_MEMORY_CONFIG


def _moved(x: Any, memory: Any) -> Any:
    return ttnn.to_memory_config(x, memory)
