# SPDX-License-Identifier: Apache-2.0
"""Ops that a convolution dispatches beside its own, as plans on its temporaries."""

from __future__ import annotations

from tt_cnn.virtual.ops.layout.move import APART, OVERLAP, bytes_per_bank, dispatch_move
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
    """`ttnn.move` of a sharded tensor: free and allocate again, higher up where there is room now."""
    return _reallocated(planner, slot, APART)


def emit_move_up(planner: Planner, slot: Slot, freed: Slot) -> Slot:
    """`ttnn.move` of a tensor that lies below `freed` and the call's input, which have just been given back.

    Without shards another program is needed where the old and the new place overlap.
    """
    gone = {given.buffer: given.spec for given in [*planner.consumed, freed]}
    above = sum(_bytes_per_bank(planner, spec) for spec in gone.values())
    return _reallocated(planner, slot, APART if _bytes_per_bank(planner, slot.spec) <= above else OVERLAP)


def _reallocated(planner: Planner, slot: Slot, factory: str) -> Slot:
    planner.free(slot)
    output = planner.allocate(slot.spec)
    dispatch_move(planner, slot, output, factory)
    return output


def _bytes_per_bank(planner: Planner, spec: Spec) -> int:
    return bytes_per_bank(spec, planner.card.cores, planner.card.l1_alignment)


def sharded(planner: Planner, slot: Slot, target: Spec, by_call: bool) -> Slot:
    """The tensor in the shards of `target`, which is allocated first: by the call itself, or by what writes it."""
    output = planner.allocate(target, by_call)
    plan_to_memory_config(planner, slot, target.memory_config, None, output)
    return output


def tiled(planner: Planner, slot: Slot) -> Slot:
    return plan_to_layout(planner, slot, Layout.TILE, None, None)


def placed(planner: Planner, slot: Slot, config: MemoryConfig) -> Slot:
    return plan_to_memory_config(planner, slot, config, None)
