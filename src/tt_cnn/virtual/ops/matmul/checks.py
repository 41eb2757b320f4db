# SPDX-License-Identifier: Apache-2.0
"""What matmul refuses, in the library's order and words (matmul_device_operation.cpp)."""

from __future__ import annotations

from math import prod

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.matmul.configs import MCAST_1D, MCAST_2D, REUSE, SIMPLE, ProgramConfig
from tt_cnn.virtual.ops.matmul.problem import Problem
from tt_cnn.virtual.ops.matmul.shard_checks import check_one_dimension, check_reuse, check_simple, check_two_dimensions
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, CoreRange, div_up
from tt_cnn.virtual.types.memory_config import MemoryConfig

Grid = tuple[int, int]
_FORMATS = (DataType.BFLOAT16, DataType.FLOAT32, DataType.BFLOAT8_B, DataType.BFLOAT4_B)


def check_matrices(p: Problem) -> None:
    """`validate_matmul_matrix_dimensions`, and what comes before it."""
    fatal(
        p.left.layout is Layout.TILE and p.right.layout is Layout.TILE,
        "Inputs to matmul must be tilized",
    )
    for name, spec in (("A", p.left), ("B", p.right)):
        fatal(spec.dtype in _FORMATS, f"Unsupported data format for input {name}: {spec.dtype.native}")
    fatal(len(p.b) >= 2, f"Matmul expects input B rank >= 2, got {len(p.b)}")
    fatal(
        p.a[-1] == p.b[-2],
        "The width of the first tensor must be equal to the height of the second tensor. Mismatch: "
        f"width={p.a[-1]} height={p.b[-2]}",
        _transposing_advice(p),
    )
    inner = p.b_padded[-2] // TILE_SIZE
    fatal(p.k == inner, f"K dimension in tiles must match between input A ({p.k}) and input B ({inner})")


def _transposing_advice(p: Problem) -> str:
    """Which operand the other way round would fit; a call may have transposed one already."""
    if p.a[-1] == p.b[-1]:
        return "  fits: the second tensor the other way round (transpose_b)"
    if len(p.a) > 1 and p.a[-2] == p.b[-2]:
        return "  fits: the first tensor the other way round (transpose_a)"
    return ""


def check_program(p: Problem, config: ProgramConfig, device: Grid) -> None:
    """`program_config_error`: whether the program can compute this product on this card."""
    _check_grid(config, device)
    _check_blocks(p, config)
    _check_shares(p, config)
    _check_distribution(p, config, device)
    _check_batches(p, config)
    _check_bias(p, config)
    fatal(
        not config.untilize_out or config.kind == MCAST_1D,
        f"{config.kind}: untilize_out is not supported for this program config, only supported for "
        "MatmulMultiCoreReuseMultiCast1DProgramConfig",
    )
    if config.is_mcast and config.fuse_batch:
        _check_fused_batch(p, config)
    _OWN_CHECKS[config.kind](p, config, device)


_OWN_CHECKS = {
    MCAST_1D: check_one_dimension,
    MCAST_2D: check_two_dimensions,
    REUSE: check_reuse,
    SIMPLE: check_simple,
}


def _check_grid(config: ProgramConfig, device: Grid) -> None:
    if config.kind == SIMPLE:
        return
    (x, y), name = config.grid, config.kind
    fatal(x > 0 and y > 0, f"{name}: compute_with_storage_grid_size must be non-zero, got ({x}, {y})")
    fatal(
        x <= device[0] and y <= device[1],
        f"{name}: compute_with_storage_grid_size ({x}, {y}) must fit within device grid ({device[0]}, {device[1]})",
    )
    for field, value in (
        ("in0_block_w", config.block_k),
        ("per_core_M", config.per_core_m),
        ("per_core_N", config.per_core_n),
    ):
        fatal(value != 0, f"{name}: {field} is 0, which is not valid")


