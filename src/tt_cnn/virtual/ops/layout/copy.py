# SPDX-License-Identifier: Apache-2.0
"""copy and assign: into a tensor that exists, or into a new one, with a dtype change where values are in tiles."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, prod
from typing import Any

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.layout.capacity import program_limit
from tt_cnn.virtual.ops.layout.moving import MovingProgram
from tt_cnn.virtual.ops.layout.relayout import Relayout, alignment, extent, scratchpad, staging
from tt_cnn.virtual.ops.layout.tile_time import copy_cycles
from tt_cnn.virtual.ops.layout.work_split import split_work
from tt_cnn.virtual.ops.operation import Call, op
from tt_cnn.virtual.planning.plan import CircularBuffer, Planner, Slot
from tt_cnn.virtual.planning.program import Step
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import DataType, Layout, TensorMemoryLayout
from tt_cnn.virtual.types.geometry import TILE_SIZE, CoreRangeSet, div_up, round_up
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

_LARGEST_PART = 65536 * 4
"""Rows are copied in parts of at most this many bytes."""


@dataclass(frozen=True, kw_only=True)
class CopyProgram(MovingProgram):
    """Page by page, or where the two tensors are divided differently, row by row or tile by tile."""

    op: str = "Copy"

    def time(self, step: Step, figures: Figures) -> Cycles:
        return copy_cycles(step, figures)


def plan_copy(
    planner: Planner, x: Slot, memory_config: MemoryConfig, dtype: DataType | None, out: Slot | None = None
) -> Slot:
    spec = x.spec
    dtype = dtype or spec.dtype
    result = out or planner.allocate(Spec(spec.shape, dtype, spec.layout, memory_config))
    _validate(spec, memory_config, dtype, out.spec if out else None)
    if _copies_pages(planner, spec, memory_config, dtype):
        factory, cores, buffers = "SameMemoryConfig", *same_memory_program(planner, x, result)
    elif spec.layout is Layout.ROW_MAJOR:
        factory, cores, buffers = "DefaultRowMajor", *_rows(planner, spec, result.spec)
    else:
        factory, cores, buffers = "DefaultTilized", *_tiles(planner, x, result)
    planner.dispatch(CopyProgram(factory=factory, cores=cores, buffers=tuple(buffers)), [x], [result])
    return result


def _validate(spec: Spec, config: MemoryConfig, dtype: DataType, out: Spec | None) -> None:
    for side, one in (("inputs", spec.dtype), ("output tensors", dtype)):
        fatal(
            one is not DataType.INT8,
            f"ttnn.copy only supports float, bfloat, fp8_e4m3, int32, uint32, uint16 and uint8 {side} but got "
            f"{one.native}",
        )
    if out is not None:
        fatal(
            out.shape == spec.shape,
            f"Input tensor shape {spec.shape} does not match output tensor shape {out.shape}",
        )
        fatal(
            spec.layout is out.layout,
            f"Input tensor layout ({spec.layout.native}) must equal output tensor layout ({out.layout.native})",
        )
        fatal(
            out.memory_config == config,
            "Mismatched output memory config. Check to see if the preallocated output tensor has a different shard "
            "spec than the one specified in the passed-in memory config.",
        )
        fatal(out.dtype is dtype, "Mismatched output dtype")
    fatal(spec.dtype is dtype or spec.layout is Layout.TILE, "Only tile layout supports dtype conversion")


def _unit(spec: Spec, dtype: DataType) -> int:
    """Bytes of a page of the input's form in a dtype: a tile, a row, or a row of a shard."""
    if spec.layout is Layout.TILE:
        return dtype.tile_bytes
    width = spec.shard.shape[1] if spec.is_sharded else spec.physical[1]
    return width * dtype.element_bytes


def _copies_pages(planner: Planner, spec: Spec, config: MemoryConfig, dtype: DataType) -> bool:
    """Page by page, where both tensors are divided alike and four pages fit L1."""
    if spec.memory_config != config:
        return False
    word = alignment(planner.card, spec)
    total = 2 * round_up(_unit(spec, spec.dtype), word)
    if spec.dtype is not dtype:
        total += 2 * round_up(_unit(spec, dtype), word)
    return total < program_limit(planner)


