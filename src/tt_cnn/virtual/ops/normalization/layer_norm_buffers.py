# SPDX-License-Identifier: Apache-2.0
"""What the cores of a layer norm stage: rows of interleaved tensors, whole or in pieces, and shards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tt_cnn.virtual.arch import Card
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.matmul.problem import Compute
from tt_cnn.virtual.ops.normalization.configs import LayerNormShardedMultiCoreProgramConfig
from tt_cnn.virtual.ops.normalization.layer_norm_checks import check_registers
from tt_cnn.virtual.ops.reduction.units import staged, tiles, usable_l1
from tt_cnn.virtual.planning.plan import CircularBuffer, Planner, Slot
from tt_cnn.virtual.types.enums import Arch, DataType, Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, div_up, round_up
from tt_cnn.virtual.types.tensor_spec import Spec

_BF16, _F32 = DataType.BFLOAT16, DataType.FLOAT32
_SQUARES = 8
_LONG = {(False, False): 112, (False, True): 56, (True, False): 56, (True, True): 28}
"""Tiles of a row held at a time where a row does not fit L1, by (weights or a float32 tensor, float32 registers)."""
_NO_TABLE = "Reciprocal tensor not provided for Welford layernorm"
_ADVICE = "  leave use_welford out of the program config"
_KEPT = 3
"""How often two passes hold a row of the input, where that fits; a sum of two tensors is held twice."""


@dataclass(frozen=True)
class Rows:
    """The rows of an interleaved tensor and what is added, multiplied and shifted with them."""

    x: Spec
    out: Spec
    named: Mapping[str, Spec]
    settings: Compute
    centered: bool

    @property
    def row_major(self) -> bool:
        return self.x.layout is Layout.ROW_MAJOR

    @property
    def weights(self) -> list[Spec]:
        return [self.named[name] for name in ("weight", "bias") if name in self.named]

    @property
    def row_major_weights(self) -> bool:
        return any(spec.layout is Layout.ROW_MAJOR for spec in self.weights)

    @property
    def block(self) -> int:
        return 4 if self.settings.fp32 else 8

    @property
    def register(self) -> int:
        return (_F32 if self.settings.fp32 else _BF16).tile_bytes


def interleaved_sizes(planner: Planner, rows: Rows, two_pass: bool, room: float) -> tuple[dict[str, int], bool]:
    """Bytes of the buffers, and whether rows are worked through in pieces. `room`: L1 before the result had its place.

    `two_pass` was asked for: mean and variance by the vector unit, each in a pass of its own. It takes float32
    registers, and Blackhole has it only where it is faster. Rows that do not fit it need a table of reciprocals (such
    programs are not known: they are planned in one pass); whether they fit is asked with the result in place
    (measured).
    """
    if two_pass and rows.settings.fp32:
        few, many = (_two_pass(rows, kept) for kept in (False, True))
        fits = sum(few.values()) <= usable_l1(planner)
        by_table = ("residual" in rows.named and rows.x.dtype is _F32) or not (fits or rows.row_major_weights)
        chosen = planner.card.arch is not Arch.BLACKHOLE or _faster_in_two_passes(rows, fits)
        fatal(not (chosen and by_table) or "reciprocals" in rows.named, _NO_TABLE, _ADVICE)
        if chosen and not by_table:
            return many if sum(many.values()) <= room else few, False
    fatal(
        not rows.row_major or rows.x.dtype is not _F32 or rows.settings.fp32,
        "ROW_MAJOR float32 input requires fp32_dest_acc_en=True in the compute kernel config (SRCA is 16-bit when "
        "fp32_dest_acc_en=False, silently truncating float32 to bfloat16 during tilize)",
    )
    sizes = _one_pass(rows, round_up(tiles(rows.x)[2], rows.block))
    if sum(sizes.values()) <= room or (rows.row_major_weights and not rows.row_major):
        return sizes, False
    fatal(
        not rows.row_major_weights,
        "The LayerNorm large-tensor path does not support row-major gamma/beta; pass gamma/beta in TILE layout",
    )
    scaled = bool(rows.weights) or rows.x.dtype is _F32
    sizes = _one_pass(rows, _LONG[scaled, rows.settings.fp32], in_pieces=True)
    return sizes | {"partial sums": rows.register}, True


def _one_pass(rows: Rows, columns: int, in_pieces: bool = False) -> dict[str, int]:
    """The matrix unit reduces: beside the row its centered values and their squares."""
    block, register, x, out = rows.block, rows.register, rows.x.dtype.tile_bytes, rows.out.dtype.tile_bytes
    residual = rows.named.get("residual")
    held = 2 * block if residual is not None else columns
    written = columns if rows.row_major else 2 * block
    if rows.row_major and in_pieces:
        held = written = block
    constants = 2 * _BF16.tile_bytes
    sizes = {"input": held * x, "output": written * out, "scaler": constants, "epsilon": constants}
    sizes |= {"inverse root": 2 * register, "squares": columns * register, "variance": _SQUARES * register}
    if rows.centered:
        sizes["mean"] = 2 * register
    if rows.centered or residual is not None or in_pieces:
        sizes["centered"] = columns * register
    if rows.row_major:
        sizes |= {"rows read": 2 * block * x, "rows written": 2 * block * out}
    return sizes | _beside(rows, columns, 2 * block)


def _two_pass(rows: Rows, kept: bool) -> dict[str, int]:
    """The vector unit reduces: no squares and no scaler; float32 is centered where it lies."""
    block, register = rows.block, rows.register
    columns = round_up(tiles(rows.x)[2], block)
    most, least = (2 * columns, 2 * block) if "residual" in rows.named else (_KEPT * columns, columns)
    held = most if kept else least
    sizes = {"input": held * rows.x.dtype.tile_bytes, "output": 2 * block * rows.out.dtype.tile_bytes}
    sizes |= {"epsilon": 2 * _BF16.tile_bytes, "mean": 2 * register, "inverse root": 2 * register}
    sizes["variance"] = _SQUARES * register
    if rows.x.dtype is not _F32:
        sizes["centered"] = columns * register
    return sizes | _beside(rows, columns, held)


def _beside(rows: Rows, columns: int, residual: int) -> dict[str, int]:
    """Weights, what lies between them and the result, and the other summand."""
    sizes = {"scaled": 2 * rows.block * rows.register} if rows.weights else {}
    sizes |= {n: columns * rows.named[n].dtype.tile_bytes for n in ("weight", "bias") if n in rows.named}
    if "residual" in rows.named:
        sizes["residual"] = residual * rows.named["residual"].dtype.tile_bytes
        if rows.centered:
            sizes["sum"] = columns * rows.register
    return sizes


def _faster_in_two_passes(rows: Rows, fits: bool) -> bool:
    """On Blackhole: float32 always, since the matrix unit reads less of it; other tensors by width and weights."""
    dtype, width = rows.x.dtype, rows.x.padded_shape[-1]
    whole = {"weight", "bias"} <= rows.named.keys()
    if dtype is _F32 or (dtype is _BF16 and not rows.weights):
        return True
    if not fits:
        return False
    if whole and "residual" in rows.named:
        return (dtype is _BF16 and width <= 256) or width >= 2880
    return dtype is _BF16 and (whole or width >= 3232)


def shard_buffers(
    x: Slot,
    out: Slot,
    named: Mapping[str, Slot],
    settings: Compute,
    program: LayerNormShardedMultiCoreProgramConfig,
    centered: bool,
    card: Card,
) -> tuple[CircularBuffer, ...]:
    """Each core has its shard; partial sums of a row are gathered over the cores that share it."""
    check_registers(settings, program.subblock_w)
    spec = x.spec
    by_vector_unit = program.use_welford and settings.fp32 and card.arch is not Arch.BLACKHOLE
    fatal(not by_vector_unit or spec.dtype is not _F32 or "reciprocals" in named, _NO_TABLE, _ADVICE)
    register = (_F32 if settings.fp32 else _BF16).tile_bytes
    height, width = program.block_h, program.block_w
    gathered, rows = _gathered(spec, program, card.grid)
    scaler = _BF16.tile_bytes
    sizes = {"scaler": scaler, "epsilon": scaler, "scaler of all": register}
    for name in ("squares", "mean") if centered else ("squares",):
        sizes |= {f"partial {name}": height * register, f"gathered {name}": gathered * register}
        sizes[name] = height * register
    sizes |= {"inverse root": rows * register, "statistics": height * register}
    sizes |= {"sum": height * width * register, "centered": height * width * register}
    sizes |= {n: width * named[n].spec.dtype.tile_bytes for n in ("weight", "bias") if n in named}
    if spec.shape[-1] % TILE_SIZE:
        sizes["column mask"] = width * scaler
        if centered:
            sizes["masked"] = height * width * register
    cores = spec.shard.grid
    shards = [("input", x), ("output", out)] + [("residual", named[n]) for n in ("residual",) if n in named]
    borrowed = (
        CircularBuffer(height * width * slot.spec.dtype.tile_bytes, cores, slot, dataflow=True, name=name)
        for name, slot in shards
    )
    return (*borrowed, *staged(cores, sizes))


def _check_order(spec: Spec, rows: int, height: int, two_stages: bool) -> None:
    """Column after column, the library looks for the second core of a row of tensors below the first one."""
    shard, box = spec.shard, spec.shard.grid.bounding_box().grid_size()
    below = div_up(height, rows) if two_stages else box.y
    fatal(shard.row_wise or shard.num_cores() == 1 or below > 1, "Start core must be within grid size")


def _gathered(
    spec: Spec, program: LayerNormShardedMultiCoreProgramConfig, card_grid: tuple[int, int]
) -> tuple[int, int]:
    """Tiles that a core gathers for a row, and rows that it finishes. A row over a whole grid goes in two stages."""
    shard = spec.shard
    box = shard.grid.bounding_box().grid_size()
    whole_rows = spec.volume // spec.padded_shape[-1] == program.block_h * TILE_SIZE
    across = box.x if shard.row_wise else box.y
    blocks = shard.num_cores() if whole_rows else across
    rectangle = shard.num_cores() == box.x * box.y
    full = box.y > 1 if shard.row_wise else box.y == card_grid[1]
    if whole_rows and rectangle and box.x > 1 and full:
        other, rows = (box.y if shard.row_wise else box.x), div_up(program.block_h, across)
        _check_order(spec, rows, program.block_h, two_stages=True)
        return across + other - 1, rows
    rows = div_up(program.block_h, blocks)
    if whole_rows:
        _check_order(spec, rows, program.block_h, two_stages=False)
    return div_up(spec.padded_shape[-1] // TILE_SIZE, program.block_w), rows
