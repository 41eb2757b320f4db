"""Time of a matmul's program: for each inner block operands arrive and are multiplied; the slowest sets the pace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.network import dram_fetch_cycles, multicast_cycles, page_move_cycles
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.cost.tensix import BlockProduct, finish_cycles, reload_cycles
from tt_cnn.virtual.ops.conv2d.blocks import largest_subblock
from tt_cnn.virtual.planning.plan import Step
from tt_cnn.virtual.types.enums import DataType
from tt_cnn.virtual.types.geometry import TILE_SIZE, div_up
from tt_cnn.virtual.types.tensor_spec import Spec


@dataclass(frozen=True)
class _Program:
    """Tiles of a core's output, of what it holds at a time, and of a sub-block, whichever op planned it."""

    factory: str
    m: int
    n: int
    k: int
    block_m: int
    block_n: int
    block_k: int
    sub_h: int
    sub_w: int
    shares_left: bool
    grid: tuple[int, int]


def _program(step: Step) -> _Program:
    attributes = step.program.decisions
    given: Any = attributes["program"]
    left = step.inputs[0].spec
    turned = attributes.get("transpose", (False, False))
    inner = left.physical[0 if turned[0] else 1] // TILE_SIZE
    compute = attributes["compute"]
    fp32 = getattr(compute, "fp32_accumulation", False) or getattr(compute, "fp32", False)
    block_m, block_n = (getattr(given, name, None) for name in ("block_m", "block_n"))
    if block_m is None:
        block_m, block_n = given.block_h, given.block_w
    if hasattr(given, "subblock_h"):
        sub_h, sub_w = given.subblock_h, given.subblock_w
    else:
        sub_h, sub_w = largest_subblock(block_m, block_n, fp32)
    return _Program(
        step.factory,
        given.per_core_m,
        given.per_core_n,
        max(1, inner),
        max(1, block_m),
        max(1, block_n or 1),
        max(1, given.block_k),
        sub_h,
        sub_w,
        bool(getattr(given, "shares_left", False) or getattr(given, "mcast_left", False)),
        given.grid,
    )


def matmul_cycles(step: Step, figures: Figures) -> Cycles:
    if step.factory == "MatmulMultiCoreProgramFactory":
        return _tile_by_tile(step, figures)
    program = _program(step)
    attributes = step.program.decisions
    compute = attributes["compute"]
    left, right, output = step.inputs[0].spec, step.inputs[1].spec, step.outputs[0].spec
    batches = _batches(step, program)
    passes = div_up(program.k, program.block_k)
    blocks = div_up(program.m, program.block_m) * div_up(program.n, program.block_n) * batches
    accumulates = compute.packer_l1 and passes > 1
    partial = output.dtype
    if accumulates:
        fp32 = getattr(compute, "fp32_accumulation", False) or getattr(compute, "fp32", False)
        partial = DataType.FLOAT32 if fp32 else DataType.BFLOAT16
    product = BlockProduct(
        program.block_m,
        program.block_n,
        program.block_k,
        program.sub_h,
        program.sub_w,
        left.dtype,
        right.dtype,
        partial,
        compute.fidelity,
        accumulates,
    )
    tiles = program.block_m * program.block_n
    multiply = product.cycles(figures)
    if not accumulates and passes > 1:
        multiply += reload_cycles(figures, tiles) * (passes - 1) / passes
    left_in, left_dram = _left_arrives(step, program, left, figures)
    right_in, right_dram = _right_arrives(step, program, right, figures)
    pace = max(multiply + figures.barrier_cycles, left_in, right_in)
    activation = _activation(attributes)
    finish, vector = finish_cycles(
        figures, tiles, partial, output.dtype, len(step.inputs) > 2, activation, compute.approx
    )
    store = 0.0
    if not output.is_sharded:
        store = page_move_cycles(figures, output, tiles, output.dtype.tile_bytes, step.cores.num_cores(), read=False)
    rounds = blocks * passes
    total = max(left_in, right_in) + (rounds - 1) * pace + multiply + blocks * max(finish + vector, store)
    return Cycles(
        total,
        matrix=rounds * product.multiply_cycles(figures),
        vector=blocks * vector,
        unpack_pack=rounds * (multiply - product.multiply_cycles(figures)) + blocks * finish,
        dram=rounds * max(left_dram, right_dram),
        noc=rounds * max(left_in - left_dram, right_in - right_dram) + blocks * store,
    )