def same_memory_program(planner: Planner, x: Slot, out: Slot) -> tuple[CoreRangeSet, list[CircularBuffer]]:
    """Circular buffers of two pages each; also the program of `move` between memories."""
    spec = out.spec
    units = spec.volume // (TILE_SIZE * TILE_SIZE) if spec.layout is Layout.TILE else spec.physical[0]
    cores, _ = split_work(planner.card, units)
    return cores, [
        CircularBuffer(
            2 * round_up(_unit(slot.spec, slot.spec.dtype), alignment(planner.card, slot.spec)), cores, name=name
        )
        for name, slot in _staged(x, out)
    ]


def _staged(x: Slot, out: Slot) -> list[tuple[str, Slot]]:
    """A conversion needs a buffer for each side; a copy needs one."""
    return [("input", x)] if x.spec.dtype is out.spec.dtype else [("input", x), ("output", out)]


def _page_elements(spec: Spec) -> int:
    """Elements of a row that lie together: a shard's, where shards divide rows."""
    config = spec.memory_config
    if config.is_sharded() and config.memory_layout is not TensorMemoryLayout.HEIGHT_SHARDED:
        return spec.shard.shape[1]
    return spec.shape[-1]


def _rows(planner: Planner, spec: Spec, out: Spec) -> tuple[CoreRangeSet, list[CircularBuffer]]:
    width, rows, element = spec.shape[-1], spec.logical_2d[0], spec.dtype.element_bytes
    common = gcd(_page_elements(spec), _page_elements(out))
    word = max(alignment(planner.card, spec), alignment(planner.card, out))
    if (
        rows < planner.card.cores
        and common < width
        and common * element <= _LARGEST_PART
        and common * element % word == 0
    ):
        cores, _ = split_work(planner.card, rows * div_up(width, common))
        return cores, [staging(2 * common * element, cores, name="rows")]
    cores, _ = split_work(planner.card, rows)
    page = min(round_up(out.page_bytes, alignment(planner.card, out)), _LARGEST_PART)
    return cores, [staging(2 * page, cores, name="rows"), scratchpad(min(spec.page_bytes, _LARGEST_PART), cores)]


def _tiles(planner: Planner, x: Slot, out: Slot) -> tuple[CoreRangeSet, list[CircularBuffer]]:
    shape = x.spec.shape
    outer = prod(tuple(shape)[:-2]) if len(shape) > 2 else 1
    tiles = outer * div_up(extent(shape, 2), TILE_SIZE) * div_up(extent(shape, 1), TILE_SIZE)
    cores, _ = split_work(planner.card, tiles)
    return cores, [
        staging(2 * round_up(slot.spec.page_bytes, alignment(planner.card, slot.spec)), cores, name=name)
        for name, slot in _staged(x, out)
    ]


@op("copy")
class Copy(Relayout):
    def arguments(self, input_a: Tensor, input_b: Tensor) -> Call:
        return Call([input_a, input_b], memory_config=input_b.memory_config(), dtype=input_b.dtype)

    def plan(self, planner: Planner, x: Slot, out: Slot | None = None, **options: Any) -> list[Slot]:
        return [plan_copy(planner, x, out=out, **options)]


@op("assign")
class Assign(Copy):
    """`(a, b)` copies into b; `(x, memory_config=, dtype=, output_tensor=)` makes a copy."""

    def arguments(  # type: ignore[override]
        self,
        input_tensor: Tensor,
        input_b: Tensor | None = None,
        *,
        memory_config: MemoryConfig | None = None,
        dtype: DataType | None = None,
        output_tensor: Tensor | None = None,
        **names: Any,
    ) -> Call:
        if input_b is not None:
            return Copy.arguments(self, input_tensor, input_b)
        if memory_config is None or names:
            raise TypeError("\nttnn.assign(): incompatible function arguments: it takes two tensors, or memory_config=")
        tensors = [input_tensor] + ([output_tensor] if output_tensor is not None else [])
        return Call(tensors, memory_config=memory_config, dtype=dtype)
