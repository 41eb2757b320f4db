# SPDX-License-Identifier: Apache-2.0
"""clone: a copy with the same memory config (or another of the same kind), in another dtype if wanted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.compute_program import ComputeProgram
from tt_cnn.virtual.ops.layout.moving import MovingProgram
from tt_cnn.virtual.ops.layout.relayout import Relayout, alignment, check_grid, padded_as, staging
from tt_cnn.virtual.ops.layout.tile_time import copy_cycles
from tt_cnn.virtual.ops.layout.work_split import split_work
from tt_cnn.virtual.ops.matmul.problem import Compute
from tt_cnn.virtual.ops.operation import Call, op
from tt_cnn.virtual.planning.plan import CircularBuffer, Planner, Slot
from tt_cnn.virtual.planning.program import Step
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, CoreRangeSet, round_up
from tt_cnn.virtual.types.memory_config import MemoryConfig


@dataclass(frozen=True, kw_only=True)
class CloneProgram(MovingProgram, ComputeProgram):
    """Page by page, through another dtype where one is wanted."""

    suffix: ClassVar[str] = "Operation"
    op: str = "Clone"
    factory: str = "CloneProgramFactory"

    def time(self, step: Step, figures: Figures) -> Cycles:
        return copy_cycles(step, figures)


def plan_clone(
    planner: Planner,
    x: Slot,
    dtype: DataType | None = None,
    config: MemoryConfig | None = None,
    compute: Compute | None = None,
) -> Slot:
    spec = x.spec
    source, config, dtype = spec.memory_config, config or spec.memory_config, dtype or spec.dtype
    out = planner.allocate(padded_as(spec.shape, dtype, spec.layout, config, spec.padded_shape))
    fatal(
        spec.dtype is dtype or spec.layout is Layout.TILE,
        "Clone: data type conversion is only supported with tile layout",
    )
    if source.is_sharded() and config.is_sharded():
        fatal(
            source.memory_layout is config.memory_layout,
            "Clone: input and output must have the same memory layout when both are sharded",
        )
        fatal(config.shard_spec is not None, "Clone: output memory config must have shard spec when sharded")
        fatal(
            source.shard_spec == config.shard_spec,
            "Clone: input and output shard specs must be identical (same grid, shape, and orientation)",
        )
    fatal(
        source.is_sharded() == config.is_sharded(),
        "Clone: mixed sharded/interleaved layout not currently supported. Both input and output must have the same "
        "layout.",
    )
    cores, buffers = _program(planner, x, out)
    check_grid(planner.card, cores)
    planner.dispatch(CloneProgram(cores=cores, buffers=tuple(buffers), compute=compute), [x], [out])
    return out


def _program(planner: Planner, x: Slot, out: Slot) -> tuple[CoreRangeSet, list[CircularBuffer]]:
    spec = out.spec
    if spec.is_sharded:
        cores, width = spec.shard.grid, spec.shard.shape[1]
    else:
        width = spec.shape[-1]
        units = spec.volume // (TILE_SIZE * TILE_SIZE if spec.layout is Layout.TILE else width)
        cores, _ = split_work(planner.card, units)
    dtypes = [x.spec.dtype] if x.spec.dtype is spec.dtype else [x.spec.dtype, spec.dtype]
    units_bytes = [d.tile_bytes if spec.layout is Layout.TILE else width * d.element_bytes for d in dtypes]
    named = zip(("input", "output"), units_bytes, strict=False)
    return cores, [
        staging(2 * round_up(size, alignment(planner.card, x.spec)), cores, name=name) for name, size in named
    ]


@op("clone")
class Clone(Relayout):
    def arguments(
        self,
        input: Tensor,
        *,
        dtype: DataType | None = None,
        memory_config: MemoryConfig | None = None,
        compute_kernel_config: Any = None,
    ) -> Call:
        compute = None if compute_kernel_config is None else Compute.of(compute_kernel_config)
        return Call([input], dtype=dtype, memory_config=memory_config, compute=compute)

    def plan(self, planner: Planner, x: Slot, memory_config: MemoryConfig | None, **options: Any) -> list[Slot]:
        return [plan_clone(planner, x, config=memory_config, **options)]
