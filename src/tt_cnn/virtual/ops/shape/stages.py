"""Steps of other ops that the composite ops of this package are made of, with the arguments these need.

`to_layout` is not among them: it pads, and so stands above this package's pad.
"""

from __future__ import annotations

from tt_cnn.virtual.ops.eltwise.typecast import plan_typecast
from tt_cnn.virtual.ops.layout.clone import plan_clone
from tt_cnn.virtual.ops.layout.copy import plan_copy
from tt_cnn.virtual.ops.layout.interleaved_to_sharded import plan_interleaved_to_sharded
from tt_cnn.virtual.ops.layout.sharded_to_interleaved import plan_sharded_to_interleaved
from tt_cnn.virtual.ops.layout.tilize_with_val_padding import plan_tilize_with_padding
from tt_cnn.virtual.ops.layout.to_memory_config import plan_to_memory_config
from tt_cnn.virtual.ops.layout.untilize_with_unpadding import plan_untilize_with_unpadding
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.types.enums import DataType
from tt_cnn.virtual.types.geometry import Shape
from tt_cnn.virtual.types.memory_config import MemoryConfig


def to_memory_config(planner: Planner, x: Slot, config: MemoryConfig, out: Slot | None = None) -> Slot:
    return plan_to_memory_config(planner, x, config, None, out)


def untilize_with_unpadding(planner: Planner, x: Slot, shape: Shape) -> Slot:
    """Row-major, and of the logical shape alone."""
    return plan_untilize_with_unpadding(planner, x, [d - 1 for d in shape], None)


def tilize_with_val_padding(planner: Planner, x: Slot, padded: Shape, config: MemoryConfig) -> Slot:
    return plan_tilize_with_padding(planner, x, padded, config, None)


def clone(planner: Planner, x: Slot, config: MemoryConfig) -> Slot:
    return plan_clone(planner, x, None, config)


def copy_into(planner: Planner, x: Slot, out: Slot) -> Slot:
    return plan_copy(planner, x, out.spec.memory_config, out.spec.dtype, out)


def sharded_to_interleaved(planner: Planner, x: Slot, config: MemoryConfig) -> Slot:
    return plan_sharded_to_interleaved(planner, x, config, None)


def interleaved_to_sharded(planner: Planner, x: Slot, config: MemoryConfig) -> Slot:
    return plan_interleaved_to_sharded(planner, x, config, None)


def typecast(planner: Planner, x: Slot, dtype: DataType) -> Slot:
    return plan_typecast(planner, x, dtype)
