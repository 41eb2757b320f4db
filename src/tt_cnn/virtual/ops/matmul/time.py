# SPDX-License-Identifier: Apache-2.0
"""Time of a matmul's program: for each inner block operands arrive and are multiplied; the slowest sets the pace."""

from __future__ import annotations

from dataclasses import replace

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.network import (
    Way,
    dram_fetch_cycles,
    in_l1_shards,
    multicast_cycles,
    page_move_cycles,
    transaction_cycles,
)
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.cost.tensix import BlockProduct, finish_cycles, reload_cycles
from tt_cnn.virtual.ops.eltwise.activations import kernel_of
from tt_cnn.virtual.ops.matmul.configs import MCAST_2D
from tt_cnn.virtual.ops.matmul.program import MatmulProgram, Route
from tt_cnn.virtual.planning.program import Step
from tt_cnn.virtual.types.enums import DataType
from tt_cnn.virtual.types.geometry import TILE_SIZE, div_up
from tt_cnn.virtual.types.tensor_spec import Spec


def block_by_block(program: MatmulProgram, step: Step, figures: Figures) -> Cycles:
    config, compute = program.config, program.compute
    left, right, output = step.inputs[0].spec, step.inputs[1].spec, step.outputs[0].spec
    passes = max(1, div_up(program.inner, config.block_k))
    blocks = div_up(config.per_core_m, config.block_h) * div_up(config.per_core_n, config.block_w)
    blocks *= _batches(program, output)
    partial = program.partials if program.accumulates else output.dtype
    product = BlockProduct(
        config.block_h,
        config.block_w,
        config.block_k,
        config.subblock_h,
        config.subblock_w,
        left.dtype,
        right.dtype,
        partial,
        compute.fidelity,
        program.accumulates,
    )
    tiles = config.block_h * config.block_w
    multiply = product.cycles(figures)
    if not program.accumulates and passes > 1:
        multiply += reload_cycles(figures, tiles) * (passes - 1) / passes
    left_route, right_route = program.routes
    if config.is_mcast and left.is_sharded:
        left_route = replace(left_route, readers=0)
    if in_l1_shards(right):
        right_route = Route(0)
    left_tiles, right_tiles = config.block_h * config.block_k, config.block_w * config.block_k
    against = config.is_mcast and not left_route.receivers
    left_behind = _waiting_cycles(right, right_tiles, right_route, figures)
    right_behind = _waiting_cycles(left, left_tiles, left_route, figures)
    left_in, left_dram = _arrives(left, left_tiles, left_route, figures, left_behind, against)
    right_in, right_dram = _arrives(right, right_tiles, right_route, figures, right_behind)
    pace = max(multiply + figures.barrier_cycles, left_in, right_in)
    finish, vector = _finish_cycles(program, tiles, partial, output.dtype, figures)
    store = 0.0 if output.is_sharded else _store_cycles(program, output, figures)
    drain = _drain_cycles(program, store, finish + vector if program.adds_bias else multiply)
    padding = _padding_cycles(program, left, figures)
    # Who writes also brings the right matrix: for the next block of the output when this one is written.
    writing = drain + right_in if store else 0.0
    a_block = max(passes * pace + finish + vector + writing, passes * left_in + padding)
    last = max(left_in, right_in) + (passes - 1) * pace + padding + multiply + finish + vector
    rounds = blocks * passes
    return Cycles(
        (blocks - 1) * a_block + last + drain,
        matrix=rounds * product.multiply_cycles(figures),
        vector=blocks * vector,
        unpack_pack=rounds * (multiply - product.multiply_cycles(figures)) + blocks * finish,
        dram=rounds * max(left_dram, right_dram),
        noc=rounds * max(left_in - left_dram, right_in - right_dram) + blocks * store,
        drain=drain,
    )


def bank_by_bank(program: MatmulProgram, step: Step, figures: Figures) -> Cycles:
    """Each core reads its columns from the bank beside it, three blocks ahead; the left matrix is sent to all of them
    block by block, two ahead. In the end the result goes to the cores where it shall stand."""
    config, compute = program.config, program.compute
    left, right, output = step.inputs[0].spec, step.inputs[1].spec, step.outputs[0].spec
    passes = max(1, div_up(program.inner, config.block_k))
    product = BlockProduct(
        config.block_h,
        config.block_w,
        config.block_k,
        config.subblock_h,
        config.subblock_w,
        left.dtype,
        right.dtype,
        program.partials if program.accumulates else output.dtype,
        compute.fidelity,
        program.accumulates,
    )
    tiles = config.block_h * config.block_w
    multiply = product.cycles(figures)
    if not program.accumulates and passes > 1:
        multiply += reload_cycles(figures, tiles) * (passes - 1) / passes
    reading = config.block_w * config.block_k * right.dtype.tile_bytes / figures.dram_bank_bytes_per_cycle
    sent = config.block_h * config.block_k * left.dtype.tile_bytes
    sending = multicast_cycles(figures, sent, program.routes[0].receivers)
    pace = max(multiply, reading, sending) + figures.barrier_cycles
    finish, vector = _finish_cycles(program, tiles, program.partials, output.dtype, figures)
    store = tiles * output.dtype.tile_bytes / figures.l1_write_bytes_per_cycle + figures.l1_latency_cycles
    first = max(figures.dram_latency_cycles + reading, sending)
    return Cycles(
        first + (passes - 1) * pace + multiply + finish + vector + store,
        matrix=passes * product.multiply_cycles(figures),
        vector=vector,
        unpack_pack=passes * (multiply - product.multiply_cycles(figures)) + finish,
        dram=passes * reading,
        noc=passes * sending + store,
        drain=store,
    )


