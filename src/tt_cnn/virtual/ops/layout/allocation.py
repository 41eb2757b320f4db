# SPDX-License-Identifier: Apache-2.0
"""Tensors that are put on the card outside of ops; where one does not fit, the error says in which form it would."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from tt_cnn.virtual.arch import Card
from tt_cnn.virtual.devices.advice import explain
from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.errors.card_error import DoesNotFit
from tt_cnn.virtual.planning.alternatives import MEASURE, Alternative
from tt_cnn.virtual.planning.plan import FreeMemory, Plan, Planner
from tt_cnn.virtual.tensors.storage import Buffer
from tt_cnn.virtual.types.enums import HEIGHT, DataType, Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, CoreRange, CoreRangeSet, div_up, round_up
from tt_cnn.virtual.types.memory_config import DRAM_MEMORY_CONFIG, L1_MEMORY_CONFIG, ShardSpec
from tt_cnn.virtual.types.tensor_spec import Spec


def allocate(device: MeshDevice, spec: Spec, name: str) -> Buffer:
    """Memory for a tensor; `name` is TT-NN's of the call."""
    try:
        return device.allocate(spec, name)
    except DoesNotFit as error:
        card = device.card

        def plan_of(changes: Mapping[str, Any], given: Mapping[int, Spec], memory: FreeMemory) -> Plan:
            planner = Planner.for_specs(card, [], [], memory)
            return planner.finish([planner.allocate(replace(spec, **changes))])

        shape = "x".join(map(str, spec.shape))
        what = f"ttnn.{name}({shape} {spec.dtype.name.lower()})"
        explain(error, device, what, plan_of, {}, lambda: alternatives(card, spec))
        raise


def alternatives(card: Card, spec: Spec) -> Iterator[Alternative]:
    """Other forms of a tensor, those first that leave it in L1."""
    config = spec.memory_config
    if config.is_l1():
        yield from _on_more_cores(card, spec)
        if config.is_sharded():
            spread = {"memory_config": L1_MEMORY_CONFIG}
            yield Alternative("interleaved", "memory_config=ttnn.L1_MEMORY_CONFIG", spread, spread)
        in_dram = {"memory_config": DRAM_MEMORY_CONFIG}
        yield Alternative("memory_config", "memory_config=ttnn.DRAM_MEMORY_CONFIG", in_dram, in_dram)
    smaller = _smaller(spec)
    if smaller is not None:
        to_smaller = {"dtype": smaller}
        words = f"dtype=ttnn.{smaller.name.lower()} of the tensor"
        yield Alternative("dtype", words, to_smaller, to_smaller, caution=MEASURE)


def _on_more_cores(card: Card, spec: Spec) -> Iterator[Alternative]:
    """Height shards on all cores, where they are on fewer."""
    config, (columns, rows) = spec.memory_config, card.grid
    shard, cores = config.shard_spec, columns * rows
    if shard is None or config.memory_layout is not HEIGHT or shard.num_cores() >= cores:
        return
    height = div_up(spec.physical[0], cores)
    height = round_up(height, TILE_SIZE) if spec.layout is Layout.TILE else height
    grid = CoreRangeSet([CoreRange((0, 0), (columns - 1, rows - 1))])
    wider = {"memory_config": config.with_shard_spec(ShardSpec(grid, (height, shard.shape[1]), shard.orientation))}
    words = f"memory_config with shards of ({height}, {shard.shape[1]}) on {columns}x{rows} cores"
    yield Alternative("cores", words, wider, wider)


def _smaller(spec: Spec) -> DataType | None:
    """The next smaller float; block formats are there for tiles alone."""
    if spec.layout is Layout.TILE and spec.dtype in (DataType.FLOAT32, DataType.BFLOAT16):
        return DataType.BFLOAT8_B
    return DataType.BFLOAT16 if spec.dtype is DataType.FLOAT32 else None
