# SPDX-License-Identifier: Apache-2.0
"""`group_norm` of (N, 1, H*W, C) tensors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.numerics.accumulation import average
from tt_cnn.virtual.ops.compute_program import ComputeProgram
from tt_cnn.virtual.ops.layout.tilize_with_val_padding import plan_tilize_with_padding, tiled_shape
from tt_cnn.virtual.ops.layout.to_layout import plan_to_layout
from tt_cnn.virtual.ops.matmul.problem import Compute
from tt_cnn.virtual.ops.normalization.group_norm_buffers import interleaved_buffers, shard_buffers
from tt_cnn.virtual.ops.normalization.group_norm_checks import check_blocks, check_call, check_grid, check_tensors
from tt_cnn.virtual.ops.normalization.group_norm_problem import GroupShare, Problem, largest_grid
from tt_cnn.virtual.ops.normalization.time import group_norm_cycles
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.ops.shape.programs import Temporaries
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.planning.program import Step
from tt_cnn.virtual.tensors.conversion import as_stored
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE
from tt_cnn.virtual.types.memory_config import DRAM_MEMORY_CONFIG, MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

_READS = 3
"""Of interleaved tensors: for the mean, for the variance, for the result."""


@dataclass(frozen=True, kw_only=True)
class GroupNormProgram(ComputeProgram):
    op: str = "GroupNorm"
    groups: int
    epsilon: float
    out_blocks: int | None
    by_welford: bool
    share: GroupShare
    given: tuple[str, ...]
    """Which tensors come after the input."""

    def time(self, step: Step, figures: Figures) -> Cycles:
        scaled = sum(name in self.given for name in ("weight", "bias"))
        reads = 0 if step.inputs[0].spec.is_sharded else _READS
        return group_norm_cycles(step, figures, self.compute, self.share, scaled, reads)


@op("group_norm")
class GroupNorm(Operation):
    """Groups of channels with mean 0 and variance 1, scaled and shifted."""

    def arguments(
        self,
        input_tensor: Tensor,
        *,
        num_groups: int,
        epsilon: float = 1e-12,
        input_mask: Tensor | None = None,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        memory_config: Any = None,
        dtype: Any = None,
        core_grid: Any = None,
        inplace: bool | None = True,
        output_layout: Any = None,
        num_out_blocks: int | None = None,
        compute_kernel_config: Any = None,
        negative_mask: Tensor | None = None,
        use_welford: bool = False,
    ) -> Call:
        named = {"weight": weight, "bias": bias, "mask": input_mask, "negative_mask": negative_mask}
        given = {name: tensor for name, tensor in named.items() if tensor is not None}
        return Call(
            [input_tensor, *given.values()],
            has=tuple(given),
            groups=num_groups,
            epsilon=as_stored(epsilon, DataType.FLOAT32),
            memory_config=memory_config,
            dtype=dtype,
            layout=output_layout,
            core_grid=None if core_grid is None else (core_grid.x, core_grid.y),
            in_place=bool(inplace),  # none given by name means a new tensor
            out_blocks=num_out_blocks,
            compute=None if compute_kernel_config is None else Compute.of(compute_kernel_config),
            by_welford=use_welford,
        )

    def plan(
        self,
        planner: Planner,
        x: Slot,
        *others: Slot,
        has: tuple[str, ...],
        groups: int,
        epsilon: float,
        memory_config: MemoryConfig | None,
        dtype: DataType | None,
        layout: Layout | None,
        core_grid: tuple[int, int] | None,
        in_place: bool,
        out_blocks: int | None,
        compute: Compute | None,
        by_welford: bool,
    ) -> list[Slot]:
        spec = x.spec
        named = {name: slot.spec for name, slot in zip(has, others, strict=True)}
        made = layout or spec.layout
        check_call(spec, groups, in_place, made, dtype, planner.card.arch, layout)
        grid = core_grid or _grid(planner, spec, groups)
        check_blocks(spec, core_grid is None, out_blocks)
        if not spec.is_sharded:
            check_grid(spec, grid, groups)
        by_welford = by_welford and spec.shape[2] % TILE_SIZE == 0  # rows that fill no tile have no such kernel
        fatal(spec.is_sharded or not in_place, "inplace groupnorm not supported for unsharded tensors")
        problem = Problem(spec, named, groups, made, by_welford, compute)
        scope = Temporaries(planner)
        source, written = x, made
        if not spec.is_sharded:
            blocks = -1 if core_grid is None else 1 if out_blocks is None else out_blocks
            problem = replace(problem, grid=grid, out_blocks=blocks)
            if problem.tilized_before(planner.card):
                source = scope.add(plan_tilize_with_padding(planner, x, tiled_shape(spec.shape), spec.memory_config))
                problem = replace(problem, x=source.spec)
            if problem.untilized_after(planner.card):
                written = Layout.TILE
                problem = replace(problem, layout=written)
        check_tensors(problem, grid, planner.card)
        config = memory_config or DRAM_MEMORY_CONFIG
        room = planner.program_l1()
        out = x if in_place else planner.allocate(spec.with_(layout=written, memory_config=config))
        if spec.is_sharded:
            factory, cores = "GroupNormShardedProgramFactory", spec.shard.grid
            buffers = shard_buffers(planner, problem, x, out, grid, room)
        else:
            factory, cores, buffers = interleaved_buffers(planner, problem)
        program = GroupNormProgram(
            factory=factory,
            cores=cores,
            buffers=buffers,
            compute=compute,
            groups=groups,
            epsilon=epsilon,
            out_blocks=out_blocks,
            by_welford=by_welford,
            share=problem.share,
            given=has,
        )
        planner.dispatch(program, [source, *others], [out])
        if written is not made:
            out = scope.add(plan_to_layout(planner, out, made, None, None))
        scope.leave(out)
        return [out]

    def numbers(
        self,
        context: Context,
        x: torch.Tensor,
        *others: torch.Tensor,
        has: tuple[str, ...],
        groups: int,
        epsilon: float,
        **_: Any,
    ) -> list[torch.Tensor]:
        """In float32, rounded once; the kernels' own steps (by Welford or not, in how many blocks, in which registers)
        are not followed. Masks pick the channels of a group out of its tiles, which happens here anyway."""
        value = context.logical(x)
        batch, rows, channels = value.shape[0], value.shape[2], value.shape[3]
        grouped = value.reshape(batch, rows, groups, channels // groups)
        mean = _average(context, grouped)
        variance = _average(context, (grouped - mean).square())
        result = ((grouped - mean) * torch.rsqrt(variance + epsilon)).reshape(value.shape)
        named = dict(zip(has, others, strict=True))
        if "weight" in named:
            result = result * named["weight"].reshape(-1)[:channels]
        if "bias" in named:
            result = result + named["bias"].reshape(-1)[:channels]
        return [context.store(result)]


def _grid(planner: Planner, spec: Spec, groups: int) -> tuple[int, int]:
    """Where the caller names no cores: those of the shards, or as many as the rows can be distributed to."""
    if spec.is_sharded:
        box = spec.shard.grid.bounding_box()
        return box.end.x + 1, box.end.y + 1
    width, height = planner.card.grid
    found = largest_grid(spec, (width, height), groups)
    rows = spec.volume // spec.padded_shape[3]
    fatal(
        found is not None,
        f"group_norm: Could not determine a valid DRAM core grid for channels={spec.padded_shape[3]}, "
        f"num_groups={groups}, nhw={rows}. Specify core_grid explicitly or adjust configuration.",
    )
    assert found is not None
    return found


def _average(context: Context, grouped: torch.Tensor) -> torch.Tensor:
    if context.engine.numerics == "native":
        return grouped.mean((1, 3), keepdim=True)
    return average(grouped, (1, 3))
