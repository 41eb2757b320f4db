# SPDX-License-Identifier: Apache-2.0
"""Which way a pool takes: through L1, out of DRAM in slices, or as one sum over the whole image."""

from __future__ import annotations

from torch import Tensor

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.conv2d.config import Slicing
from tt_cnn.virtual.ops.conv2d.moving import is_freed
from tt_cnn.virtual.ops.operation import Context
from tt_cnn.virtual.ops.pool.numbers import pooled
from tt_cnn.virtual.ops.pool.plan import plan_in_l1
from tt_cnn.virtual.ops.pool.problem import Pool, Wish
from tt_cnn.virtual.ops.pool.program import PoolProgram
from tt_cnn.virtual.ops.pool.slicing import plan_from_dram, runs_in_l1
from tt_cnn.virtual.ops.pool.whole_image import averaged, is_whole_image, plan_whole_image
from tt_cnn.virtual.ops.shape.reshape.reshape import plan_reshape
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.types.geometry import Shape


def plan_pool(planner: Planner, source: Slot, pool: Pool, wish: Wish, slicing: Slicing | None) -> list[Slot]:
    fatal(
        min(pool.stride) > 0,
        f"Pool2D: Stride must be greater than 0 in both dimensions, got ({pool.stride[0]}, {pool.stride[1]})",
        "  TT-NN divides by it and ends the process",
    )
    image = _as_image(planner, source, pool)
    outputs = _plan_image(planner, image, pool, wish, slicing)
    if image.buffer != source.buffer and not is_freed(planner, image):
        planner.free(image)
    return outputs


def _plan_image(planner: Planner, source: Slot, pool: Pool, wish: Wish, slicing: Slicing | None) -> list[Slot]:
    if is_whole_image(pool, wish, source.spec):
        return [plan_whole_image(planner, source, pool, wish)]
    if runs_in_l1(source.spec, wish, slicing):
        return plan_in_l1(planner, source, pool, wish)
    return plan_from_dram(planner, source, pool, wish, slicing)


def pool_numbers(context: Context, x: Tensor, pool: Pool, wish: Wish) -> list[Tensor]:
    """The outputs, stored, by the way that was planned."""
    if any(isinstance(step.program, PoolProgram) for step in context.steps):
        return pooled(context, x, pool)
    return [context.store(averaged(context, x, pool, wish).reshape(tuple(context.outputs[0].shape)))]


def _as_image(planner: Planner, source: Slot, pool: Pool) -> Slot:
    """Inputs (H, W) and (H, W, C) are images too."""
    shape = source.spec.shape
    rank = len(shape)
    fatal(2 <= rank <= 4, f"Pool2D: Input tensor must be rank 2, 3, or 4, got rank {rank}")
    if rank == 4:
        rows, needed = shape[0] * shape[1] * shape[2], pool.batch * pool.height * pool.width
        fatal(
            rows >= needed,
            f"Pool2D: the input has {rows} pixels, batch_size * input_h * input_w asks for {needed}",
            "  TT-NN ends the process here",
        )
        return source
    if rank == 3:
        fatal(
            tuple(shape) == (pool.height, pool.width, pool.channels),
            f"Pool2D: For rank-3 input [H, W, C], dimensions must match: input_h={pool.height}, "
            f"input_w={pool.width}, channels={pool.channels}, but got shape {shape}",
        )
    else:
        fatal(
            pool.batch == 1 and pool.channels == 1,
            "Pool2D: For rank-2 input [H, W], batch_size and channels must be 1, got "
            f"batch_size={pool.batch}, channels={pool.channels}",
        )
    return plan_reshape(planner, source, Shape((1, pool.height, pool.width, pool.channels)))