def _finish_cycles(
    program: MatmulProgram, tiles: int, partial: DataType, target: DataType, figures: Figures
) -> tuple[float, float]:
    """The activation is approximate where the compute config or its own parameter says so."""
    name, approx = None, program.compute.approx
    if program.activation is not None:
        name, approx = program.activation[0].name, approx or kernel_of(program.activation).approx
    return finish_cycles(figures, tiles, partial, target, program.adds_bias, name, approx)


def _store_cycles(program: MatmulProgram, output: Spec, figures: Figures) -> float:
    """A block of the output written, with a barrier after every sub-block."""
    config, size, cores = program.config, output.dtype.tile_bytes, program.cores.num_cores()
    tiles = config.block_h * config.block_w
    barriers = _subblocks(program) * _latency(output, figures)
    if not output.memory_config.is_dram():
        return page_move_cycles(figures, output, tiles, size, cores, read=False) + barriers
    alone = tiles * transaction_cycles(figures, Way.DRAM, size, figures.page_cycles)
    total = figures.dram_write_against_bytes_per_cycle
    if config.kind == MCAST_2D:  # half of its cores write over either network
        total = figures.dram_output_bytes_per_cycle
    return max(alone + barriers, tiles * size * cores / total)


def _subblocks(program: MatmulProgram) -> int:
    config = program.config
    return div_up(config.block_h * config.block_w, config.subblock_h * config.subblock_w)


def _drain_cycles(program: MatmulProgram, store: float, making: float) -> float:
    """What is left to write when the last sub-block is made; the others are written while `making` goes on."""
    last = 1 / _subblocks(program)
    return max(store * last, store - making * (1 - last))


def _padding_cycles(program: MatmulProgram, left: Spec, figures: Figures) -> float:
    """The reader clears what is beyond the inner dimension in the last tile of each row of tiles."""
    valid = left.shape[-2 if program.transpose_a else -1] % TILE_SIZE
    if not valid or left.dtype.is_block_float:
        return 0.0
    rows, clearing = program.config.block_h, (TILE_SIZE - valid) * TILE_SIZE * figures.element_store_cycles
    return rows * clearing + (rows - 1) * _latency(left, figures)  # it waits for each of these tiles


def _batches(program: MatmulProgram, output: Spec) -> int:
    """Products of a core one after the other, where batches are not one tall matrix."""
    tiles = div_up(output.volume, TILE_SIZE * TILE_SIZE)
    part, cores = program.config.per_core_m * program.config.per_core_n, program.cores.num_cores()
    if program.config.is_mcast:
        return max(1, round(tiles / (part * cores)))
    return max(1, div_up(div_up(tiles, part), cores))


def _arrives(
    spec: Spec, tiles: int, route: Route, figures: Figures, behind: float, against: bool = False
) -> tuple[float, float]:
    """An inner block on every core; the second number is the DRAM's part. `behind`: what a read that is sent on waits
    for those of the other matrix."""
    size = spec.dtype.tile_bytes
    sending = multicast_cycles(figures, tiles * size, route.receivers)
    if not route.readers:
        return sending, 0.0
    if spec.memory_config.is_dram():
        reading = dram_fetch_cycles(figures, tiles, size, route.readers, against)
        if route.receivers:
            reading += behind
        return sending + reading, reading
    reading = page_move_cycles(figures, spec, tiles, size, route.readers, read=True)
    return sending + reading + figures.l1_latency_cycles, 0.0


def _waiting_cycles(spec: Spec, tiles: int, route: Route, figures: Figures) -> float:
    """How long the DRAM's queues are for others while all readers of this matrix have asked for a block."""
    if not spec.memory_config.is_dram() or not route.readers:
        return 0.0
    asked = tiles * spec.dtype.tile_bytes * route.readers
    return figures.dram_queue_share * asked / figures.dram_read_bytes_per_cycle


def tile_by_tile(program: MatmulProgram, step: Step, figures: Figures) -> Cycles:
    """The simple program: for every tile of the output, a row of tiles and a column of tiles, read pair by pair, with
    a barrier after each tile."""
    left, right, output = step.inputs[0].spec, step.inputs[1].spec, step.outputs[0].spec
    cores = program.cores.num_cores()
    tiles = div_up(output.num_pages, cores)
    inner = max(1, program.inner)
    product = BlockProduct(1, 1, inner, 1, 1, left.dtype, right.dtype, output.dtype, program.fidelity)
    read = sum(page_move_cycles(figures, s, 1, s.dtype.tile_bytes, cores, read=True) for s in (left, right))
    pair = read + sum(_latency(s, figures) for s in (left, right)) + figures.barrier_cycles
    padding = _padding_cycles(program, left, figures)
    write = page_move_cycles(figures, output, 1, output.dtype.tile_bytes, cores, read=False)
    drain = write + _latency(output, figures)
    reading = inner * pair + padding
    total = tiles * max(reading, product.cycles(figures), write) + product.cycles(figures) + drain
    dram = tiles * inner * read if left.memory_config.is_dram() else 0.0
    return Cycles(
        total,
        matrix=tiles * product.multiply_cycles(figures),
        unpack_pack=tiles * product.pack_cycles(figures),
        dram=dram,
        noc=tiles * inner * read - dram,
        drain=drain,
    )


def _latency(spec: Spec, figures: Figures) -> float:
    return figures.dram_latency_cycles if spec.memory_config.is_dram() else figures.l1_latency_cycles
