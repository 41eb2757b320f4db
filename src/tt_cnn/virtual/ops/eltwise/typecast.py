# SPDX-License-Identifier: Apache-2.0
"""typecast: another dtype, packed precisely; a device op of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from tt_cnn.virtual import numerics
from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.cost.tensix import vector_cycles
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.eltwise.calls import PLACEMENT, positional, require_tensor, with_signature, wrong_types
from tt_cnn.virtual.ops.eltwise.time import paged_cycles
from tt_cnn.virtual.ops.eltwise.unary_plan import tile_buffer
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.ops.reduction.units import cores_for_work
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.planning.program import Program, Step
from tt_cnn.virtual.tensors.storage import CARRIER
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import CoreRangeSet, cores_to_ranges
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec


@dataclass(frozen=True, kw_only=True)
class TypecastProgram(Program):
    op: str = "Typecast"
    dtype: DataType

    def time(self, step: Step, figures: Figures) -> Cycles:
        vector = vector_cycles(figures, "typecast", False)
        in_shards = self.factory == "TypecastShardedProgramFactory"
        return paged_cycles(step, figures, in_shards, figures.unary_cycles + vector, vector)


@dataclass(frozen=True, kw_only=True)
class IntegerPowerProgram(Program):
    """`pow` of integers to a whole number: square and multiply."""

    op: str = "PowInt"
    factory: str = "PowIntProgramFactory"
    exponent: int

    def time(self, step: Step, figures: Figures) -> Cycles:
        """A product for each bit of the exponent and one more for each that is set."""
        products = self.exponent.bit_length() + self.exponent.bit_count()
        vector = products * vector_cycles(figures, "mul_int32", False)
        return paged_cycles(step, figures, False, figures.unary_cycles + vector, vector)


def works_on_shards(x: Spec, dtype: DataType, memory_config: MemoryConfig, l1_alignment: int) -> bool:
    """Input and output tiles of one size, in L1, in shards of whole aligned tiles."""
    if x.memory_config.shard_spec is None or x.dtype.tile_bytes != dtype.tile_bytes:
        return False
    if x.memory_config.is_dram() or memory_config.is_dram():
        return False
    if x.dtype.is_block_float:
        return True
    height, width = x.shard.shape
    size = x.dtype.element_bytes
    return width * size % l1_alignment == 0 and height * width * size % x.dtype.tile_bytes == 0


def plan_typecast(
    planner: Planner,
    x: Slot,
    dtype: DataType,
    memory_config: MemoryConfig | None = None,
    output: Slot | None = None,
    cores: CoreRangeSet | None = None,
) -> Slot:
    config = output.spec.memory_config if output is not None else memory_config or x.spec.memory_config
    out = output or planner.allocate(Spec(x.spec.shape, dtype, x.spec.layout, config))
    _check(planner, x.spec, config, None if output is None else output.spec, cores)
    factory, cores, shards = _program(planner, x.spec, out.spec, cores)
    buffers = tuple(
        tile_buffer(name, slot, cores, shards, dataflow=True) for name, slot in (("input", x), ("output", out))
    )
    planner.dispatch(TypecastProgram(factory=factory, cores=cores, buffers=buffers, dtype=dtype), [x], [out])
    return out


def plan_integer_power(
    planner: Planner, x: Slot, exponent: int, memory_config: MemoryConfig | None, output: Slot | None
) -> Slot:
    out = output or planner.allocate(x.spec.with_(memory_config=memory_config or x.spec.memory_config))
    cores = cores_for_work(planner, x.spec.num_pages)
    buffers = tuple(tile_buffer(name, x, cores, False, dataflow=True) for name in ("input", "output"))
    planner.dispatch(IntegerPowerProgram(cores=cores, buffers=buffers, exponent=exponent), [x], [out])
    return out


def _program(planner: Planner, x: Spec, out: Spec, subgrid: CoreRangeSet | None) -> tuple[str, CoreRangeSet, bool]:
    """The factory, its cores, and whether it works on shards in place."""
    if subgrid is not None:
        return "TypecastSubgridProgramFactory", subgrid, False
    if works_on_shards(x, out.dtype, out.memory_config, planner.card.l1_alignment):
        return "TypecastShardedProgramFactory", cores_to_ranges(x.shard.grid.cores()), True
    row_major = x.layout is Layout.ROW_MAJOR
    cores = cores_for_work(planner, x.num_pages, row_wise=row_major)
    chunked = row_major and not x.is_sharded
    return "TypecastRowMajorChunkedProgramFactory" if chunked else "TypecastProgramFactory", cores, False


def _check(planner: Planner, x: Spec, config: MemoryConfig, output: Spec | None, subgrid: CoreRangeSet | None) -> None:
    if x.is_sharded:
        alignment = planner.card.l1_alignment
        fatal(
            x.page_bytes % alignment == 0,
            f"Typecast operation requires sharded input tensor page size ({x.page_bytes} bytes) to be aligned to L1 "
            f"({alignment} bytes)",
        )
    if x.layout is Layout.ROW_MAJOR:
        fatal(
            subgrid is None,
            "Typecast operation does not support sub_core_grids when input tensor is in Row-Major layout.",
        )
    fatal(
        x.memory_config.memory_layout is config.memory_layout,
        "Typecast operation requires Input and Output memory layout to match. Input layout: "
        f"{x.memory_config.memory_layout.native}, Output layout: {config.memory_layout.native}",
    )
    if output is None:
        return
    fatal(
        output.shape == x.shape,
        "Typecast operation requires input and preallocated output logical shapes to match. Input shape: "
        f"{x.shape}, Preallocated output shape: {output.shape}",
    )
    fatal(
        output.layout is x.layout,
        "Typecast operation requires input and output layouts to match. Input layout: "
        f"{x.layout.native}, Output layout: {output.layout.native}",
    )


def cast(context: Context, x: torch.Tensor, source: DataType, target: DataType) -> torch.Tensor:
    """The values of a typecast in any numerics."""
    if context.engine.numerics == "native" and source.is_float and target.is_float:
        return x
    value = numerics.typecast(x, source, target).to(CARRIER[target])
    return context.engine.pack(value, target) if context.engine.numerics == "native" else value


@op("typecast")
class Typecast(Operation):
    """`ttnn.typecast(tensor, dtype)`, or with the input's dtype named too."""

    freed = "Input Tensor is not allocated"
    arguments = with_signature(
        positional("input_tensor"), positional("dtype"), positional("output_dtype", None), *PLACEMENT
    )

    def make_call(
        self,
        input_tensor: Any,
        dtype: Any,
        output_dtype: Any = None,
        memory_config: Any = None,
        output_tensor: Any = None,
        sub_core_grids: Any = None,
    ) -> Call:
        x = require_tensor(self, input_tensor, dtype)
        target = output_dtype if output_dtype is not None else dtype
        if not isinstance(target, DataType):
            raise wrong_types(self, (input_tensor, target))
        tensors = [x]
        if output_tensor is not None:
            tensors.append(require_tensor(self, output_tensor))
            fatal(
                output_tensor.dtype is target,
                "If both output dtype and output tensor provided dtype should match",
            )
        return Call(tensors, dtype=target, memory_config=memory_config, cores=sub_core_grids)

    def plan(self, planner: Planner, x: Slot, output: Slot | None = None, **attributes: Any) -> list[Slot]:
        target, config, cores = attributes["dtype"], attributes["memory_config"], attributes["cores"]
        return [plan_typecast(planner, x, target, config, output, cores)]

    def numbers(
        self, context: Context, x: torch.Tensor, *_: torch.Tensor, dtype: DataType, **__: Any
    ) -> list[torch.Tensor]:
        out = context.outputs[0]
        value = cast(context, x, context.inputs[0].dtype, dtype)
        if tuple(value.shape) != tuple(out.padded_shape):
            value = context.store(context.logical(value))
        return [value]
