# SPDX-License-Identifier: Apache-2.0
"""The permute device operation: any order of dimensions, row-major or tiled, page by page or in blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, prod

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.ideal import element_bytes
from tt_cnn.virtual.cost.ideal_moves import IdealMove, Side
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.layout.moving import MovingProgram
from tt_cnn.virtual.ops.layout.relayout import staging
from tt_cnn.virtual.ops.layout.tile_time import copy_cycles
from tt_cnn.virtual.ops.shape.programs import CoresAndBuffers, alignment, cores_for
from tt_cnn.virtual.ops.shape.reshape.viewing import tile_padded
from tt_cnn.virtual.ops.shape.shards import lacks_shards, shards_after
from tt_cnn.virtual.ops.shape.time import blocks_cycles, rows_of_faces_cycles, turned_tiles_cycles
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.planning.program import Step
from tt_cnn.virtual.types.enums import Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, CoreRangeSet, Shape, div_up, round_up
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

FACE = 16


@dataclass(frozen=True, kw_only=True)
class PermuteProgram(MovingProgram):
    op: str = "Permute"
    dims: tuple[int, ...]
    turns_blocks: bool = False
    """The last dimension of rows changes: blocks of them are tilized, transposed and untilized."""

    def time(self, step: Step, figures: Figures) -> Cycles:
        spec = step.inputs[0].spec
        shape, last = tuple(spec.shape), len(self.dims) - 1
        if self.factory == "MultiCoreTileInvariant" and self.dims[-1] != last:
            return turned_tiles_cycles(step, figures)
        if self.factory == "MultiCoreTileRowInvariant":
            turned = self.dims[-1] != last
            height, new = (shape[-1], step.outputs[0].spec.shape[-1]) if turned else (shape[-2], shape[self.dims[-2]])
            return rows_of_faces_cycles(step, figures, height, new, turned)
        if self.factory in ("MultiCoreBlockedGeneric", "MultiCoreTiledGeneric"):
            across, along = shape[self.dims[-1]], shape[-1]
            others = prod(shape) // (across * along)
            blocks = others * div_up(across, TILE_SIZE) * div_up(along, TILE_SIZE)
            return blocks_cycles(step, figures, blocks, across, along)
        return copy_cycles(step, figures)

    def ideal_move(self, step: Step) -> IdealMove:
        """Tiles of another height are written a row of a face at a time."""
        move = super().ideal_move(step)
        source, output = step.inputs[0].spec, step.outputs[0].spec
        before, after = source.padded_shape, output.padded_shape
        if output.layout is not Layout.TILE or before[-1] != after[-1] or before[-2] == after[-2]:
            return move
        element = element_bytes(source.dtype)
        count = ceil(prod(tuple(output.shape)) * element / (FACE * element))
        return move._replace(writes=Side(move.writes.dram, FACE * element, count))


def plan_permute_device(planner: Planner, x: Slot, dims: Sequence[int], config: MemoryConfig) -> Slot:
    output = planner.allocate(_output_spec(planner, x.spec, dims, config))
    rank = len(dims)
    fatal(rank == len(x.spec.shape), "Permute dimensions must match input tensor rank")
    factory, (cores, buffers) = _program(planner, x.spec, output.spec, tuple(dims))
    program = PermuteProgram(
        factory=factory,
        cores=cores,
        buffers=tuple(buffers),
        dims=tuple(dims),
        turns_blocks=x.spec.layout is Layout.ROW_MAJOR and dims[-1] != rank - 1,
    )
    planner.dispatch(program, [x], [output])
    return output


def _output_spec(planner: Planner, spec: Spec, dims: Sequence[int], config: MemoryConfig) -> Spec:
    shape = Shape([spec.shape[d] for d in dims])
    if lacks_shards(config):
        padded = tile_padded(shape) if spec.layout is Layout.TILE else shape
        config = config.with_shard_spec(shards_after(planner.card, spec, padded, config.memory_layout))
    return Spec(shape, spec.dtype, spec.layout, config)


def _program(planner: Planner, spec: Spec, out: Spec, dims: tuple[int, ...]) -> tuple[str, CoresAndBuffers]:
    last = len(dims) - 1
    if spec.layout is Layout.ROW_MAJOR:
        if dims[-1] == last:
            return "MultiCoreRowInvariant", _rows(planner, spec)
        return "MultiCoreBlockedGeneric", _row_blocks(planner, spec, dims)
    if dims[-2:] in ((last - 1, last), (last, last - 1)):
        return "MultiCoreTileInvariant", _tiles(planner, spec, out, swapped=dims[-1] != last)
    if dims[-1] in (last, last - 1):
        return "MultiCoreTileRowInvariant", _tile_rows(planner, spec, out, dims)
    return "MultiCoreTiledGeneric", _tile_blocks(planner, spec, out, dims)


def _rows(planner: Planner, spec: Spec) -> CoresAndBuffers:
    page = round_up(spec.shape[-1] * spec.dtype.element_bytes, alignment(planner.card, spec))
    cores = cores_for(planner.card, spec.logical_2d[0])
    return cores, [staging(2 * page, cores, name="rows")]


def _row_blocks(planner: Planner, spec: Spec, dims: tuple[int, ...]) -> CoresAndBuffers:
    """Blocks of 32 x 32 elements are tilized, transposed and untilized."""
    swapped = spec.shape[dims[-1]]
    blocks = spec.logical_2d[0] // swapped * div_up(swapped, TILE_SIZE) * div_up(spec.shape[-1], TILE_SIZE)
    cores = cores_for(planner.card, blocks)
    block = TILE_SIZE**2 * spec.dtype.element_bytes
    return cores, [staging(2 * block, cores, name=name) for name in ("input", "tiles", "output")]


def _tile_count(spec: Spec) -> int:
    return spec.volume // TILE_SIZE**2


def _tiles(planner: Planner, spec: Spec, out: Spec, *, swapped: bool) -> CoresAndBuffers:
    cores = cores_for(planner.card, _tile_count(out))
    names = ["input", "output"] if swapped else ["tiles"]
    return cores, [staging(2 * spec.dtype.tile_bytes, cores, name=name) for name in names]


def _larger(first: CoreRangeSet, second: CoreRangeSet) -> CoreRangeSet:
    return first if first.num_cores() > second.num_cores() else second


def _tile_rows(planner: Planner, spec: Spec, out: Spec, dims: tuple[int, ...]) -> CoresAndBuffers:
    """Whole rows of tiles move; the output's height is new, so its last tiles may need padding written."""
    rank = len(dims)
    swapped = dims[-1] == rank - 2
    shape, padded = list(spec.shape), list(out.padded_shape)
    order = list(dims)
    if swapped:
        shape[-2:] = shape[-1], shape[-2]
        padded[-2:] = padded[-1], padded[-2]
        exchange = {rank - 2: rank - 1, rank - 1: rank - 2}
        order = [exchange.get(d, d) for d in order]
    padding_units = _tile_count(out) // (padded[-2] // TILE_SIZE)
    cores = _larger(cores_for(planner.card, _tile_count(spec)), cores_for(planner.card, padding_units))
    tile = 2 * spec.dtype.tile_bytes
    buffers = [staging(tile, cores, name="input")]
    if shape[order[-2]] % TILE_SIZE:
        buffers.append(staging(FACE * element_bytes(spec.dtype), cores, name="padding"))
    if swapped:
        buffers.append(staging(tile, cores, name="output"))
    return cores, buffers


def _tile_blocks(planner: Planner, spec: Spec, out: Spec, dims: tuple[int, ...]) -> CoresAndBuffers:
    """The last dimension changes: blocks of 32 along the new and the old one are transposed."""
    shape = tuple(spec.shape)
    x, y, w = dims[-1], dims[-2], shape[-1]
    others = prod(d for i, d in enumerate(shape[:-1]) if i != x)
    blocks = div_up(shape[x], TILE_SIZE) * div_up(w, TILE_SIZE) * others
    padding_units = _tile_count(out) // (out.padded_shape[-2] // TILE_SIZE)
    cores = _larger(cores_for(planner.card, blocks), cores_for(planner.card, padding_units))
    line = FACE * element_bytes(spec.dtype)
    page = spec.dtype.tile_bytes + max(alignment(planner.card, spec) - line, 0)
    buffers = [staging(2 * page, cores, name=name) for name in ("input", "tiles", "output")]
    if shape[y] % TILE_SIZE:
        buffers.append(staging(line, cores, name="padding"))
    return cores, buffers
