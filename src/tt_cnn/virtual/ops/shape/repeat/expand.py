# SPDX-License-Identifier: Apache-2.0
"""ttnn.expand: dimensions of one element repeated to a shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.ops.shape.programs import as_ints
from tt_cnn.virtual.ops.shape.repeat.repeat import plan_repeat
from tt_cnn.virtual.ops.shape.reshape.viewing import plan_checked_view
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.geometry import Shape
from tt_cnn.virtual.types.memory_config import MemoryConfig


@op("expand")
class Expand(Operation):
    """Dimensions of one element repeated to a shape."""

    def arguments(
        self, input_tensor: Tensor, output_shape: Sequence[int], *, memory_config: MemoryConfig | None = None
    ) -> Call:
        wanted = as_ints(output_shape)
        shape = tuple(input_tensor.shape)
        fatal(len(shape) <= len(wanted), "Output rank must be >= input rank for expand")
        times, result = [], []
        for back in range(len(wanted), 0, -1):
            size = wanted[-back]
            if back > len(shape):
                fatal(
                    size >= 0,
                    f"Leading dimension must be non-negative (got {size}); it has no corresponding input dimension",
                )
                times.append(size)
                result.append(size)
                continue
            have = shape[-back]
            if size not in (-1, have):
                fatal(size >= 0, f"Expand dimension size must be -1 or non-negative (got {size})")
                fatal(have == 1, "Only size 1 dimensions can be expanded in the output shape")
            times.append(1 if size in (-1, have) else size)
            result.append(have if size == -1 else size)
        return Call([input_tensor], times=tuple(times), shape=tuple(result), memory_config=memory_config)

    def plan(
        self,
        planner: Planner,
        x: Slot,
        times: tuple[int, ...],
        shape: tuple[int, ...],
        memory_config: MemoryConfig | None,
    ) -> list[Slot]:
        result = plan_repeat(planner, x, times, memory_config)
        if len(result.spec.shape) != len(shape):
            result = plan_checked_view(planner, result, Shape(shape))
        return [result]

    def numbers(self, context: Context, x: torch.Tensor, shape: tuple[int, ...], **_: Any) -> list[torch.Tensor]:
        return [context.store(context.logical(x).expand(shape))]