def _activation(attributes: dict[str, Any]) -> str | None:
    chosen = attributes.get("activation") or getattr(attributes["program"], "activation", None)
    return None if chosen is None else str(chosen[0].name)


def _batches(step: Step, program: _Program) -> int:
    """Products of a core one after the other, where batches are not one tall matrix."""
    output = step.outputs[0].spec
    tiles = div_up(output.volume, TILE_SIZE * TILE_SIZE)
    return max(1, round(tiles / (program.m * program.n * step.cores.num_cores())))


def _left_arrives(step: Step, program: _Program, left: Spec, figures: Figures) -> tuple[float, float]:
    """An inner block of the left matrix on every core; the second number is the DRAM's part."""
    tiles = program.block_m * program.block_k
    size = left.dtype.tile_bytes
    if "Mcast" not in program.factory:
        return _own_reading(step, left, tiles, figures)
    one_dimension = "1D" in program.factory
    if one_dimension and not program.shares_left:
        return (0.0, 0.0) if left.is_sharded else _own_reading(step, left, tiles, figures)
    receivers = step.cores.num_cores() - 1 if one_dimension else program.grid[0] - 1
    send = multicast_cycles(figures, tiles * size, receivers)
    if left.is_sharded:
        return send, 0.0
    reading, dram = _own_reading(step, left, tiles, figures, 1 if one_dimension else program.grid[1])
    return send + reading, dram


def _right_arrives(step: Step, program: _Program, right: Spec, figures: Figures) -> tuple[float, float]:
    tiles = program.block_n * program.block_k
    size = right.dtype.tile_bytes
    if right.is_sharded and not right.memory_config.is_dram():
        return 0.0, 0.0
    if "Mcast" not in program.factory:
        return _own_reading(step, right, tiles, figures)
    if "1D" in program.factory:
        if program.shares_left:
            return _own_reading(step, right, tiles, figures)
        reading, dram = _own_reading(step, right, tiles, figures, 1)
        return reading + multicast_cycles(figures, tiles * size, step.cores.num_cores() - 1), dram
    reading, dram = _own_reading(step, right, tiles, figures, program.grid[0])
    return reading + multicast_cycles(figures, tiles * size, program.grid[1] - 1), dram


def _own_reading(
    step: Step, spec: Spec, tiles: int, figures: Figures, readers: int | None = None
) -> tuple[float, float]:
    readers = step.cores.num_cores() if readers is None else readers
    if spec.memory_config.is_dram():
        cycles = dram_fetch_cycles(figures, tiles, spec.dtype.tile_bytes, readers)
        return cycles, cycles
    cycles = page_move_cycles(figures, spec, tiles, spec.dtype.tile_bytes, readers, read=True)
    return cycles + figures.l1_latency_cycles, 0.0


def _tile_by_tile(step: Step, figures: Figures) -> Cycles:
    """The simple program: for every tile of the output, a row of tiles and a column of tiles, read pair by pair."""
    left, right, output = step.inputs[0].spec, step.inputs[1].spec, step.outputs[0].spec
    compute = step.program.decisions["compute"]
    cores = step.cores.num_cores()
    tiles = div_up(output.num_pages, cores)
    inner = max(1, left.physical[1] // TILE_SIZE)
    product = BlockProduct(1, 1, inner, 1, 1, left.dtype, right.dtype, output.dtype, compute.fidelity)
    latency = figures.dram_latency_cycles if left.memory_config.is_dram() else figures.l1_latency_cycles
    read = sum(page_move_cycles(figures, s, 1, s.dtype.tile_bytes, cores, read=True) for s in (left, right))
    pair = read + latency + figures.barrier_cycles
    total = tiles * max(inner * pair, product.cycles(figures))
    dram = tiles * inner * read if left.memory_config.is_dram() else 0.0
    return Cycles(
        total,
        matrix=tiles * product.multiply_cycles(figures),
        unpack_pack=tiles * product.pack_cycles(figures),
        dram=dram,
        noc=tiles * inner * read - dram,
    )
