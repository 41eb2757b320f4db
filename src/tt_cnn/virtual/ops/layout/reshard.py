# SPDX-License-Identifier: Apache-2.0
"""reshard: from shards to other shards, in L1 or DRAM."""

from __future__ import annotations

from dataclasses import dataclass

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.network import Way, transaction_cycles
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.cost.streams import crowd_cycles
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.layout.moving import MovingProgram
from tt_cnn.virtual.ops.layout.relayout import Relayout, staging
from tt_cnn.virtual.ops.layout.time import PROCESSORS, conversion_cycles, core_bytes, moving_parts
from tt_cnn.virtual.ops.layout.workers import workers_of
from tt_cnn.virtual.ops.operation import Call, op
from tt_cnn.virtual.planning.plan import CircularBuffer, Planner, Slot
from tt_cnn.virtual.planning.program import Step
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import BLOCK, HEIGHT, WIDTH, Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, CoreRangeSet, cores_to_ranges, round_up
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec


@dataclass(frozen=True, kw_only=True)
class ReshardProgram(MovingProgram):
    """Cores fetch (or send) runs of pages that stay together; both processors of a core share them."""

    op: str = "Reshard"
    core_bytes: float
    run_bytes: float

    def time(self, step: Step, figures: Figures) -> Cycles:
        source, output = step.inputs[0].spec, step.outputs[0].spec
        runs = self.core_bytes / self.run_bytes
        all_runs = runs * self.cores.num_cores()
        way, latency = Way.L1_READ, figures.l1_latency_cycles
        crowded = all_runs * self.run_bytes / figures.network_achieved_bytes_per_cycle
        for spec, read in ((source, True), (output, False)):
            if spec.memory_config.is_dram():
                way, latency = Way.DRAM, figures.dram_latency_cycles
                crowded = max(crowded, crowd_cycles(figures, spec, all_runs, self.run_bytes, read))
        issued = runs * transaction_cycles(figures, way, self.run_bytes)
        total = max(issued / PROCESSORS, crowded) + latency
        return moving_parts(total, output, conversion_cycles(step, figures))


def _moves_shards(spec: Spec, config: MemoryConfig) -> bool:
    """Whether the programs that know of shards take it, and not those that copy pages."""
    if spec.memory_config.shard_spec is None or config.shard_spec is None:
        return False
    source = spec.memory_config
    if source.memory_layout is config.memory_layout and source.memory_layout is not BLOCK:
        return source.is_l1() or config.is_l1()
    return config.is_l1()


def _is_dram_block(config: MemoryConfig) -> bool:
    return config.memory_layout is BLOCK and config.is_dram()


def refusal(planner: Planner, spec: Spec, config: MemoryConfig, out: Spec | None) -> str | None:
    """What the op says against a call, if anything; `to_memory_config` then takes another way."""
    if not spec.is_sharded:
        return "input must be sharded"
    if out is not None:
        for name, mine, its in (
            ("logical shape", spec.shape, out.shape),
            ("dtype", spec.dtype.native, out.dtype.native),
            ("layout", spec.layout.native, out.layout.native),
        ):
            if mine != its:
                return f"Input tensor {name} ({mine}) must equal output tensor {name} ({its})"
        config = out.memory_config
    if not config.is_sharded():
        return "output must be sharded"
    fatal(config.shard_spec is not None, "bad optional access")
    if _is_dram_block(spec.memory_config) or _is_dram_block(config):
        return "We don't support DRAM block sharding"
    problem = _page_refusal(planner, spec, config)
    if problem is not None:
        return problem
    target = out or Spec(spec.shape, spec.dtype, spec.layout, config)
    if not _moves_shards(spec, config):
        if spec.num_pages != target.num_pages:
            return f"Number of input ({spec.num_pages}) and output ({target.num_pages}) pages must match"
        if spec.page_bytes != target.page_bytes:
            return (
                "Input and output tensors must have the same page size. Input page size: "
                f"{spec.page_bytes}, Output page size: {target.page_bytes}"
            )
    return None


