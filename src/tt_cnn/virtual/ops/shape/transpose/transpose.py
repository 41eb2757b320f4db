# SPDX-License-Identifier: Apache-2.0
"""ttnn.transpose: two dimensions exchanged."""

from __future__ import annotations

from typing import Any

import torch

from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.ops.shape.reordering import plan_transpose
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.memory_config import MemoryConfig


@op("transpose")
class Transpose(Operation):
    """Two dimensions exchanged."""

    def arguments(
        self,
        input_tensor: Tensor,
        dim1: int,
        dim2: int,
        *,
        memory_config: MemoryConfig | None = None,
        pad_value: float = 0.0,
    ) -> Call:
        return Call(
            [input_tensor], dim1=int(dim1), dim2=int(dim2), memory_config=memory_config, pad_value=float(pad_value or 0)
        )

    def plan(
        self, planner: Planner, x: Slot, dim1: int, dim2: int, memory_config: MemoryConfig | None, pad_value: float
    ) -> list[Slot]:
        return [plan_transpose(planner, x, dim1, dim2, memory_config, pad_value)]

    def numbers(
        self, context: Context, x: torch.Tensor, dim1: int, dim2: int, pad_value: float, **_: Any
    ) -> list[torch.Tensor]:
        return [context.store(context.logical(x).transpose(dim1, dim2), fill=pad_value)]
