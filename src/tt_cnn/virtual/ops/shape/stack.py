# SPDX-License-Identifier: Apache-2.0
"""ttnn.stack: tensors of one shape put beside each other along a new dimension."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.ops.shape.concat import plan_concat
from tt_cnn.virtual.ops.shape.programs import Temporaries
from tt_cnn.virtual.ops.shape.reshape.squeezing import plan_unsqueeze
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.tensors.tensor import Tensor


@op("stack")
class Stack(Operation):
    """Each tensor gets a dimension of one, along which they are joined."""

    def arguments(self, input_tensors: Sequence[Tensor], dim: int) -> Call:
        fatal(len(input_tensors) > 0, "Stack expects at least one tensor")
        return Call(input_tensors, dim=int(dim))

    def plan(self, planner: Planner, *inputs: Slot, dim: int) -> list[Slot]:
        scope = Temporaries(planner)
        expanded = [scope.add(plan_unsqueeze(planner, x, dim)) for x in inputs]
        result = plan_concat(planner, expanded, dim)
        scope.leave(result)
        return [result]

    def numbers(self, context: Context, *values: torch.Tensor, dim: int) -> list[torch.Tensor]:
        return [context.store(torch.stack([context.logical(v, i) for i, v in enumerate(values)], dim=dim))]