def _page_refusal(planner: Planner, spec: Spec, config: MemoryConfig) -> str | None:
    """Rows of shards must be whole units of L1, but for programs that stride over padding."""
    source = spec.memory_config
    if spec.layout is not Layout.ROW_MAJOR or (source.is_dram() and config.is_dram()):
        return None
    if source.memory_layout is HEIGHT and config.memory_layout is HEIGHT:
        return None
    alignment = planner.card.l1_alignment
    own = planner.card.dram_alignment if source.is_dram() else alignment
    text = (
        "row-major shard width {} with data type {} gives page size {} bytes, which must be aligned to {} bytes for "
        "reshard"
    )
    if spec.page_bytes % own:
        return "Input " + text.format(spec.shard.shape[1], spec.dtype.native, spec.page_bytes, alignment)
    assert config.shard_spec is not None
    width = config.shard_spec.shape[1]
    page = width * spec.dtype.element_bytes
    if page % alignment:
        return "Output " + text.format(width, spec.dtype.native, page, alignment)
    return None


def fits(planner: Planner, spec: Spec, config: MemoryConfig) -> bool:
    """Whether the program's own buffers fit what is free now (counted once, and without the output, as in TT-NN)."""
    source = spec.memory_config
    shard = config.shard_spec
    assert shard is not None
    if _moves_shards(spec, config):
        if source.memory_layout is not HEIGHT or config.memory_layout is not HEIGHT:
            return True
        remote = spec.shard if config.is_l1() else shard
        unit, units = _unit(spec, spec.shard.shape), _units(spec, remote.shape)
        local_is_dram, remote_is_dram = (
            (config.is_dram(), source.is_dram()) if config.is_l1() else (source.is_dram(), config.is_dram())
        )
        sizes = [round_up(unit, _alignment(planner, dram)) for dram in (local_is_dram, remote_is_dram)]
        return sizes == [unit, unit] or units * sizes[1] < planner.program_l1()
    if source.is_dram() and config.is_dram():
        page = spec.dtype.tile_bytes if spec.layout is Layout.TILE else spec.physical[1] * spec.dtype.element_bytes
        return round_up(page, planner.card.dram_alignment) < planner.program_l1()
    return True


def _alignment(planner: Planner, dram: bool) -> int:
    return planner.card.dram_alignment if dram else planner.card.l1_alignment


def _unit(spec: Spec, shard: list[int]) -> int:
    return spec.dtype.tile_bytes if spec.layout is Layout.TILE else shard[1] * spec.dtype.element_bytes


def _units(spec: Spec, shard: list[int]) -> int:
    return shard[0] * shard[1] // (TILE_SIZE * TILE_SIZE) if spec.layout is Layout.TILE else shard[0]


def plan_reshard(planner: Planner, x: Slot, config: MemoryConfig, out: Slot | None = None) -> Slot:
    result = out or planner.allocate(Spec(x.spec.shape, x.spec.dtype, x.spec.layout, config))
    problem = refusal(planner, x.spec, config, out.spec if out else None)
    fatal(problem is None, problem or "")
    factory, cores, buffers = _program(planner, x, result)
    size = _moved_bytes(x.spec, result.spec, cores.num_cores())
    run = size if _keeps_width(x.spec, result.spec) else min(_run_bytes(x.spec, result.spec), size)
    program = ReshardProgram(
        factory=factory, cores=cores, buffers=tuple(buffers), core_bytes=size, run_bytes=max(1.0, run)
    )
    planner.dispatch(program, [x], [result])
    return result


def _moved_bytes(spec: Spec, out: Spec, cores: int) -> float:
    size = core_bytes(out, cores)
    return max(size, core_bytes(spec, cores)) if out.memory_config.is_dram() else size


def _run_bytes(spec: Spec, out: Spec) -> float:
    """A row of the narrower shards."""
    return min(one.shard.shape[1] for one in (spec, out)) / spec.page_shape[1] * spec.page_bytes


def _keeps_width(spec: Spec, out: Spec) -> bool:
    """Height shards to height shards: rows that follow each other are one run."""
    source, target = spec.memory_config, out.memory_config
    return _moves_shards(spec, target) and source.memory_layout is HEIGHT and target.memory_layout is HEIGHT


