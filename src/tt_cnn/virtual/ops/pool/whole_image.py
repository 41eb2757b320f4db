# SPDX-License-Identifier: Apache-2.0
"""An average over the whole image: one reduction over its rows instead of a halo and windows.

Tall images are cut into slices, one per core: these are summed up to rows of float32, and the rows once more.
"""

from __future__ import annotations

from torch import Tensor

from tt_cnn.virtual.ops.layout.to_layout import plan_to_layout
from tt_cnn.virtual.ops.layout.to_memory_config import plan_to_memory_config
from tt_cnn.virtual.ops.matmul.problem import Compute
from tt_cnn.virtual.ops.operation import Context
from tt_cnn.virtual.ops.pool.numbers import image_of
from tt_cnn.virtual.ops.pool.problem import Pool, Wish
from tt_cnn.virtual.ops.reduction.reduce_program import FACTORIES, ReduceProgram, scaler_tile
from tt_cnn.virtual.ops.reduction.units import cores_for_work, staged, tiles
from tt_cnn.virtual.ops.reduction.values import reduction_compute, sum_columns
from tt_cnn.virtual.ops.shape.programs import Temporaries
from tt_cnn.virtual.ops.shape.reshape.reshape import plan_reshape
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.types.enums import DataType, Layout, TensorMemoryLayout
from tt_cnn.virtual.types.geometry import TILE_SIZE, Shape
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

_TALL = {Layout.ROW_MAJOR: 16, Layout.TILE: 20}
"""Tile rows from which on an image is cut into slices."""
_STAGED_ROWS = 8
"""Tile rows of a row-major input that a core stages at most."""


def is_whole_image(pool: Pool, wish: Wish, spec: Spec) -> bool:
    """The window is the image, and the reduction can take the tensor as it stands (`is_global_pool`)."""
    if not pool.is_average or pool.kernel != (pool.height, pool.width) or any(pool.padding) or wish.scheme is not None:
        return False
    if len(spec.shape) != 4:
        return False
    rows = spec.padded_shape[0] * spec.padded_shape[1] * spec.padded_shape[2]
    safe = not spec.dtype.is_block_float or _is_aligned(pool)
    return rows % pool.batch == 0 and safe


def _is_aligned(pool: Pool) -> bool:
    return pool.height * pool.width % TILE_SIZE == 0


def plan_whole_image(planner: Planner, source: Slot, pool: Pool, wish: Wish) -> Slot:
    scope = Temporaries(planner)
    held = source.spec.memory_config
    wanted = wish.memory_config or held
    config = wanted
    if wanted.is_sharded() or held.is_sharded():
        config = MemoryConfig(TensorMemoryLayout.INTERLEAVED, wanted.buffer_type)
    taken = source
    if held != config:
        taken = scope.add(plan_to_memory_config(planner, taken, config, None))
    if taken.spec.layout is Layout.TILE and not _is_aligned(pool) and not taken.spec.dtype.is_block_float:
        taken = scope.replace(taken, plan_to_layout(planner, taken, Layout.ROW_MAJOR, None, None))
    padded = taken.spec.padded_shape
    rows = padded[0] * padded[1] * padded[2] // pool.batch
    image = Shape((pool.batch, 1, pool.height * pool.width, pool.channels))
    canonical = scope.add(plan_reshape(planner, taken, image, Shape((pool.batch, 1, rows, padded[3]))))
    result = scope.add(_plan_sum(planner, canonical, pool, wish, config))
    if (
        result.spec.layout is not wish.layout
        and wish.layout is Layout.ROW_MAJOR
        and not result.spec.dtype.is_block_float
    ):
        result = scope.replace(result, plan_to_layout(planner, result, wish.layout, None, config))
    padded = result.spec.padded_shape
    if pool.batch == 1:
        shape = Shape((1, 1, 1, pool.channels))
        result = planner.view(result, Spec(shape, result.spec.dtype, result.spec.layout, config))
    else:
        shape = Shape((1, 1, pool.batch, pool.channels))
        result = scope.replace(result, plan_reshape(planner, result, shape, Shape((1, 1, padded[0], padded[3]))))
    if result.spec.layout is not wish.layout:
        result = scope.replace(result, plan_to_layout(planner, result, wish.layout, None, config))
    if not wanted.is_sharded() and result.spec.memory_config != wanted:
        result = scope.replace(result, plan_to_memory_config(planner, result, wanted, None))
    scope.leave(result)
    return result


