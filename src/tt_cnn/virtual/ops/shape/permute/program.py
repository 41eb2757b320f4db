"""The permute device operation: any order of dimensions, row-major or tiled, page by page or in blocks."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.layout.relayout import staging
from tt_cnn.virtual.ops.shape.programs import alignment, cores_for
from tt_cnn.virtual.ops.shape.reshape.viewing import tile_padded
from tt_cnn.virtual.ops.shape.shards import lacks_shards, shards_after
from tt_cnn.virtual.planning.plan import CircularBuffer, Planner, Slot
from tt_cnn.virtual.types.enums import Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, CoreRangeSet, Shape, div_up, round_up
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

FACE = 16
Program = tuple[CoreRangeSet, list[CircularBuffer]]


def plan_permute_device(planner: Planner, x: Slot, dims: Sequence[int], config: MemoryConfig) -> Slot:
    output = planner.allocate(_output_spec(planner, x.spec, dims, config))
    rank = len(dims)
    fatal(rank == len(x.spec.shape), "Permute dimensions must match input tensor rank")
    factory, (cores, buffers) = _program(planner, x.spec, output.spec, tuple(dims))
    planner.step("Permute", factory, cores, [x], [output], buffers, {"dims": tuple(dims)})
    return output


def _output_spec(planner: Planner, spec: Spec, dims: Sequence[int], config: MemoryConfig) -> Spec:
    shape = Shape([spec.shape[d] for d in dims])
    if lacks_shards(config):
        padded = tile_padded(shape) if spec.layout is Layout.TILE else shape
        config = config.with_shard_spec(shards_after(planner.card, spec, padded, config.memory_layout))
    return Spec(shape, spec.dtype, spec.layout, config)


def _program(planner: Planner, spec: Spec, out: Spec, dims: tuple[int, ...]) -> tuple[str, Program]:
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


def _rows(planner: Planner, spec: Spec) -> Program:
    page = round_up(spec.shape[-1] * spec.dtype.element_bytes, alignment(planner.card, spec))
    cores = cores_for(planner.card, spec.logical_2d[0])
    return cores, [staging(2 * page, cores)]


def _row_blocks(planner: Planner, spec: Spec, dims: tuple[int, ...]) -> Program:
    """Blocks of 32 x 32 elements are tilized, transposed and untilized."""
    swapped = spec.shape[dims[-1]]
    blocks = spec.logical_2d[0] // swapped * div_up(swapped, TILE_SIZE) * div_up(spec.shape[-1], TILE_SIZE)
    cores = cores_for(planner.card, blocks)
    block = TILE_SIZE**2 * spec.dtype.element_bytes
    return cores, [staging(2 * block, cores) for _ in range(3)]


def _tile_count(spec: Spec) -> int:
    return spec.volume // TILE_SIZE**2


def _tiles(planner: Planner, spec: Spec, out: Spec, *, swapped: bool) -> Program:
    cores = cores_for(planner.card, _tile_count(out))
    return cores, [staging(2 * spec.dtype.tile_bytes, cores) for _ in range(2 if swapped else 1)]


def _larger(first: CoreRangeSet, second: CoreRangeSet) -> CoreRangeSet:
    return first if first.num_cores() > second.num_cores() else second


def _tile_rows(planner: Planner, spec: Spec, out: Spec, dims: tuple[int, ...]) -> Program:
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
    buffers = [staging(tile, cores)]
    if shape[order[-2]] % TILE_SIZE:
        buffers.append(staging(FACE * _element(spec), cores))
    if swapped:
        buffers.append(staging(tile, cores))
    return cores, buffers


def _element(spec: Spec) -> int:
    return 1 if spec.dtype.is_block_float else spec.dtype.element_bytes


def _tile_blocks(planner: Planner, spec: Spec, out: Spec, dims: tuple[int, ...]) -> Program:
    """The last dimension changes: blocks of 32 along the new and the old one are transposed."""
    shape = tuple(spec.shape)
    x, y, w = dims[-1], dims[-2], shape[-1]
    others = prod(d for i, d in enumerate(shape[:-1]) if i != x)
    blocks = div_up(shape[x], TILE_SIZE) * div_up(w, TILE_SIZE) * others
    padding_units = _tile_count(out) // (out.padded_shape[-2] // TILE_SIZE)
    cores = _larger(cores_for(planner.card, blocks), cores_for(planner.card, padding_units))
    line = FACE * _element(spec)
    page = spec.dtype.tile_bytes + max(alignment(planner.card, spec) - line, 0)
    buffers = [staging(2 * page, cores) for _ in range(3)]
    if shape[y] % TILE_SIZE:
        buffers.append(staging(line, cores))
    return cores, buffers