def _program(planner: Planner, x: Slot, out: Slot) -> tuple[str, CoreRangeSet, list[CircularBuffer]]:
    source, target = x.spec.memory_config, out.spec.memory_config
    if _moves_shards(x.spec, target):
        from_output = target.is_l1()
        local, remote = (out, x) if from_output else (x, out)
        side = "true" if from_output else "false"
        if _keeps_width(x.spec, out.spec):
            return f"ReshardSameWidthFactory<{side}>", *_same_width(planner, local, remote, from_output)
        both_width = source.memory_layout is WIDTH and target.memory_layout is WIDTH
        if x.spec.layout is Layout.ROW_MAJOR and both_width and not (from_output and _has_padding(x.spec, out.spec)):
            return f"ReshardSameHeightFactory<{side}>", *_same_height(planner, local, remote)
        if not source.is_dram() and not target.is_dram():
            return "ReshardGenericFactory", *_generic(planner, out)
        if both_width and x.spec.layout is Layout.ROW_MAJOR:
            return "ReshardGenericFactory", *_generic(planner, out)
    if source.is_dram() and target.is_dram():
        page = round_up(x.spec.page_bytes, planner.card.dram_alignment)
        return "NdReshardCopyPagesFactory", planner.grid, [staging(page, planner.grid, name="pages")]
    local_is_input = not source.is_dram()
    local = x if local_is_input else out
    cores = cores_to_ranges(local.spec.cores_with_data.cores())
    return f"NdReshardCopyLocalShardFactory<{'true' if local_is_input else 'false'}>", cores, []


def _has_padding(spec: Spec, out: Spec) -> bool:
    """As TT-NN counts: the first range of each grid, along its longer way, times the shard width."""
    width = spec.shape[-1]
    for one in (spec, out):
        size = one.shard.grid.ranges()[0].grid_size()
        cores = size.y if size.x == 1 else size.x
        if cores * one.shard.shape[1] > width:
            return True
    return False


def _borrowed(slot: Slot, total: int, entry: int, cores: CoreRangeSet, name: str) -> CircularBuffer:
    """A shard's own memory as a buffer, but no more than the whole tensor's pages without padding."""
    entries = min(total, slot.spec.num_pages * slot.spec.page_bytes) // entry
    fatal(entries, f"DataflowBufferSpec '{name}' has num_entries = 0. num_entries must be set to a non-zero value.")
    return staging(entries * entry, cores, slot, name.replace("_", " "))


def _same_width(
    planner: Planner, local: Slot, remote: Slot, from_output: bool
) -> tuple[CoreRangeSet, list[CircularBuffer]]:
    cores = workers_of(planner.card, local.spec)
    shard = local.spec.shard.shape
    unit = _unit(local.spec, shard)
    sizes = [round_up(unit, _alignment(planner, s.spec.memory_config.is_dram())) for s in (local, remote)]
    buffers = [_borrowed(local, _units(local.spec, shard) * sizes[0], sizes[0], cores, "shard")]
    if from_output and sizes != [unit, unit]:
        size = 2 * _units(local.spec, remote.spec.shard.shape) * sizes[1]
        buffers.append(staging(size, cores, name="remote shard"))
    return cores, buffers


def _same_height(planner: Planner, local: Slot, remote: Slot) -> tuple[CoreRangeSet, list[CircularBuffer]]:
    mine, its = local.spec.shard.shape, remote.spec.shard.shape
    fatal(mine[0] == its[0], f"Unexpected mismatch in shard heights ({mine[0]} != {its[0]}")
    unit = mine[1] * local.spec.dtype.element_bytes
    cores = workers_of(planner.card, local.spec)
    return cores, [_borrowed(local, its[0] * unit, unit, cores, "shard")]


def _generic(planner: Planner, out: Slot) -> tuple[CoreRangeSet, list[CircularBuffer]]:
    spec, shard = out.spec, out.spec.shard.shape
    page = spec.page_bytes
    total = (
        _units(spec, shard) * spec.dtype.tile_bytes
        if spec.layout is Layout.TILE
        else shard[0] * shard[1] * spec.dtype.element_bytes
    )
    cores = workers_of(planner.card, spec)
    return cores, [_borrowed(out, total, page, cores, "output_shard")]


@op("reshard")
class Reshard(Relayout):
    def arguments(
        self, input_tensor: Tensor, output_memory_config: MemoryConfig, output_tensor: Tensor | None = None
    ) -> Call:
        tensors = [input_tensor] + ([output_tensor] if output_tensor is not None else [])
        return Call(tensors, memory_config=output_memory_config)

    def plan(self, planner: Planner, x: Slot, out: Slot | None = None, *, memory_config: MemoryConfig) -> list[Slot]:
        return [plan_reshard(planner, x, memory_config, out)]
