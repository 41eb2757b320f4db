# SPDX-License-Identifier: Apache-2.0
"""A product, and around it what the product's program cannot do (`bound_matmul`): transposes, bias, activation."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.eltwise.activations import kernel_of
from tt_cnn.virtual.ops.eltwise.binary_plan import plan_binary
from tt_cnn.virtual.ops.eltwise.kinds import KINDS
from tt_cnn.virtual.ops.eltwise.unary_plan import plan_unary
from tt_cnn.virtual.ops.matmul.configs import REUSE, SIMPLE, Activation, ProgramConfig
from tt_cnn.virtual.ops.matmul.problem import Compute, Problem
from tt_cnn.virtual.ops.matmul.product import choose_config, plan_product
from tt_cnn.virtual.ops.matmul.weight_layout import WeightLayout
from tt_cnn.virtual.ops.shape.reordering import plan_transpose
from tt_cnn.virtual.ops.shape.reshape.reshape import plan_reshape
from tt_cnn.virtual.ops.shape.reshape.viewing import plan_view
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.types.enums import DataType
from tt_cnn.virtual.types.geometry import TILE_SIZE, Shape
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

ADD = KINDS["add"]


@dataclass(frozen=True)
class MatmulRequest:
    """How to compute a product and what to do with it."""

    dtype: DataType
    memory_config: MemoryConfig
    compute: Compute
    config: ProgramConfig | None = None
    """None leaves the choice to the library."""
    core_grid: tuple[int, int] | None = None
    activation: Activation | None = None
    """After the product; one inside it is the config's."""
    transpose_a: bool = False
    transpose_b: bool = False
    batches_alone: bool = False
    """Batches of the right matrix are products of their own (`user_run_batched`)."""
    channels: int | None = None
    """What a convolution sums over, where that is less than the inner dimension."""
    weights: WeightLayout | None = None
    """How a convolution's weights stand in the right matrix."""

    def problem(self, a: Slot, b: Slot, bias: Slot | None, turn_a: bool, turn_b: bool) -> Problem:
        added = None if bias is None else bias.spec
        return Problem(a.spec, b.spec, added, self.memory_config, self.dtype, self.compute, turn_a, turn_b)

    def chosen(self, planner: Planner, p: Problem) -> ProgramConfig:
        batched = self.batches_alone and prod(p.b[:-2]) > 1
        return self.config or choose_config(planner, p, self.core_grid, self.activation, batched)


def plan_matmul(
    planner: Planner, left: Slot, right: Slot, bias: Slot | None, request: MatmulRequest, output: Slot | None = None
) -> Slot:
    """`left @ right + bias`, into `output` where it is given."""
    activation, core_grid = request.activation, request.core_grid
    if left.spec.is_sharded or right.spec.is_sharded:
        fatal(
            activation is None,
            f"Sharded matmul run with {activation and activation[0].native} activation: this should be placed in "
            "the program config's fused_activation field",
        )
    fatal(
        not (core_grid is not None and request.config is not None),
        "Cannot use both user core grid/coordinates and a program config",
    )
    transpose_a, transpose_b = request.transpose_a, request.transpose_b
    asked = request.problem(left, right, bias, transpose_a, transpose_b)
    fatal(
        len(asked.a) > 0 and len(asked.b) > 0,
        "ttnn.matmul: Both arguments to matmul need to be at least 1D, but got shapes "
        f"{left.spec.shape} and {right.spec.shape}",
    )
    turned_outside = (transpose_a or transpose_b) and request.chosen(planner, asked).kind == SIMPLE
    vector = len(right.spec.shape) == 1
    a, b = left, right
    if turned_outside and transpose_a:
        a = plan_transpose(planner, left, -1, -2, left.spec.memory_config)
    if vector:
        b = plan_reshape(planner, right, Shape((right.spec.shape[-1], 1)))
    elif turned_outside and transpose_b:
        b = plan_transpose(planner, right, -1, -2, right.spec.memory_config)
    turns = (False, False) if turned_outside else (transpose_a, transpose_b)
    alone = request.problem(a, b, None, *turns)
    fused = bias if bias is not None and _fuses_bias(alone, bias.spec, request) else None
    final = request.problem(a, b, fused, *turns)
    config = request.chosen(planner, final)
    out = plan_product(planner, final, config, a, b, fused, output, request.channels, request.weights)
    if vector:
        out = _replaced(planner, out, plan_reshape(planner, out, asked.output_shape))
    if bias is not None:
        if fused is None:
            out = _replaced(planner, out, _plan_bias(planner, out, bias, output))
        # the library forgets here that it turned the matrices itself
        shape = _biased_shape(request.problem(left, right, None, *turns).output_shape, bias.spec.shape)
        if shape != out.spec.shape and shape.volume() <= out.spec.volume:
            out = plan_view(planner, out, shape)
    if activation is not None and core_grid is None:
        out = _replaced(planner, out, _plan_activation(planner, out, activation, output))
    kept = {slot.buffer for slot in (left, right, bias, output, out) if slot is not None}
    planner.free(*(slot for slot in (a, b) if slot.buffer not in kept))
    return out


def _plan_bias(planner: Planner, x: Slot, bias: Slot, output: Slot | None) -> Slot:
    config = x.spec.memory_config
    return plan_binary(planner, ADD, x, bias, dtype=x.spec.dtype, memory_config=config, output=output)


def _plan_activation(planner: Planner, x: Slot, activation: Activation, output: Slot | None) -> Slot:
    config = x.spec.memory_config
    return plan_unary(planner, x, kernel_of(activation), dtype=x.spec.dtype, memory_config=config, output=output)


def _replaced(planner: Planner, old: Slot, new: Slot) -> Slot:
    """A result that took the place of another, whose memory is given back at once."""
    if old.buffer != new.buffer:
        planner.free(old)
    return new


def _fuses_bias(p: Problem, bias: Spec, request: MatmulRequest) -> bool:
    """`get_post_process_bias`, turned around: the kernels take one row of tiles that is as wide as the product."""
    if bias.padded_shape[-2] != TILE_SIZE or bias.shape[-1] < p.b[-1] or prod(tuple(bias.shape)[:-2]) > 1:
        return False
    reuses = request.config is not None and request.config.kind == REUSE
    if reuses and (len(bias.shape) == 1 or bias.shape[-2] == 1):
        return False  # its kernel adds whole tiles, and does not spread a row over them
    whole = p.m == 1 and bias.shape[-2] == TILE_SIZE and bias.shape[-1] == p.b_padded[-1] and not p.transpose_b
    if p.batch_b > 1 and not (reuses and whole):
        return False
    if request.config is not None:
        return request.config.kind != SIMPLE
    if request.core_grid is not None:
        return True
    if not request.memory_config.is_dram():
        return False
    if p.left.is_sharded:
        return True
    configs = (p.left.memory_config, p.right.memory_config, request.memory_config)
    return not any(c.is_sharded() for c in configs) and all(c.is_dram() for c in configs)


def _biased_shape(product: Shape, bias: Shape) -> Shape:
    """`compute_matmul_with_bias_output_shape`"""
    rank = max(len(product), len(bias))
    dims = []
    for a, b in zip(product.to_rank(rank), bias.to_rank(rank), strict=True):
        fatal(a == b or a == 1 or b == 1, "Broadcast error: Invalid dimension")
        dims.append(max(a, b))
    return Shape(dims)
