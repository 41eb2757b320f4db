# SPDX-License-Identifier: Apache-2.0
"""Fold as a chain of pads, transposes and views: the older way, of NCHW tensors (`use_transpose_as_fold`)."""

from __future__ import annotations

from dataclasses import dataclass

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.layout.moving import PagesProgram
from tt_cnn.virtual.ops.layout.work_split import SINGLE_CORE, split_work
from tt_cnn.virtual.ops.shape.pad.pad import plan_pad
from tt_cnn.virtual.ops.shape.permute.program import plan_permute_device
from tt_cnn.virtual.ops.shape.programs import Temporaries, alignment
from tt_cnn.virtual.ops.shape.reordering import plan_transpose
from tt_cnn.virtual.ops.shape.reshape.viewing import plan_view
from tt_cnn.virtual.ops.shape.shards import L1_INTERLEAVED
from tt_cnn.virtual.ops.shape.slice.slice import plan_slice
from tt_cnn.virtual.planning.plan import CircularBuffer, Planner, Slot
from tt_cnn.virtual.types.enums import HEIGHT, BufferType, DataType, Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, CoreRangeSet, Shape, div_up, round_up
from tt_cnn.virtual.types.memory_config import MemoryConfig, ShardSpec
from tt_cnn.virtual.types.tensor_spec import Spec

Added = tuple[int, int, int]
"""Channels added at the end, rows and columns."""
_WIDTH_UNIT = 8


@dataclass(frozen=True, kw_only=True)
class ReshapeOnDeviceProgram(PagesProgram):
    op: str = "Reshape"


