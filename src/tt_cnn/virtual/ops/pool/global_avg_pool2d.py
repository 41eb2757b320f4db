# SPDX-License-Identifier: Apache-2.0
"""`ttnn.global_avg_pool2d`: the mean of every image, as TT-NN's Python function makes it out of `avg_pool2d`."""

from __future__ import annotations

import torch

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.layout.to_memory_config import plan_to_memory_config
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.ops.pool.paths import plan_pool, pool_numbers
from tt_cnn.virtual.ops.pool.problem import Kind, Pool, Wish
from tt_cnn.virtual.ops.shape.programs import Temporaries
from tt_cnn.virtual.ops.shape.reshape.reshape import plan_reshape
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import DataType, Layout, TensorMemoryLayout
from tt_cnn.virtual.types.geometry import Shape
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec


@op("global_avg_pool2d")
class GlobalAvgPool2d(Operation):
    """(N, H, W, C) to (N, 1, 1, C), tiled."""

    def arguments(
        self, input_tensor: Tensor, *, memory_config: MemoryConfig | None = None, dtype: DataType | None = None
    ) -> Call:
        shape = list(input_tensor.shape)
        if len(shape) not in (2, 3, 4):
            raise ValueError(f"global_avg_pool2d expects rank 2, 3, or 4 input, got rank {len(shape)}")
        n, h, w, c = {4: shape, 3: [1, *shape], 2: [1, *shape, 1]}[len(shape)]
        fatal(
            h * w > 0,
            f"ttnn.global_avg_pool2d was given images without pixels, of shape {input_tensor.shape}.",
            "  TT-NN accepts the call; the mean of nothing is no number",
        )
        pool = Pool(Kind.AVERAGE, n, h, w, c, (h, w), (1, 1), (0, 0, 0, 0))
        wish = Wish(Layout.TILE, dtype or DataType.BFLOAT16, memory_config)
        return Call([input_tensor], pool=pool, wish=wish)

    def plan(self, planner: Planner, source: Slot, pool: Pool, wish: Wish) -> list[Slot]:
        scope = Temporaries(planner)
        current = source
        if source.spec.is_sharded:
            current = scope.add(plan_to_memory_config(planner, source, _interleaved(source.spec), None))
        (averages,) = plan_pool(planner, current, pool, wish, None)
        averages = scope.add(averages)
        result = scope.add(plan_reshape(planner, averages, Shape((pool.batch, 1, 1, pool.channels))))
        scope.leave(result)
        return [result]

    def numbers(self, context: Context, x: torch.Tensor, pool: Pool, wish: Wish) -> list[torch.Tensor]:
        if not context.inputs[0].dtype.is_float:  # no kernel of integers is known to us: their mean, cut
            mean = context.logical(x).reshape(pool.batch, -1, pool.channels).double().mean(1)
            return [context.store(mean.to(torch.float32).reshape(tuple(context.outputs[0].shape)))]
        return pool_numbers(context, context.logical(x), pool, wish)


def _interleaved(spec: Spec) -> MemoryConfig:
    return MemoryConfig(TensorMemoryLayout.INTERLEAVED, spec.memory_config.buffer_type)
