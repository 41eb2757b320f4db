# SPDX-License-Identifier: Apache-2.0
"""The pool as the card runs it: shard the input, halo, pool; or a sum over the whole image."""

from __future__ import annotations

from tt_cnn.virtual.errors.card_error import CardError
from tt_cnn.virtual.ops.conv2d.moving import emit_move, release, sharded
from tt_cnn.virtual.ops.layout.to_memory_config import plan_to_memory_config
from tt_cnn.virtual.ops.pool.checks import check_output, check_window
from tt_cnn.virtual.ops.pool.problem import Pool, Wish
from tt_cnn.virtual.ops.pool.program import plan_program
from tt_cnn.virtual.ops.pool.sharding import input_config, kept_parallel
from tt_cnn.virtual.ops.shape.reshape.reshape import plan_reshape
from tt_cnn.virtual.ops.sliding_window.halo import compute_key, plan_halo
from tt_cnn.virtual.ops.sliding_window.parallel import ParallelConfig
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.types.enums import Layout
from tt_cnn.virtual.types.geometry import Shape
from tt_cnn.virtual.types.tensor_spec import Spec

_LOWEST = 0xFF80
"""Minus infinity as bfloat16: what pads the input of a max pool."""


def plan_in_l1(planner: Planner, source: Slot, pool: Pool, wish: Wish) -> list[Slot]:
    """The whole pool through L1."""
    check_output(wish)
    check_window(pool, source.spec)
    held, parallel, owned = _brought(planner, source, pool, wish)
    halo = plan_halo(
        planner,
        held,
        pool.window,
        snap_to_tile=wish.tiled,
        tables_in_dram=wish.tables_in_dram,
        padding_value=0 if pool.is_average else _LOWEST,
        compute=compute_key(wish.compute),
    )
    gives_back = wish.deallocate_input or source.spec.memory_config.is_dram()
    if gives_back:
        release(planner, held)
    if wish.reallocate_halo:
        halo = emit_move(planner, halo)
    outputs = plan_program(planner, halo, pool, wish, parallel)
    outputs = [_placed(planner, output, wish) for output in outputs]
    planner.free(halo)
    if owned and not gives_back:
        planner.free(held)
    return outputs


def _brought(planner: Planner, source: Slot, pool: Pool, wish: Wish) -> tuple[Slot, ParallelConfig, bool]:
    """The input in shards, its cores, and whether that tensor is the plan's own."""
    spec = source.spec
    if spec.is_sharded:
        return source, kept_parallel(spec, wish), False
    rows = spec.padded_shape[0] * spec.padded_shape[1] * spec.padded_shape[2]
    config = input_config(pool, wish, rows, spec.layout, planner.card.grid)
    flat = source
    if spec.padded_shape[0] != 1 or spec.padded_shape[1] != 1:
        flat = plan_reshape(planner, source, _flat(spec.shape), _flat(spec.padded_shape))
    held = sharded(planner, flat, Spec(flat.spec.shape, flat.spec.dtype, flat.spec.layout, config), by_call=False)
    if flat.buffer != source.buffer:
        planner.free(flat)
    return held, ParallelConfig.of(config), True


def _flat(shape: Shape) -> Shape:
    n, h, w, c = shape
    return Shape((1, 1, n * h * w, c))


def _placed(planner: Planner, output: Slot, wish: Wish) -> Slot:
    if wish.memory_config is None or wish.memory_config == output.spec.memory_config:
        return output
    if wish.memory_config.is_sharded() and wish.memory_config.shard_spec is None:
        spec = output.spec  # rows with padding are not resharded but collected and redistributed
        padded = spec.layout is Layout.ROW_MAJOR and spec.padded_shape[3] != spec.shape[3]
        text = "MemoryConfig must have Shard Spec specified for sharded memory layout"
        raise CardError(text if padded else "bad optional access")
    elsewhere = plan_to_memory_config(planner, output, wish.memory_config, None)
    if elsewhere.buffer != output.buffer:
        planner.free(output)
    return elsewhere