def plan_fold_by_transposes(
    planner: Planner, x: Slot, stride: tuple[int, int], added: Added, output_shape: Shape | None
) -> Slot:
    channels, rows, columns = added
    n, c, h, w = x.spec.shape
    shape = (n, c + channels, round_up(h + rows, TILE_SIZE), round_up(w + columns, TILE_SIZE))
    scope = Temporaries(planner)
    padded = scope.add(plan_pad(planner, x, [(0, b - a) for a, b in zip(x.spec.shape, shape, strict=True)], 0.0))
    turned = scope.add(plan_permute_device(planner, padded, (0, 3, 1, 2), L1_INTERLEAVED))
    n, w, c, h = turned.spec.shape
    joined = scope.add(_regrouped(planner, turned, Shape([n, w // stride[1], c * stride[1], h])))
    turned = scope.add(plan_transpose(planner, joined, 2, 3, L1_INTERLEAVED))
    n, w, h, c = turned.spec.shape
    joined = scope.add(_regrouped(planner, turned, Shape([n, w, h // stride[0], c * stride[0]])))
    result = scope.add(plan_transpose(planner, joined, 1, 2, L1_INTERLEAVED))
    if output_shape is not None:
        result = plan_slice(planner, result, [0] * 4, list(output_shape), [1] * 4, L1_INTERLEAVED)
    scope.leave(result)
    return result


def _regrouped(planner: Planner, x: Slot, shape: Shape) -> Slot:
    """TT-NN's `reshape_on_device`: a view, rows cut again on the card, or a copy through the host."""
    spec = x.spec
    if shape[-1] == spec.padded_shape[-1]:
        return plan_view(planner, x, shape)
    if spec.layout is Layout.TILE:
        return _regrouped_tiles(planner, x, shape)
    rows, columns = spec.physical
    out_rows = shape.volume() // shape[-1]
    odd = spec.padded_shape[-1] % _WIDTH_UNIT or shape[-1] % _WIDTH_UNIT
    if odd and any(value % TILE_SIZE for value in (rows, columns, out_rows, shape[-1])):
        fatal(
            spec.dtype is DataType.BFLOAT16,
            f"Input tensor dtype must be BFLOAT16 for this reshape operation but got {spec.dtype.native}",
        )
        return planner.allocate(Spec(shape, spec.dtype, spec.layout, L1_INTERLEAVED))
    output = planner.allocate(Spec(shape, spec.dtype, spec.layout, L1_INTERLEAVED))
    element = spec.dtype.element_bytes
    old, new = columns * element, shape[-1] * element
    fatal(
        max(old, new) % min(old, new) == 0,
        f"Last dimension of the old shape ({old}) should be divisible by the last dimension of the new shape ({new}) "
        "or vice versa",
    )
    _, share = split_work(planner.card, rows if old > new else out_rows)
    program = ReshapeOnDeviceProgram(
        factory="ReshapeRMProgramFactory",
        cores=planner.grid,
        buffers=(CircularBuffer(share * max(old, new), planner.grid, name="rows"),),
    )
    planner.dispatch(program, [x], [output])
    return output


def _regrouped_tiles(planner: Planner, x: Slot, shape: Shape) -> Slot:
    """Tiles put together line by line, on one core."""
    spec = x.spec
    output = planner.allocate(Spec(shape, spec.dtype, spec.layout, L1_INTERLEAVED))
    fatal(
        spec.volume == output.spec.volume,
        "Tile reshape requires the input and output to have the same tile-padded physical volume, but got input "
        f"{spec.volume} and output {output.spec.volume}. Reshapes that change the tile padding are not supported on "
        "the tile path; use ttnn::reshape instead.",
    )
    word, line = alignment(planner.card, spec), 16 * spec.dtype.element_bytes
    buffers = [CircularBuffer(2 * spec.dtype.tile_bytes, SINGLE_CORE, name="tiles")]
    if word > line:
        buffers.append(CircularBuffer(word, SINGLE_CORE, name="line"))
    program = ReshapeOnDeviceProgram(factory="ReshapeTileProgramFactory", cores=SINGLE_CORE, buffers=tuple(buffers))
    planner.dispatch(program, [x], [output])
    return output


def plan_sharded_fold_by_transposes(
    planner: Planner,
    x: Slot,
    stride: tuple[int, int],
    added: Added,
    output_shape: Shape | None,
    grid: CoreRangeSet,
    override: MemoryConfig | None,
) -> Slot:
    channels, rows, columns = added
    n, c, h, w = x.spec.shape
    high, wide = h + 2 * rows, w + 2 * columns
    final = output_shape or Shape([n, high // stride[0], wide // stride[1], (c + channels) * stride[0] * stride[1]])
    orientation = x.spec.shard.orientation
    scope = Temporaries(planner)

    def over_grid(shape: Shape) -> MemoryConfig:
        height = div_up(shape.volume() // shape[-1], grid.num_cores())
        return MemoryConfig(HEIGHT, BufferType.L1, ShardSpec(grid, [height, shape[-1]], orientation))

    def padded(source: Slot, shape: Shape, front: int) -> Slot:
        pairs = [(0, b - a) for a, b in zip(source.spec.shape, shape, strict=True)]
        pairs[2] = (front, pairs[2][1] - front)
        return scope.replace(source, plan_pad(planner, source, pairs, 0.0, over_grid(shape), multicore=False))

    current = padded(x, Shape([n, c + channels, round_up(high, TILE_SIZE), w]), rows)
    current = scope.replace(current, plan_transpose(planner, current, 2, 3))
    shape = Shape([n, c + channels, round_up(wide, TILE_SIZE), round_up(high, TILE_SIZE)])
    current = padded(current, shape, columns)
    current = scope.replace(current, plan_transpose(planner, current, 1, 2))
    n, w, c, h = current.spec.shape
    current = plan_view(planner, current, Shape([n, w // stride[1], c * stride[1], h]))
    current = scope.replace(current, plan_transpose(planner, current, 2, 3))
    n, w, h, c = current.spec.shape
    current = plan_view(planner, current, Shape([n, w, h // stride[0], c * stride[0]]))
    current = scope.replace(current, plan_transpose(planner, current, 1, 2))
    target = override or over_grid(final)
    current = scope.replace(current, plan_slice(planner, current, [0] * 4, list(final), [1] * 4, target))
    scope.leave(current)
    return current
