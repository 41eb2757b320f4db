# SPDX-License-Identifier: Apache-2.0
"""ttnn.permute: dimensions in another order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.ops.shape.programs import as_ints
from tt_cnn.virtual.ops.shape.reordering import plan_permute
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.memory_config import MemoryConfig


@op("permute")
class Permute(Operation):
    """Dimensions in another order."""

    freed = "Input Tensor is not allocated"

    def arguments(
        self,
        input_tensor: Tensor,
        dims: Sequence[int],
        *,
        memory_config: MemoryConfig | None = None,
        pad_value: float = 0.0,
    ) -> Call:
        fatal(
            len(input_tensor.shape) == len(dims),
            "The number of dimensions in the tensor input does not match the length of the desired ordering",
        )
        fatal(input_tensor._buffer is not None, "Tensor must already be on device")
        return Call([input_tensor], dims=as_ints(dims), memory_config=memory_config, pad_value=float(pad_value or 0))

    def plan(
        self, planner: Planner, x: Slot, dims: tuple[int, ...], memory_config: MemoryConfig | None, pad_value: float
    ) -> list[Slot]:
        return [plan_permute(planner, x, dims, memory_config, pad_value)]

    def numbers(
        self, context: Context, x: torch.Tensor, dims: tuple[int, ...], pad_value: float, **_: Any
    ) -> list[torch.Tensor]:
        return [context.store(context.logical(x).permute(dims), fill=pad_value)]
