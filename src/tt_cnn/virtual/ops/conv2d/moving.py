"""Ops that a convolution dispatches beside its own, as plans on its temporaries."""

from __future__ import annotations

from tt_cnn.virtual.ops.layout.copy import same_memory_program
from tt_cnn.virtual.ops.layout.move import APART, OVERLAP
from tt_cnn.virtual.ops.layout.relayout import transfer
from tt_cnn.virtual.ops.layout.to_layout import plan_to_layout
from tt_cnn.virtual.ops.layout.to_memory_config import plan_to_memory_config
from tt_cnn.virtual.ops.layout.work_split import split_work
from tt_cnn.virtual.planning.plan import CircularBuffer, Free, Planner, Slot
from tt_cnn.virtual.types.enums import Layout
from tt_cnn.virtual.types.geometry import div_up, round_up
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


def moved(planner: Planner, slot: Slot) -> Slot:
    """`ttnn.move` of a sharded tensor: free and allocate again, higher up where there is room now."""
    spec = slot.spec
    planner.free(slot)
    output = planner.allocate(spec)
    size = spec.shard_pages * round_up(spec.page_bytes, planner.card.l1_alignment)
    planner.step(
        "Move",
        "MoveShardedProgramFactory",
        spec.shard.grid,
        [slot],
        [output],
        [CircularBuffer(size, spec.shard.grid, s) for s in (slot, output)],
        work=transfer(spec, spec),
        moves=True,
    )
    return output


def moved_up(planner: Planner, slot: Slot, freed: Slot) -> Slot:
    """`ttnn.move` of a tensor that lies below `freed` and the call's input, which have just been given back.

    Without shards another program is needed where the old and the new place overlap.
    """
    spec = slot.spec
    if spec.is_sharded:
        return moved(planner, slot)
    planner.free(slot)
    output = planner.allocate(spec)
    gone = {given.buffer: given.spec for given in [*planner.consumed, freed]}
    here, above = _bytes_per_bank(planner, spec), sum(_bytes_per_bank(planner, one) for one in gone.values())
    if here <= above:
        cores, buffers = same_memory_program(planner, slot, output)
    else:
        cores, _ = split_work(planner.card, spec.num_pages)
        buffers = [CircularBuffer(here, cores)]
    factory = APART if here <= above else OVERLAP
    planner.step("Move", factory, cores, [slot], [output], buffers, work=transfer(spec, spec), moves=True)
    return output


def _bytes_per_bank(planner: Planner, spec: Spec) -> int:
    return div_up(spec.num_pages, planner.card.cores) * round_up(spec.page_bytes, planner.card.l1_alignment)


def sharded(planner: Planner, slot: Slot, target: Spec) -> Slot:
    """The tensor in the shards of `target`, which is allocated first."""
    output = planner.allocate(target)
    plan_to_memory_config(planner, slot, target.memory_config, None, output)
    return output


def tiled(planner: Planner, slot: Slot) -> Slot:
    return plan_to_layout(planner, slot, Layout.TILE, None, None)


def placed(planner: Planner, slot: Slot, config: MemoryConfig) -> Slot:
    return plan_to_memory_config(planner, slot, config, None)
