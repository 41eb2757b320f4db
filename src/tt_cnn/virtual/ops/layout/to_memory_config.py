# SPDX-License-Identifier: Apache-2.0
"""to_memory_config: to another memory, by the most direct op that takes the tensor."""

from __future__ import annotations

from typing import Any

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.layout import interleaved_to_sharded as i2s
from tt_cnn.virtual.ops.layout import reshard
from tt_cnn.virtual.ops.layout import sharded_to_interleaved as s2i
from tt_cnn.virtual.ops.layout.copy import plan_copy
from tt_cnn.virtual.ops.layout.relayout import Relayout
from tt_cnn.virtual.ops.operation import Call, op
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import DataType, Layout, TensorMemoryLayout
from tt_cnn.virtual.types.memory_config import DRAM_MEMORY_CONFIG, MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec


def plan_to_memory_config(
    planner: Planner, x: Slot, memory_config: MemoryConfig, dtype: DataType | None = None, out: Slot | None = None
) -> Slot:
    source = x.spec.memory_config
    if source == memory_config and out is None:
        return x
    for one in (source, memory_config):
        is_dram_block = one.memory_layout is TensorMemoryLayout.BLOCK_SHARDED and one.is_dram()
        fatal(not is_dram_block, "We don't support DRAM block sharding")
    if memory_config.is_sharded():
        if x.spec.is_sharded:
            made = _shards_to_shards(planner, x, memory_config, dtype, out)
            if made is not None:
                return made
        if _deals(planner, x.spec, memory_config, dtype or x.spec.dtype, out):
            return i2s.plan_interleaved_to_sharded(planner, x, memory_config, dtype, out)
    if x.spec.is_sharded and _collects(planner, x.spec, memory_config, dtype or x.spec.dtype, out):
        return s2i.plan_sharded_to_interleaved(planner, x, memory_config, dtype, out)
    return plan_copy(planner, x, memory_config, dtype, out)


def _deals(planner: Planner, spec: Spec, config: MemoryConfig, dtype: DataType, out: Slot | None) -> bool:
    if i2s.refusal(planner, spec, config, dtype, out.spec if out else None) is not None:
        return False
    return i2s.fits(planner, spec, config, dtype)


def _collects(planner: Planner, spec: Spec, config: MemoryConfig, dtype: DataType, out: Slot | None) -> bool:
    if s2i.refusal(planner, spec, config, dtype, out.spec if out else None) is not None:
        return False
    return s2i.fits(planner, spec, config, dtype)


def _shards_to_shards(
    planner: Planner, x: Slot, config: MemoryConfig, dtype: DataType | None, out: Slot | None
) -> Slot | None:
    spec, source = x.spec, x.spec.memory_config
    rows_change = (
        spec.layout is Layout.ROW_MAJOR
        and source.memory_layout is not config.memory_layout
        and source.shard_spec is not None
        and config.shard_spec is not None
        and source.shard_spec.shape[1] != config.shard_spec.shape[1]
    )
    if not rows_change:
        if dtype is not None:
            return plan_copy(planner, x, config, dtype, out)
        if reshard.refusal(planner, spec, config, out.spec if out else None) is None and reshard.fits(
            planner, spec, config
        ):
            return reshard.plan_reshard(planner, x, config, out)
    wanted = dtype or spec.dtype
    if not _collects(planner, spec, DRAM_MEMORY_CONFIG, wanted, None):
        return None
    temporary = s2i.plan_sharded_to_interleaved(planner, x, DRAM_MEMORY_CONFIG, wanted)
    made = None
    if _deals(planner, temporary.spec, config, wanted, out):
        made = i2s.plan_interleaved_to_sharded(planner, temporary, config, wanted, out)
    planner.free(temporary)  # where it cannot be distributed, it was made for nothing, as in TT-NN
    return made


@op("to_memory_config")
class ToMemoryConfig(Relayout):
    def arguments(
        self,
        tensor: Tensor,
        memory_config: MemoryConfig,
        dtype: DataType | None = None,
        output_tensor: Tensor | None = None,
    ) -> Call:
        tensors = [tensor] + ([output_tensor] if output_tensor is not None else [])
        return Call(tensors, memory_config=memory_config, dtype=dtype)

    def freed_input(self, call: Call, i: int) -> str:
        shards = call.tensors[0].is_sharded(), call.attributes["memory_config"].is_sharded()
        if all(shards):
            return "bad optional access"
        return "Tensor is not allocated" if any(shards) else "Input Tensor is not allocated"

    def shortcut(self, call: Call) -> Tensor | None:
        x = call.tensors[0]
        x.buffer(self.name, self.freed_input(call, 0))
        same = len(call.tensors) == 1 and x.memory_config() == call.attributes["memory_config"]
        return x if same else None

    def plan(self, planner: Planner, x: Slot, out: Slot | None = None, **options: Any) -> list[Slot]:
        return [plan_to_memory_config(planner, x, out=out, **options)]
