"""Time of a convolution's program, block by block, as its reader, compute and weights kernels work.

A core's output is made in blocks of rows. For each it gathers the windows' sticks (one read of `kernel width` sticks a
kernel row), tilizes them and multiplies. Reader, compute and weights run side by side; what they hand each other is a
block, so with two buffers the slowest of them sets the pace, and with one the gathering waits for the tilizing.
"""

from __future__ import annotations

from typing import NamedTuple

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.network import dram_fetch_cycles, multicast_cycles, stick_read_cycles
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.cost.tensix import BlockProduct, finish_cycles, reload_cycles
from tt_cnn.virtual.ops.conv2d.program import ConvProgram
from tt_cnn.virtual.planning.program import Step
from tt_cnn.virtual.types.enums import DataType
from tt_cnn.virtual.types.geometry import TILE_SIZE


class _Block(NamedTuple):
    """Cycles of one inner block of one block of rows, by who works, and those of a block of rows when it is done."""

    gather: float
    tilize: float
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
    )
    tiles, activation_tiles = blocks.act_h * blocks.out_w, blocks.act_h * blocks.act_w
    matmul = product.cycles(figures)
    if not compute.packer_l1 and inner_blocks > 1:
        matmul += reload_cycles(figures, tiles) * (inner_blocks - 1) / inner_blocks
    name = None if program.activation is None else program.activation[0].name
    finish, vector = finish_cycles(
        figures, tiles, program.partials, output.dtype, program.has_bias, name, compute.approx
    )
    if program.row_major:
        finish += tiles * figures.untilize_cycles
    tilize_a_tile = figures.tilize(source.dtype, output.dtype, compute.fp32_accumulation)
    weight_tiles, tile_bytes = blocks.act_w * blocks.out_w, weight.dtype.tile_bytes
    fetch = dram_fetch_cycles(figures, weight_tiles, tile_bytes, roles.weight_senders)
    return _Block(
        gather=_gather_cycles(program, source.shard.shape[1] * source.dtype.element_bytes, figures, kernel_rows),
        tilize=activation_tiles * tilize_a_tile + 2 * figures.reconfigure_cycles,  # from multiplying, and back to it
        multiply=product.multiply_cycles(figures),
        matmul=matmul,
        weights=fetch + multicast_cycles(figures, weight_tiles * tile_bytes, roles.weight_receivers),
        weights_dram=fetch,
        spread=multicast_cycles(figures, activation_tiles * output.dtype.tile_bytes, roles.activation_receivers),
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


def height_sharded_cycles(program: ConvProgram, step: Step, figures: Figures) -> Cycles:
    """Weights that are kept come once for all rows."""
    rows, inner = program.row_blocks, program.inner_blocks
    one = _block(program, step, figures, program.window.window[0] if inner == 1 else 1, inner)
    compute = one.tilize + one.matmul
    side = one.weights + (
        one.gather if program.splits_reader else 0.0
    )  # the second reader is the one who fetches weights
    first = _paced(program, one, max(side, one.gather))
    later = _paced(program, one, one.gather)
    kept = rows > 1 and not program.reuses_activations
    passes = rows * inner
    awaited = (inner if kept else passes) - 1  # blocks that are computed while further weights come
    total = max(one.gather, one.weights) + awaited * first + (passes - 1 - awaited) * later + compute
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


def _paced(program: ConvProgram, one: _Block, bringing: float) -> float:
    """One inner block in the steady state; `bringing`: what arrives for the next meanwhile."""
    if program.double_activations:
        return max(one.tilize + one.matmul, bringing)
    return one.tilize + max(one.matmul, bringing)


def block_sharded_cycles(program: ConvProgram, step: Step, figures: Figures) -> Cycles:
    """Senders take turns: each has tilized a part of its own meanwhile."""
    senders, rows = program.roles.activation_senders, program.row_blocks
    outer = max(1, program.inner_blocks // senders)
    one = _block(program, step, figures, program.window.window[0] if program.full_inner else 1, outer * senders)
    pace = max(one.matmul, one.spread, one.weights)
    if not program.double_weights:
        pace = max(one.spread, one.matmul + one.weights)
    hidden = min(one.gather, pace) if program.double_activations else 0.0
    a_window_row = one.gather - hidden + one.tilize + senders * pace
    late = max(0.0, one.weights - one.gather - one.tilize)
    total = late + hidden + rows * (outer * a_window_row + one.finish + one.finish_vector) - (pace - one.matmul)
    passes = rows * outer * senders
    return Cycles(
        total,
        matrix=passes * one.multiply,
        vector=rows * one.finish_vector,
        unpack_pack=passes * (one.matmul - one.multiply) + rows * (outer * one.tilize + one.finish),
        dram=passes * one.weights_dram,
        noc=rows * outer * one.gather + passes * (one.spread + one.weights - one.weights_dram),
    )


def width_sharded_cycles(program: ConvProgram, step: Step, figures: Figures) -> Cycles:
    """Every core gathers and tilizes its own `parts` of a row, and gets those of all others."""
    rows, inner = program.row_blocks, program.inner_blocks
    parts = max(1, inner // program.roles.activation_senders)
    one = _block(program, step, figures, program.window.window[0], inner)
    pace = max(one.matmul, one.spread, one.weights)
    a_row = parts * (one.gather + one.tilize) + inner * pace
    late = max(0.0, one.weights - one.gather - one.tilize)
    total = late + rows * (a_row + one.finish + one.finish_vector) - (pace - one.matmul)
    passes = rows * inner
    return Cycles(
        total,
        matrix=passes * one.multiply,
        vector=rows * one.finish_vector,
        unpack_pack=passes * (one.matmul - one.multiply) + rows * (parts * one.tilize + one.finish),
        dram=passes * one.weights_dram,
        noc=rows * parts * one.gather + passes * one.spread,
    )
