# SPDX-License-Identifier: Apache-2.0
"""Ops that a convolution dispatches beside its own, as plans on its temporaries."""

from __future__ import annotations

from tt_cnn.virtual.ops.layout.move import dispatch_move
from tt_cnn.virtual.ops.layout.to_layout import plan_to_layout
from tt_cnn.virtual.ops.layout.to_memory_config import plan_to_memory_config
from tt_cnn.virtual.planning.plan import Free, Planner, Slot
from tt_cnn.virtual.types.enums import Layout
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec


def release(planner: Planner, slot: Slot) -> None:
    """Give back a tensor: the call's own input is consumed with it."""
    for given in planner.inputs:
        if given.buffer == slot.buffer:
            planner.consume(given)
            return
    planner.free(slot)


def is_freed(planner: Planner, slot: Slot) -> bool:
    return any(isinstance(action, Free) and action.slot.buffer == slot.buffer for action in planner.actions)


def emit_move(planner: Planner, slot: Slot) -> Slot:
    """`ttnn.move`: free and allocate again, higher up where there is room now."""
    planner.free(slot)
    output = planner.allocate(slot.spec)
    dispatch_move(planner, slot, output)
    return output


def sharded(planner: Planner, slot: Slot, target: Spec, by_call: bool) -> Slot:
    """The tensor in the shards of `target`, which is allocated first: by the call itself, or by what writes it."""
    output = planner.allocate(target, by_call)
    plan_to_memory_config(planner, slot, target.memory_config, None, output)
    return output


def tiled(planner: Planner, slot: Slot) -> Slot:
    return plan_to_layout(planner, slot, Layout.TILE, None, None)


def placed(planner: Planner, slot: Slot, config: MemoryConfig) -> Slot:
    return plan_to_memory_config(planner, slot, config, None)
