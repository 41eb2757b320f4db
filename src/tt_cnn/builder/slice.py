"""The layer that cuts a part out of a tensor along one dimension."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder.channel_slices import free
from tt_cnn.builder.configuration import Configuration
from tt_cnn.builder.function import interleaved_beside
from tt_cnn.builder.layer import Layer
from tt_cnn.builder.rules import Rule, flags, instance, whole


@dataclass(frozen=True, eq=False)
class SliceConfiguration(Configuration):
    dim: int
    start: int
    end: int
    step: int = 1
    shape: tuple[int, ...] | None = None
    """The shape to see the tensor in for the cut; None: its own."""
    memory_config: Any = None
    """Where the part is put. None: interleaved, in the memory that the tensor is in."""
    deallocate_input: bool = False

    pairs = ("shape",)
    rules = (
        whole("start", at_least=0),
        Rule("end", lambda c: c.end > c.start, "greater than start"),
        whole("step"),
        instance("memory_config", None, ttnn.MemoryConfig),
        *flags("deallocate_input"),
    )


class TtSlice(Layer):
    configuration: SliceConfiguration
    configured_by = SliceConfiguration

    def __call__(self, x: Any) -> Any:  # type: ignore[override]
        return super().__call__(x)

    def run(self, x: Any) -> Any:
        config = self.configuration
        memory = config.memory_config or interleaved_beside(x)
        y = ttnn.to_memory_config(x, memory) if x.is_sharded() else x
        seen = y if config.shape is None or tuple(y.shape) == config.shape else _seen(y, config.shape)
        shape = list(seen.shape)
        starts, ends, steps = [0] * len(shape), list(shape), [1] * len(shape)
        starts[config.dim], ends[config.dim], steps[config.dim] = config.start, config.end, config.step
        if config.step > 1 and seen.layout != ttnn.ROW_MAJOR_LAYOUT:
            seen = ttnn.to_layout(seen, ttnn.ROW_MAJOR_LAYOUT)
        part = ttnn.slice(seen, starts, ends, steps, memory_config=memory)
        if y is not x:
            free(y)
        if config.deallocate_input:
            free(x)
        return part


def _seen(x: Any, shape: tuple[int, ...]) -> Any:
    """Rows are seen in another shape for nothing; tiles whose last dimensions change are brought to rows for it."""
    keeps = tuple(x.shape)[-2:] == (1, 1, *shape)[-2:]
    rows = x if keeps or x.layout == ttnn.ROW_MAJOR_LAYOUT else ttnn.to_layout(x, ttnn.ROW_MAJOR_LAYOUT)
    return ttnn.reshape(rows, shape)