def _check_blocks(p: Problem, config: ProgramConfig) -> None:
    if config.kind == SIMPLE:
        return
    name = config.kind
    fatal(p.k % config.block_k == 0, f"{name}: Kt ({p.k}) must be divisible by in0_block_w ({config.block_k})")
    sides = [
        ("out_subblock_h", config.subblock_h),
        ("out_subblock_w", config.subblock_w),
    ]
    if config.is_mcast:
        sides += [("out_block_h", config.block_h), ("out_block_w", config.block_w)]
    for field, value in sides:
        fatal(value != 0, f"{name}: {field} is 0, which is not valid")
    divisions: tuple[tuple[str, int, str, int], ...]
    if config.is_mcast:
        divisions = (
            ("out_block_h", config.block_h, "out_subblock_h", config.subblock_h),
            ("out_block_w", config.block_w, "out_subblock_w", config.subblock_w),
            ("per_core_M", config.per_core_m, "out_block_h", config.block_h),
            ("per_core_N", config.per_core_n, "out_block_w", config.block_w),
        )
    else:
        divisions = (
            ("per_core_M", config.per_core_m, "out_subblock_h", config.subblock_h),
            ("per_core_N", config.per_core_n, "out_subblock_w", config.subblock_w),
        )
    for whole, size, part, divisor in divisions:
        fatal(size % divisor == 0, f"{name}: {whole} ({size}) must be divisible by {part} ({divisor})")
    fatal(
        config.subblock_h * config.subblock_w <= p.compute.registers,
        f"{name}: out_subblock_w {config.subblock_w} times out_subblock_h {config.subblock_h} needs to be at most "
        f"{p.compute.registers} to fit in hardware",
    )


