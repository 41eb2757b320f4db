"""Time of a convolution's program, block by block, as its reader, compute and weights kernels work.

A core's output is made in blocks of rows. For each it gathers the windows' sticks (one read of `kernel width` sticks a
kernel row), tilizes them and multiplies. Reader, compute and weights run side by side; what they hand each other is a
block, so with two buffers the slowest of them sets the pace, and with one the gathering waits for the tilizing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.network import dram_fetch_cycles, multicast_cycles, stick_read_cycles
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.cost.tensix import BlockProduct, finish_cycles, reload_cycles
from tt_cnn.virtual.ops.conv2d.blocks import Blocks, Compute, partial_dtype
from tt_cnn.virtual.ops.conv2d.split_reader import splits_reader
from tt_cnn.virtual.ops.sliding_window.parallel import BLOCK, HEIGHT, WIDTH, ParallelConfig
from tt_cnn.virtual.ops.sliding_window.window import SlidingWindow
from tt_cnn.virtual.planning.plan import Step
from tt_cnn.virtual.types.enums import DataType
from tt_cnn.virtual.types.geometry import TILE_SIZE, div_up


@dataclass(frozen=True)
class _Block:
    """Cycles of one inner block of one block of rows, by who works, and those of a block of rows when it is done."""

    gather: float
    tilize: float
    multiply: float
    pack: float
    matmul: float
    weights: float
    weights_dram: float
    spread: float
    """Sending a tilized block to the other cores of its row (or all)."""
    finish: float
    finish_vector: float


class _Convolution:
    """One step's data, read from its attributes and tensors."""

    def __init__(self, step: Step, figures: Figures) -> None:
        self.figures = figures
        attributes = step.program.decisions
        self.blocks: Blocks = attributes["blocks"]
        self.window: SlidingWindow = attributes["window"]
        self.compute: Compute = attributes["compute"]
        self.activation: Any = attributes["activation"]
        self.double_activations, self.double_weights = attributes["double_buffers"]
        self.full_inner, self.reuses_activations, _ = attributes["options"]
        self.row_major: bool = attributes["row_major"]
        source, weight, output = step.inputs[0].spec, step.inputs[1].spec, step.outputs[0].spec
        self.has_bias = len(step.inputs) > 2
        self.inputs = ParallelConfig.of(source.memory_config)
        self.source, self.weight, self.output = source, weight, output
        self.cores = step.cores.num_cores()
        self.stick_bytes = source.shard.shape[1] * source.dtype.element_bytes
        self.weight_rows = weight.physical[0] // TILE_SIZE
        self.columns = max(1, weight.physical[1] // TILE_SIZE // self.blocks.out_w)
        self.partial = partial_dtype(
            self.inputs.layout, self.blocks, *weight.physical, output.dtype, self.has_bias, self.compute
        )
        self.split = splits_reader(
            attributes["arch"],
            self.inputs.layout,
            False,
            self.blocks.act_h,
            self.blocks.act_w,
            self.blocks.out_w * self.blocks.act_w,
            weight.dtype,
            source.shard.shape[1],
            self.window.window[1],
            self.window.dilation[1],
            source.dtype,
            output.dtype,
            self.compute.fp32_accumulation,
            self.reuses_activations,
            attributes["split_reader"],
        )

    @property
    def row_blocks(self) -> int:
        return div_up(self.blocks.out_h, self.blocks.act_h)

    def gather_cycles(self, kernel_rows: int) -> float:
        """Reading the sticks of `kernel_rows` rows of the windows of one block of rows."""
        sticks = self.blocks.act_h * TILE_SIZE
        if self.split:
            sticks = (self.blocks.act_h - self.blocks.act_h // 2) * TILE_SIZE
        width = self.window.window[1]
        if self.window.dilation[1] == 1:
            window = stick_read_cycles(self.figures, width * self.stick_bytes)
        else:
            window = width * stick_read_cycles(self.figures, self.stick_bytes)
        if self.reuses_activations:
            kernel_rows = 1  # rows of a window that the image row above had are in L1 already
        return sticks * kernel_rows * window + self.figures.local_latency_cycles + self.figures.barrier_cycles

    def tilize_cycles(self, tiles: int) -> float:
        """With the change from multiplying to tilizing and back."""
        a_tile = self.figures.tilize(self.source.dtype, self.output.dtype, self.compute.fp32_accumulation)
        return tiles * a_tile + 2 * self.figures.reconfigure_cycles

    def product(self, inner: int) -> BlockProduct:
        b = self.blocks
        left = self.output.dtype if self.output.dtype.is_block_float else DataType.BFLOAT16
        return BlockProduct(
            b.act_h,
            b.out_w,
            inner,
            b.sub_h,
            b.sub_w,
            left,
            self.weight.dtype,
            self.partial,
            self.compute.fidelity,
            self.compute.packer_l1,
        )

    def block(self, inner_blocks: int, kernel_rows: int, fetch: tuple[float, float], spread: float) -> _Block:
        b, figures = self.blocks, self.figures
        product = self.product(b.act_w)
        tiles = b.act_h * b.out_w
        matmul = product.cycles(figures)
        if not self.compute.packer_l1 and inner_blocks > 1:
            matmul += reload_cycles(figures, tiles) * (inner_blocks - 1) / inner_blocks
        name = None if self.activation is None else self.activation[0].name
        finish, vector = finish_cycles(
            figures, tiles, self.partial, self.output.dtype, self.has_bias, name, self.compute.approx
        )
        if self.row_major:
            finish += tiles * figures.untilize_cycles
        return _Block(
            gather=self.gather_cycles(kernel_rows),
            tilize=self.tilize_cycles(b.act_h * b.act_w),
            multiply=product.multiply_cycles(figures),
            pack=product.pack_cycles(figures),
            matmul=matmul,
            weights=fetch[0],
            weights_dram=fetch[1],
            spread=spread,
            finish=finish,
            finish_vector=vector,
        )

    def weights_cycles(self, readers: int, receivers: int) -> tuple[float, float]:
        """One inner block of weights from DRAM to all cores that need it; and the DRAM's part of that."""
        tiles = self.blocks.act_w * self.blocks.out_w
        size = self.weight.dtype.tile_bytes
        fetch = dram_fetch_cycles(self.figures, tiles, size, readers)
        return fetch + multicast_cycles(self.figures, tiles * size, receivers), fetch


def convolution_cycles(step: Step, figures: Figures) -> Cycles:
    conv = _Convolution(step, figures)
    return {HEIGHT: _height, BLOCK: _block_sharded, WIDTH: _width}[conv.inputs.layout](conv)


def _height(conv: _Convolution) -> Cycles:
    """Each core has whole windows; one core fetches the weights and sends them to all, once for all rows."""
    inner = max(1, conv.weight_rows // conv.blocks.act_w)
    rows = conv.row_blocks
    kernel_rows = conv.window.window[0] if inner == 1 else 1
    one = conv.block(inner, kernel_rows, conv.weights_cycles(1, conv.cores - 1), 0.0)
    compute = one.tilize + one.matmul
    side = one.weights + (one.gather if conv.split else 0.0)  # the second reader is the one who fetches weights
    first = _paced(conv, one, max(side, one.gather))
    later = _paced(conv, one, one.gather)
    kept = rows > 1 and not conv.reuses_activations
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


def _paced(conv: _Convolution, one: _Block, bringing: float) -> float:
    """One inner block in the steady state; `bringing`: what arrives for the next meanwhile."""
    if conv.double_activations:
        return max(one.tilize + one.matmul, bringing)
    return one.tilize + max(one.matmul, bringing)


def _block_sharded(conv: _Convolution) -> Cycles:
    """Cores of a row share windows by channels: each tilizes its own part and sends it to all in turn."""
    senders = conv.inputs.cores_c
    receivers = conv.columns
    outer = max(1, conv.weight_rows // conv.blocks.act_w // senders)
    size = conv.blocks.act_h * conv.blocks.act_w * conv.output.dtype.tile_bytes
    spread = multicast_cycles(conv.figures, size, receivers - 1 if senders == 1 else max(receivers, senders) - 1)
    kernel_rows = conv.window.window[0] if conv.full_inner else 1
    fetch = conv.weights_cycles(receivers, conv.inputs.cores_nhw - 1)
    one = conv.block(outer * senders, kernel_rows, fetch, spread)
    pace = max(one.matmul, one.spread, one.weights)
    if not conv.double_weights:
        pace = max(one.spread, one.matmul + one.weights)
    hidden = min(one.gather, pace) if conv.double_activations else 0.0
    a_window_row = one.gather - hidden + one.tilize + senders * pace
    rows = conv.row_blocks
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


def _width(conv: _Convolution) -> Cycles:
    """Each core has some channels of all windows, sends them to all, and reads its own columns of the weights."""
    senders = conv.inputs.grid.num_cores()
    inner = max(1, conv.weight_rows // conv.blocks.act_w)
    parts = max(1, inner // senders)
    size = conv.blocks.act_h * conv.blocks.act_w * conv.output.dtype.tile_bytes
    spread = multicast_cycles(conv.figures, size, conv.cores - 1)
    one = conv.block(inner, conv.window.window[0], conv.weights_cycles(conv.columns, 0), spread)
    pace = max(one.matmul, one.spread, one.weights)
    rows = conv.row_blocks
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
