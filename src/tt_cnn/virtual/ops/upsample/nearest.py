# SPDX-License-Identifier: Apache-2.0
"""Nearest upsampling: sticks repeated, interleaved or in their shards, by whole or broken factors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.layout.relayout import rejoined
from tt_cnn.virtual.ops.layout.work_split import split_work
from tt_cnn.virtual.ops.sliding_window.halo import table_in_l1_small
from tt_cnn.virtual.ops.sliding_window.parallel import HEIGHT
from tt_cnn.virtual.ops.upsample.problem import Path, Upsampling, check_request, nearest_path, output_spec, unsupported
from tt_cnn.virtual.ops.upsample.tables import sharded_table
from tt_cnn.virtual.ops.upsample.time import nearest_cycles
from tt_cnn.virtual.planning.plan import CircularBuffer, Planner, Slot
from tt_cnn.virtual.planning.program import Program, Step
from tt_cnn.virtual.types.enums import Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, CoreRange, CoreRangeSet, div_up, first_cores, round_up
from tt_cnn.virtual.types.tensor_spec import Spec

_FRACTIONAL_PAGES = 4
"""Output rows that the program for broken factors has in flight."""


@dataclass(frozen=True, kw_only=True)
class NearestProgram(Program):
    suffix: ClassVar[str] = "Operation"
    op: str = "Upsample"
    upsampling: Upsampling

    def time(self, step: Step, figures: Figures) -> Cycles:
        return nearest_cycles(step, figures)


def plan_nearest(planner: Planner, source: Slot, ups: Upsampling) -> Slot:
    spec = source.spec
    path = nearest_path(spec, ups)
    output = planner.allocate(output_spec(spec, ups, path))
    check_request(ups)
    if spec.layout is Layout.TILE:
        fatal(spec.padded_shape == spec.shape, "Tiled input must be tile-aligned (no padding difference)")
    fatal(path is not None, unsupported(spec, ups))
    assert path is not None
    programs = {
        Path.WHOLE_INTERLEAVED: _interleaved,
        Path.WHOLE_SHARDED: _sharded,
        Path.FRACTIONAL: _fractional,
    }
    programs[path](planner, source, output, ups)
    return output


def _interleaved(planner: Planner, source: Slot, output: Slot, ups: Upsampling) -> None:
    spec = source.spec
    if spec.layout is Layout.TILE:
        tiles = spec.physical[1] // TILE_SIZE
        cores, most = split_work(planner.card, spec.physical[0] // TILE_SIZE)
        pages = tiles * (1 if most == 1 else 2)
        buffers = [
            _staging("input", pages * spec.dtype.tile_bytes, cores),
            _staging("output", pages * output.spec.dtype.tile_bytes, cores),
        ]
    else:
        cores, most = split_work(planner.card, spec.physical[0])
        page = round_up(spec.physical[1] * spec.dtype.element_bytes, planner.card.dram_alignment)
        buffers = [_staging("input", page * (1 if most == 1 else 2), cores)]
    planner.dispatch(_program(Path.WHOLE_INTERLEAVED, cores, buffers, ups), [source], [output])


def _fractional(planner: Planner, source: Slot, output: Slot, ups: Upsampling) -> None:
    own, other = source.spec.page_bytes, output.spec.page_bytes
    fatal(
        own == other,
        f"Input and output page sizes must match for nearest upsample, got input_page_size={own} "
        f"output_page_size={other}",
    )
    cores, _ = split_work(planner.card, output.spec.num_pages)
    alignment = planner.card.dram_alignment if output.spec.memory_config.is_dram() else planner.card.l1_alignment
    buffers = [_staging("output", _FRACTIONAL_PAGES * round_up(other, alignment), cores)]
    planner.dispatch(_program(Path.FRACTIONAL, cores, buffers, ups), [source], [output])


def _sharded(planner: Planner, source: Slot, output: Slot, ups: Upsampling) -> None:
    spec = source.spec
    fatal(
        spec.padded_shape[3] * spec.dtype.element_bytes == output.spec.padded_shape[3] * spec.dtype.element_bytes,
        "Input and output sticks should have same size",
    )
    fatal(output.spec.memory_config.shard_spec is not None, "bad optional access")
    cores, others = spec.shard.num_cores(), output.spec.shard.num_cores()
    fatal(cores == others, f"Output tensor should have same number of cores {others} as input tensor {cores}")
    rows = spec.shard.shape[0]
    scale_h, scale_w = ups.whole
    stick = _stick(spec, planner.card.l1_alignment)
    held = spec.shard_pages * round_up(spec.page_bytes, planner.card.l1_alignment)
    fatal(
        rows * stick <= held,
        f"DFB 'upsample_shard_in' (entry_size {stick} * num_entries {rows} = {rows * stick} bytes) is larger than the "
        f"per-bank allocation of its borrowed TensorParameter 'upsample_shard_input' ({held} bytes).",
    )
    busy = _busy(spec)
    n, h, w, _ = spec.padded_shape
    size = sharded_table(n, h, w, scale_h, rows)
    table = table_in_l1_small(planner, size, busy)
    buffers = [
        _staging("input", rows * stick, busy, source),
        _staging("output", rows * scale_h * scale_w * stick, busy, output),
        CircularBuffer(size, busy, table, dataflow=True, name="stick positions"),
    ]
    planner.dispatch(_program(Path.WHOLE_SHARDED, busy, buffers, ups), [source], [output], [table])


def _stick(spec: Spec, alignment: int) -> int:
    """Bytes of a pixel on one core. Of block shards it is the channels' share of a column of cores, whatever the
    orientation, also where shards are wider and some columns stay empty (recorded)."""
    size = spec.padded_shape[3] * spec.dtype.element_bytes
    if spec.memory_config.memory_layout is not HEIGHT:
        size //= spec.shard.grid.ranges()[0].grid_size().x
    return round_up(size, alignment)


def _busy(spec: Spec) -> CoreRangeSet:
    """The cores that have rows; block shards keep all their cores along the channels."""
    shard = spec.shard
    rows = div_up(spec.padded_shape[0] * spec.padded_shape[1] * spec.padded_shape[2], shard.shape[0])
    if spec.memory_config.memory_layout is HEIGHT:
        return first_cores(shard.grid, rows, shard.row_wise)
    (box,) = shard.grid.ranges()
    if shard.row_wise:
        return CoreRangeSet([CoreRange(box.start, (box.end.x, min(box.end.y, box.start.y + rows - 1)))])
    return CoreRangeSet([CoreRange(box.start, (min(box.end.x, box.start.x + rows - 1), box.end.y))])


def _staging(name: str, size: int, cores: CoreRangeSet, alias: Slot | None = None) -> CircularBuffer:
    return CircularBuffer(size, rejoined(cores), alias, dataflow=True, name=name)


def _program(path: Path, cores: CoreRangeSet, buffers: list[CircularBuffer], ups: Upsampling) -> NearestProgram:
    return NearestProgram(factory=path.value, cores=cores, buffers=tuple(buffers), upsampling=ups)
