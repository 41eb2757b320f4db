# SPDX-License-Identifier: Apache-2.0
"""move and reallocate: give the tensor's memory back and take it again, higher up in L1 or lower down in DRAM.

Which program moves the values depends on where the new memory lies: one that overlaps the old needs its values staged.
That is known when the plan is placed.
"""

from __future__ import annotations

from dataclasses import dataclass

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.cost.pipeline import Block, Pages, Share, pipeline_cycles
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.memory.shard_grid import check_shard_grid
from tt_cnn.virtual.ops.layout.copy import same_memory_program
from tt_cnn.virtual.ops.layout.moving import MovingProgram
from tt_cnn.virtual.ops.layout.relayout import Relayout, alignment
from tt_cnn.virtual.ops.layout.time import core_bytes, moving_parts, one_by_one_cycles
from tt_cnn.virtual.ops.layout.work_split import split_work
from tt_cnn.virtual.ops.operation import Call, op
from tt_cnn.virtual.planning.plan import CircularBuffer, Planner, Slot
from tt_cnn.virtual.planning.program import Step
from tt_cnn.virtual.tensors.storage import Buffer
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, div_up, round_up
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

OVERLAP = "MoveOverlapProgramFactory"


@dataclass(frozen=True, kw_only=True)
class MoveProgram(MovingProgram):
    """Shards are copied within a core's own memory; pages one by one, and where the new memory overlaps the old all are
    read, and all cores have said so, before the first is written."""

    op: str = "Move"

    def time(self, step: Step, figures: Figures) -> Cycles:
        spec = step.inputs[0].spec
        if not spec.is_sharded:
            return self._pages(spec, step.outputs[0].spec, figures)
        size = core_bytes(spec, self.cores.num_cores())
        return moving_parts(size / figures.local_bytes_per_cycle + figures.local_latency_cycles, spec)

    def _pages(self, spec: Spec, out: Spec, figures: Figures) -> Cycles:
        cores = self.cores.num_cores()
        if self.factory != OVERLAP:
            return one_by_one_cycles(figures, spec, out, spec.num_pages, spec.page_bytes, cores)
        share = Share.of(spec.num_pages, cores)
        read = pipeline_cycles(figures, share, Block(reads=[Pages(spec, 1, spec.page_bytes)]))
        writes = Block(writes=[Pages(out, 1, spec.page_bytes)], waits_for_writes=True)
        written = pipeline_cycles(figures, share, writes)
        return moving_parts(read.total + figures.handshake_cycles + written.total, spec)


def moved_spec(spec: Spec, config: MemoryConfig | None) -> Spec:
    """What the tensor becomes; shards keep their shard spec, whatever another memory config says of it."""
    if config is None:
        return spec
    if spec.is_sharded:
        fatal(config.is_sharded(), "Expected output tensor memory config to be sharded")
        config = MemoryConfig(config.memory_layout, config.buffer_type, spec.memory_config.shard_spec)
    return Spec(spec.shape, spec.dtype, spec.layout, config, spec.alignment)


def plan_move(planner: Planner, x: Slot, config: MemoryConfig | None) -> Slot:
    """Give back, allocate, and move the values unless the memory is the same."""
    planner.consume(x)
    out = planner.allocate(moved_spec(x.spec, config))
    dispatch_move(planner, x, out)
    return out


def dispatch_move(planner: Planner, x: Slot, out: Slot) -> None:
    """Values to their new memory; where it turns out to be the old one, nothing is dispatched."""
    spec = x.spec
    if not _same_memory(spec, out.spec):
        planner.dispatch(_program(planner, x, out), [x], [out])
    elif spec.is_sharded:
        planner.dispatch_move(_program(planner, x, out), x, out)
    else:
        planner.dispatch_move(_program(planner, x, out), x, out, overlapping=_staged_program(planner, out))


def _program(planner: Planner, x: Slot, out: Slot) -> MoveProgram:
    spec = x.spec
    if not spec.is_sharded:
        cores, buffers = same_memory_program(planner, x, out)
        return MoveProgram(factory="MoveProgramFactory", cores=cores, buffers=tuple(buffers))
    cores = spec.shard.grid
    size = spec.shard_pages * round_up(spec.page_bytes, alignment(planner.card, spec))
    shards = [CircularBuffer(size, cores, slot, name=name) for name, slot in (("input", x), ("output", out))]
    return MoveProgram(factory="MoveShardedProgramFactory", cores=cores, buffers=tuple(shards))


def _staged_program(planner: Planner, out: Slot) -> MoveProgram:
    """All pages stay on the cores until the last one is read."""
    spec = out.spec
    units = spec.volume // (TILE_SIZE * TILE_SIZE) if spec.layout is Layout.TILE else spec.physical[0]
    cores, _ = split_work(planner.card, units)
    size = div_up(spec.num_pages, planner.card.cores) * round_up(spec.page_bytes, planner.card.l1_alignment)
    return MoveProgram(factory=OVERLAP, cores=cores, buffers=(CircularBuffer(size, cores, name="pages"),))


def _same_memory(spec: Spec, out: Spec) -> bool:
    return spec.memory_config.buffer_type is out.memory_config.buffer_type


@op("move")
class Move(Relayout):
    def arguments(self, input_tensor: Tensor, *, memory_config: MemoryConfig | None = None) -> Call:
        return Call([input_tensor], memory_config=memory_config)

    def shortcut(self, call: Call) -> Tensor | None:
        """Memory that others hold too is not given back: an interleaved tensor then stays where it is."""
        x = call.tensors[0]
        buffer = x.buffer(self.name)
        if buffer.owners == 1:
            if x.is_sharded():
                self._check_shards(x, buffer, call.attributes["memory_config"])
            return None
        fatal(
            not x.is_sharded(),
            "Expect input tensor to be deallocated after move op. Cannot deallocate before there is probably another "
            "consumer.",
        )
        return x

    def _check_shards(self, x: Tensor, buffer: Buffer, config: MemoryConfig | None) -> None:
        """The program's buffers are the shards, in L1; without a new address there is no program."""
        device, here = buffer.device, buffer.place
        spec = moved_spec(x.spec, config)
        check_shard_grid(device.card, spec)
        if x.memory_config().is_l1() and spec.memory_config.is_l1():
            return
        with device.lock:
            memory = device.memory.copy()
        memory.free(here.buffer_type, here.address)
        address = memory.allocate(memory.footprint(spec))
        fatal(address == here.address, "Only L1 buffers can have an associated circular buffer!")

    def plan(self, planner: Planner, x: Slot, *, memory_config: MemoryConfig | None) -> list[Slot]:
        return [plan_move(planner, x, memory_config)]


@op("reallocate")
class Reallocate(Move):
    def arguments(self, tensor: Tensor, memory_config: MemoryConfig | None = None) -> Call:
        return Call([tensor], memory_config=memory_config)
