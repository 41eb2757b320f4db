# SPDX-License-Identifier: Apache-2.0
"""The layer that cuts a part out of a tensor along one dimension."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder.configuration import Configuration
from tt_cnn.builder.flow import Flow, interleaved_beside
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
        flow = Flow(x, config.deallocate_input).interleaved(memory)
        if config.shape is not None and tuple(flow.value.shape) != config.shape:
            _see(flow, config.shape)
        if config.step > 1:
            flow.in_rows()
        sizes = tuple(flow.value.shape)
        starts, ends, steps = [0] * len(sizes), list(sizes), [1] * len(sizes)
        starts[config.dim], ends[config.dim], steps[config.dim] = config.start, config.end, config.step
        return flow.then(ttnn.slice, starts, ends, steps, memory_config=memory).value


def _see(flow: Flow, shape: tuple[int, ...]) -> None:
    """Rows are seen in another shape for nothing; tiles whose last dimensions change are brought to rows for it."""
    if tuple(flow.value.shape)[-2:] != (1, 1, *shape)[-2:]:
        flow.in_rows()
    flow.then(ttnn.reshape, shape)