def _plan_sum(planner: Planner, x: Slot, pool: Pool, wish: Wish, config: MemoryConfig) -> Slot:
    spec = x.spec
    images, rows, columns = tiles(spec)
    slices = 1
    if rows >= _TALL[spec.layout]:
        slices = min(planner.card.cores // (images * columns), rows)
    layout = wish.layout
    if slices < 2:
        if spec.layout is Layout.TILE or pool.batch > 1:
            layout = spec.layout
        return _plan_reduce(planner, x, 1, spec.dtype, layout, wish, config, pool)
    if spec.dtype.is_block_float:
        layout = Layout.TILE
    elif spec.layout is Layout.ROW_MAJOR and pool.batch > 1:
        layout = Layout.ROW_MAJOR
    partial = _plan_reduce(planner, x, slices, DataType.FLOAT32, Layout.ROW_MAJOR, wish, config, pool)
    result = _plan_reduce(planner, partial, 1, spec.dtype, layout, wish, config, pool)
    planner.free(partial)
    return result


def _plan_reduce(
    planner: Planner,
    x: Slot,
    slices: int,
    dtype: DataType,
    layout: Layout,
    wish: Wish,
    config: MemoryConfig,
    pool: Pool,
) -> Slot:
    """One `Reduce` step along the rows: one row a slice comes out."""
    spec = x.spec
    images, rows, columns = tiles(spec)
    output = planner.allocate(Spec(Shape((spec.shape[0], 1, slices, spec.shape[3])), dtype, layout, config))
    cores = cores_for_work(planner, images * columns * slices)
    tile, out_tile = spec.dtype.tile_bytes, dtype.tile_bytes
    scaler = scaler_tile(spec.dtype)
    if spec.layout is Layout.ROW_MAJOR:
        held = max(2, min(rows, _STAGED_ROWS))
        sizes = {"rows": 2 * tile, "scaler": scaler, "result": out_tile, "input": held * tile, "padding": tile}
        sizes["output"] = 2 * out_tile
    else:
        sizes = {"input": _staged_tiles(spec, slices, wish) * tile, "scaler": scaler, "output": 2 * out_tile}
    program = ReduceProgram(
        factory=FACTORIES["H"],
        cores=cores,
        buffers=staged(cores, sizes),
        compute=None if wish.compute is None else Compute.of(wish.compute),
        along="H",
        kind="mean",
        scalar=1.0 / float(pool.divisor or pool.height * pool.width),
        slices=slices,
    )
    planner.dispatch(program, [x], [output])
    return output


def _staged_tiles(spec: Spec, slices: int, wish: Wish) -> int:
    """Tiled slices are read as many columns at a time as the destination registers hold, twice."""
    if slices == 1 or spec.dtype is DataType.FLOAT32:
        return 2
    return 8 if wish.compute is None or wish.compute.fp32_dest_acc_en else 16


def averaged(context: Context, x: Tensor, pool: Pool, wish: Wish) -> Tensor:
    """The mean over the image, before it is packed: as a sum over columns times one over the number of pixels."""
    image = image_of(x, pool).reshape(pool.batch, 1, -1, pool.channels)
    scale = 1.0 / float(pool.divisor or pool.height * pool.width)
    compute = reduction_compute(context.arch) if wish.compute is None else Compute.of(wish.compute)
    dtype = context.inputs[0].dtype
    whole = compute.fp32 and dtype is DataType.FLOAT32
    return sum_columns(context.engine, image.contiguous(), dtype, scale, compute, whole=whole)
