# SPDX-License-Identifier: Apache-2.0
"""Time of a convolution's program, block by block, as its reader, compute and weights kernels work.

A core's output is made in blocks of rows. For each it gathers the windows' sticks (one read of `kernel width` sticks a
kernel row), tilizes them and multiplies. Reader, compute and weights run side by side; what they hand each other is a
block, so with two buffers the slowest of them sets the pace, and with one the gathering waits for the tilizing.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.network import dram_fetch_cycles, multicast_cycles, stick_read_cycles
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.cost.tensix import BlockProduct, finish_cycles, reload_cycles
from tt_cnn.virtual.ops.conv2d.program import ConvProgram
from tt_cnn.virtual.ops.eltwise.activations import kernel_of
from tt_cnn.virtual.planning.program import Step
from tt_cnn.virtual.types.enums import DataType
from tt_cnn.virtual.types.geometry import TILE_SIZE


class _Block(NamedTuple):
    """Cycles of one inner block of one block of rows, by who works, and those of a block of rows when it is done."""

    gather: float
    tilize: float
    switch: float
    """From tilizing to multiplying, and back."""
    multiply: float
    matmul: float
    weights: float
    weights_dram: float
    spread: float
    """Sending a tilized block to the other cores of its row (or all)."""
    finish: float
    finish_vector: float


def _block(program: ConvProgram, step: Step, figures: Figures, kernel_rows: int, inner_blocks: int) -> _Block:
    """`kernel_rows`: those whose sticks are gathered for one inner block."""
    blocks, compute, roles = program.blocks, program.compute, program.roles
    source, weight, output = step.inputs[0].spec, step.inputs[1].spec, step.outputs[0].spec
    product = BlockProduct(
        blocks.act_h,
        blocks.out_w,
        blocks.act_w,
        blocks.sub_h,
        blocks.sub_w,
        output.dtype if output.dtype.is_block_float else DataType.BFLOAT16,
        weight.dtype,
        program.partials,
        compute.fidelity,
        compute.packer_l1,
        undisturbed=not (program.double_activations or program.double_weights),
    )
    tiles, activation_tiles = blocks.act_h * blocks.out_w, blocks.act_h * blocks.act_w
    matmul = product.cycles(figures)
    if not compute.packer_l1 and inner_blocks > 1:
        matmul += reload_cycles(figures, tiles) * (inner_blocks - 1) / inner_blocks
    name, approx = None, compute.approx
    if program.activation is not None:
        name, approx = program.activation[0].name, approx or kernel_of(program.activation).approx
    finish, vector = finish_cycles(figures, tiles, program.partials, output.dtype, program.has_bias, name, approx)
    if program.row_major:
        finish += tiles * figures.untilize_cycles
    tilize_a_tile = figures.tilize(source.dtype, output.dtype, compute.fp32_accumulation)
    weight_tiles, tile_bytes = blocks.act_w * blocks.out_w, weight.dtype.tile_bytes
    fetch = dram_fetch_cycles(figures, weight_tiles, tile_bytes, roles.weight_senders)
    return _Block(
        gather=_gather_cycles(program, source.shard.shape[1] * source.dtype.element_bytes, figures, kernel_rows),
        tilize=activation_tiles * tilize_a_tile,
        switch=2 * figures.reconfigure_cycles,
        multiply=product.multiply_cycles(figures),
        matmul=matmul,
        weights=fetch + multicast_cycles(figures, weight_tiles * tile_bytes, roles.weight_receivers),
        weights_dram=fetch,
        spread=multicast_cycles(
            figures, activation_tiles * output.dtype.tile_bytes, roles.activation_receivers, loopback=True
        ),
        finish=finish,
        finish_vector=vector,
    )


def _gather_cycles(program: ConvProgram, stick_bytes: int, figures: Figures, kernel_rows: int) -> float:
    """Reading the sticks of `kernel_rows` rows of the windows of one block of rows."""
    rows = program.blocks.act_h
    if program.splits_reader:
        rows -= rows // 2
    width = program.window.window[1]
    if program.window.dilation[1] == 1:
        window = stick_read_cycles(figures, width * stick_bytes)
    else:
        window = width * stick_read_cycles(figures, stick_bytes)
    if program.reuses_activations:
        kernel_rows = 1  # rows of a window that the image row above had are in L1 already
    return rows * TILE_SIZE * kernel_rows * window + figures.local_latency_cycles + figures.barrier_cycles


def _gather_by_stick_cycles(program: ConvProgram, step: Step, figures: Figures, parts: int) -> float:
    """Reading one of `parts` of the channels of every stick of a block's windows, with a barrier a row of tiles."""
    source, rows = step.inputs[0].spec, program.blocks.act_h
    stick = stick_read_cycles(figures, source.shard.shape[1] * source.dtype.element_bytes / parts)
    a_row = TILE_SIZE * prod(program.window.window) * stick + figures.local_latency_cycles + figures.barrier_cycles
    return rows * a_row