def _check_shares(p: Problem, config: ProgramConfig) -> None:
    """A batch of products on shards: every core of the shards has the same number of blocks."""
    if config.kind != REUSE:
        return
    sharded = next((s for s in (p.left, p.right) if s.is_sharded and not s.memory_config.is_dram()), None)
    if sharded is None:
        return
    blocks = (p.batch_a * p.m // config.per_core_m) * (p.n // config.per_core_n)
    cores = sharded.shard.num_cores()
    fatal(
        blocks % cores == 0,
        f"MatmulMultiCoreReuseProgramConfig: num_output_blocks ({blocks}) must be evenly divisible by the number of "
        f"cores in the input shard grid ({cores})",
    )


def _check_distribution(p: Problem, config: ProgramConfig, device: Grid) -> None:
    name, (x, y) = config.kind, config.grid
    if name == SIMPLE:
        return
    if name == REUSE:
        sharded = p.left.is_sharded or p.right.is_sharded or p.output.is_sharded()
        _check_output_grid(p.output, device if sharded else config.grid, name)
        return
    rows = p.rows(config.fuse_batch)
    m, n = config.per_core_m, config.per_core_n
    blocks_y, blocks_x = div_up(rows, m), div_up(p.n, n)
    too_high = (
        f"{name}: per_core_M ({m}) exceeds Mt ({rows}). Each core would compute more output row tiles than the tensor "
        "has. Reduce per_core_M to at most Mt."
    )
    if name == MCAST_2D:
        fatal(m <= rows, too_high)
        if config.transpose_mcast:
            blocks_x, blocks_y = blocks_y, blocks_x
        fatal(
            blocks_x <= x,
            f"{name}: Num output blocks along x ({blocks_x}) must be smaller than or equal to the number of columns in "
            f"compute grid ({x})!",
        )
        fatal(
            blocks_y <= y,
            f"{name}: Num output blocks along y ({blocks_y}) must be smaller than or equal to the number of rows in "
            f"compute grid ({y})!",
        )
    else:
        fatal(
            blocks_x * blocks_y <= x * y,
            f"{name}: Number of blocks exceeds number of cores: {blocks_x * blocks_y} blocks > {x * y} cores",
        )
        if config.mcast_left:
            fatal(
                blocks_y == 1,
                f"{name}: mcast_in0 requires M ({rows}) to fit within a single per_core_M block ({m}), got "
                f"num_blocks_y={blocks_y}",
            )
        else:
            fatal(
                blocks_x == 1,
                f"{name}: mcast_in1 requires N ({p.n}) to fit within a single per_core_N block ({n}), got "
                f"num_blocks_x={blocks_x}. A single in1 sender multicasts one per_core_N-wide weight slice to the "
                "whole grid, so multi-column N is not supported here; use MatmulMultiCoreReuseMultiCastProgramConfig "
                "(the 2D factory) for multi-column N.",
            )
            fatal(m <= rows, too_high)
            _check_last_blocks(p, config, rows, blocks_y)
    _check_output_grid(p.output, config.grid, name)


def _check_last_blocks(p: Problem, config: ProgramConfig, rows: int, blocks_y: int) -> None:
    """Rows of cores that share the right matrix: what is left over must lie in the last internal block."""
    name, m, n, height, width = (
        config.kind,
        config.per_core_m,
        config.per_core_n,
        config.block_h,
        config.block_w,
    )
    logical, physical = div_up(p.n, width), n // width
    fatal(
        logical == physical,
        f"{name}: mcast_in1 requires the logical N tail to be in the final internal W block; got N={p.n}, "
        f"per_core_N={n}, out_block_w={width} (logical blocks={logical}, physical blocks={physical}). Reduce "
        "per_core_N or increase out_block_w.",
    )
    if blocks_y != 1:
        return
    logical, physical = div_up(rows, height), m // height
    fatal(
        logical == physical,
        f"{name}: a single-Y mcast_in1 sender requires the logical M tail to be in the final internal H block; got "
        f"M={rows}, per_core_M={m}, out_block_h={height} (logical blocks={logical}, physical blocks={physical}). "
        "Reduce per_core_M or increase out_block_h.",
    )
    fatal(
        rows % height == 0 or physical == 1,
        f"{name}: a single-Y mcast_in1 sender supports a partial final H block only when per_core_M contains one "
        f"internal H block; got M={rows}, per_core_M={m}, out_block_h={height} (physical blocks={physical}).",
    )


def _check_output_grid(output: MemoryConfig, extent: Grid, name: str) -> None:
    shard = output.shard_spec
    if not output.is_sharded() or output.is_dram() or shard is None:
        return
    box = CoreRange((0, 0), (extent[0] - 1, extent[1] - 1))
    fatal(
        box.contains(shard.grid),
        f"{name}: output shard grid {shard.grid} must lie within extent {extent[0]}-{extent[1]}",
    )


def _check_batches(p: Problem, config: ProgramConfig) -> None:
    broadcast = p.batch_b == 1 and not (config.kind == REUSE and p.batch_a == 1)
    if broadcast:
        return
    a, b = p.a, p.b
    fatal(
        len(a) == len(b),
        f"Batched (non-bcast) matmul requires inputs of the same rank, got a_shape rank: {len(a)} vs b_shape rank: "
        f"{len(b)}",
    )
    reuses_left = (
        config.kind == MCAST_1D
        and not (config.fuse_batch or config.activation or config.mcast_left)
        and len(a) >= 3
        and prod(a[:-2]) == 1
        and not (p.left.is_sharded or p.right.is_sharded)
    )
    for i in range(len(a) - 2):
        fatal(
            a[i] == b[i] or (a[i] == 1 and reuses_left),
            f"bmm (non-bcast matmul) expects input tensors of shapes BCMK*BCKN=BCMN or batch dimension {i} mismatch: "
            f"a={a[i]} vs b={b[i]} (dimension mismatch only allowed when all batch dimensions of a are size 1 and "
            "using MatmulMultiCoreReuseMultiCast1DProgramConfig with fuse_batch=false, fused_activation=none, "
            "mcast_in0=false, and non-sharded inputs for in0 reuse optimization)",
        )


def _check_bias(p: Problem, config: ProgramConfig) -> None:
    bias = p.bias
    if bias is None:
        return
    fatal(bias.layout is Layout.TILE, f"Unsupported bias layout: {bias.layout.native}, has to be TILE")
    batch = prod(tuple(bias.shape)[:-2])
    fatal(batch == 1, f"Unsupported bias shape: batch size must be 1, got {batch}")
    rows = p.m if config.kind == REUSE else 1
    height, width = bias.padded_shape[-2], bias.padded_shape[-1]
    fatal(
        height == rows * TILE_SIZE,
        f"Unsupported bias shape: padded second last dimension of bias, {height}, not equal to expected bias height, "
        f"{rows * TILE_SIZE} (tile height {TILE_SIZE} x {rows} bias tile-row(s))",
    )
    fatal(
        width == p.b_padded[-1],
        f"Unsupported bias shape: padded last dimension of bias, {width}, not equal to second input's padded last "
        f"dimension, {p.b_padded[-1]}.",
    )
    fatal(
        bias.shape[-1] >= p.b[-1],
        f"Unsupported bias shape: last dimension of bias, {bias.shape[-1]}, not equal to or greater than second "
        f"input's last dimension, {p.b[-1]}.",
    )


def _check_fused_batch(p: Problem, config: ProgramConfig) -> None:
    fatal(
        p.batch_b == 1,
        f"{config.kind}: Matmul with fused batch requires input tensors of shapes BCMK*11KN=BCMN or equivalent. "
        "Please change the second input tensor or adjust the program config.",
    )
    if p.transpose_a:
        shape = "Shape([" + ", ".join(map(str, p.a_padded)) + "])"
        fatal(
            p.batch_a == 1 or p.m == 1,
            f"{config.kind}: transpose_a with fuse_batch is not supported when batch dimensions exist and M_per_batch "
            f"> 1 (batch_size={p.batch_a}, M_per_batch={p.m}, a_shape_padded={shape})",
        )