def height_sharded_cycles(program: ConvProgram, step: Step, figures: Figures) -> Cycles:
    """Weights that are kept come once for all rows."""
    rows, inner = program.row_blocks, program.inner_blocks
    one = _block(program, step, figures, program.window.window[0] if inner == 1 else 1, inner)
    compute = one.tilize + one.switch + one.matmul
    kept = rows > 1 and not program.reuses_activations
    passes = rows * inner
    awaited = (inner if kept else passes) - 1  # blocks that are computed while further weights come
    first = _awaiting_weights(program, one, room=kept or program.double_weights)
    total = max(one.gather, one.weights) + awaited * first + (passes - 1 - awaited) * _gathering(program, one) + compute
    total += rows * (one.finish + one.finish_vector)
    fetches = inner * (1 if kept else rows)
    return Cycles(
        total,
        matrix=passes * one.multiply,
        vector=rows * one.finish_vector,
        unpack_pack=passes * (compute - one.multiply) + rows * one.finish,
        dram=fetches * one.weights_dram,
        noc=passes * one.gather + fetches * (one.weights - one.weights_dram),
    )


def _gathering(program: ConvProgram, one: _Block) -> float:
    """One inner block in the steady state, when weights are at hand: with one buffer, sticks are gathered for the next
    block from the tilizing's end on."""
    computing = one.switch + one.matmul
    if program.double_activations:
        return max(one.tilize + computing, one.gather)
    return one.tilize + max(computing, one.gather)


def _awaiting_weights(program: ConvProgram, one: _Block, room: bool) -> float:
    """The same while weights come. `room`: they need not wait until the last block's are used up. The second reader is
    the one who fetches weights, after its part of the sticks."""
    side = one.gather if program.splits_reader else 0.0
    if room:
        return max(_gathering(program, one), side + one.weights)
    computing = one.switch + one.matmul
    if program.splits_reader:
        return max(computing, one.gather) + max(one.tilize, one.weights)
    return computing + max(one.weights, one.tilize + max(0.0, one.gather - computing))


def _exchanging(program: ConvProgram, one: _Block) -> float:
    """One inner block where activations and weights come from other cores: what has one buffer is sent for the next
    block when this one is multiplied."""
    ahead = [part for part, double in _arriving(program, one) if double]
    after = [part for part, double in _arriving(program, one) if not double]
    return max(one.matmul + max(after, default=0.0), *ahead, 0.0)


def _arriving(program: ConvProgram, one: _Block) -> tuple[tuple[float, bool], tuple[float, bool]]:
    return (one.spread, program.double_activations), (one.weights, program.double_weights)


def block_sharded_cycles(program: ConvProgram, step: Step, figures: Figures) -> Cycles:
    """Senders take turns: each has tilized a part of its own meanwhile.

    Gathered sticks share their buffer with what is received where both have one format: with one buffer, gathering
    waits until the last block is multiplied.
    """
    senders, rows = program.roles.activation_senders, program.row_blocks
    outer = max(1, program.inner_blocks // senders)
    one = _block(program, step, figures, program.window.window[0] if program.full_inner else 1, outer * senders)
    pace = _exchanging(program, one)
    shares = step.inputs[0].spec.dtype is step.outputs[0].spec.dtype
    hidden = min(one.gather, one.matmul) if program.double_activations or not shares else 0.0
    late = 0.0 if program.double_weights else one.weights - (0.0 if program.splits_reader else one.gather)
    begin = one.gather - hidden + max(one.tilize + one.switch + one.spread, late)
    total = hidden + rows * (outer * (begin + one.matmul + (senders - 1) * pace) + one.finish + one.finish_vector)
    passes = rows * outer * senders
    return Cycles(
        total,
        matrix=passes * one.multiply,
        vector=rows * one.finish_vector,
        unpack_pack=passes * (one.matmul - one.multiply) + rows * (outer * (one.tilize + one.switch) + one.finish),
        dram=passes * one.weights_dram,
        noc=rows * outer * one.gather + passes * (one.spread + one.weights - one.weights_dram),
    )


def width_sharded_cycles(program: ConvProgram, step: Step, figures: Figures) -> Cycles:
    """Every core gathers and tilizes its own `parts` of a row, tile row by tile row, and gets those of all others."""
    rows, inner = program.row_blocks, program.inner_blocks
    parts = max(1, inner // program.roles.activation_senders)
    one = _block(program, step, figures, program.window.window[0], inner)
    one = one._replace(gather=_gather_by_stick_cycles(program, step, figures, parts))
    pace = _exchanging(program, one)
    own = max(one.gather, one.tilize) + min(one.gather, one.tilize) / program.blocks.act_h + one.switch
    late = 0.0 if program.double_weights else one.weights - one.gather
    begin = max(own + one.spread, late)
    turns = max(1, inner // parts)
    total = rows * (parts * (begin + one.matmul + (turns - 1) * pace) + one.finish + one.finish_vector)
    passes = rows * inner
    return Cycles(
        total,
        matrix=passes * one.multiply,
        vector=rows * one.finish_vector,
        unpack_pack=passes * (one.matmul - one.multiply) + rows * (parts * (one.tilize + one.switch) + one.finish),
        dram=passes * one.weights_dram,
        noc=rows * parts * one.gather + passes * one.spread,
    )
