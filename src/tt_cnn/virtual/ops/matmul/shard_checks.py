# SPDX-License-Identifier: Apache-2.0
"""What each program asks of shards: layouts, grids, orientations, shard shapes."""

from __future__ import annotations

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.matmul.configs import ProgramConfig
from tt_cnn.virtual.ops.matmul.problem import Problem
from tt_cnn.virtual.types.enums import ShardOrientation, TensorMemoryLayout
from tt_cnn.virtual.types.geometry import TILE_SIZE, CoreRange, div_up
from tt_cnn.virtual.types.tensor_spec import Spec

Grid = tuple[int, int]
_HEIGHT, _WIDTH, _BLOCK = (
    TensorMemoryLayout.HEIGHT_SHARDED,
    TensorMemoryLayout.WIDTH_SHARDED,
    TensorMemoryLayout.BLOCK_SHARDED,
)


def check_simple(p: Problem, config: ProgramConfig, device: Grid) -> None:
    for name, memory in (
        ("Input A", p.left.memory_config),
        ("Input B", p.right.memory_config),
        ("Output", p.output),
    ):
        fatal(
            not memory.is_sharded(),
            f"{config.kind}: {name} memory layout must be INTERLEAVED, got: {memory.memory_layout.native}",
        )


def check_one_dimension(p: Problem, config: ProgramConfig, device: Grid) -> None:
    for spec in (p.left, p.right):
        _check_in_grid(spec, device)
    if config.mcast_left:
        _check_shared_left(p, config)
    else:
        _check_shared_right(p, config)


def _check_shared_left(p: Problem, config: ProgramConfig) -> None:
    name, m, n = config.kind, config.per_core_m, config.per_core_n
    rows = p.rows(config.fuse_batch)
    if p.left.is_sharded:
        _check_left_shards(p, config, _WIDTH, "WIDTH_SHARDED when mcast_in0 or gather_in0 is set")
        fatal(rows == m, f"{name}: M ({rows}) must equal per_core_M ({m})")
        _check_left_height(p.left, config)
        width = p.left.shard.shape[1]
        fatal(
            width // TILE_SIZE % config.block_k == 0,
            f"{name}: shard_shape[1] ({width}) / in0_tile width ({TILE_SIZE}) must be divisible by in0_block_w "
            f"({config.block_k})",
        )
    if p.output.is_sharded():
        layout = p.output.memory_layout
        fatal(
            layout is _WIDTH or _on_line(p, row=True),
            f"{name}: output memory layout must be WIDTH_SHARDED or BLOCK_SHARDED on a 1-row grid, got: "
            f"{layout.native}",
        )
        fatal(rows == m, f"{name}: M ({rows}) must equal per_core_M ({m})")
        _check_output_blocks(config)
    if p.right.is_sharded and not p.right.memory_config.is_dram():
        layout, width = p.right.memory_config.memory_layout, p.right.shard.shape[1] // TILE_SIZE
        fatal(layout is _WIDTH, f"{name}: input B in L1 must be WIDTH_SHARDED, got: {layout.native}")
        fatal(width == n, f"{name}: input B shard width in tiles ({width}) must equal per_core_N ({n})")


def _check_shared_right(p: Problem, config: ProgramConfig) -> None:
    name, m, n = config.kind, config.per_core_m, config.per_core_n
    if p.left.is_sharded:
        _check_left_shards(p, config, _HEIGHT, "HEIGHT_SHARDED")
        blocks, cores = div_up(p.rows(config.fuse_batch), m), p.left.shard.num_cores()
        fatal(
            blocks <= cores,
            f"{name}: number of M blocks ceil(M/per_core_M)={blocks} must not exceed input A shard grid cores "
            f"({cores})",
        )
        _check_left_height(p.left, config)
        width = p.left.shard.shape[1]
        fatal(
            p.k == width // TILE_SIZE,
            f"{name}: K ({p.k}) must equal shard_shape[1] ({width}) / in0_tile width ({TILE_SIZE})",
        )
    if p.output.is_sharded():
        layout = p.output.memory_layout
        fatal(
            layout is _HEIGHT or _on_line(p, row=False),
            f"{name}: output memory layout must be HEIGHT_SHARDED or BLOCK_SHARDED on a 1-column grid, got: "
            f"{layout.native}",
        )
        fatal(p.n == n, f"{name}: N ({p.n}) must equal per_core_N ({n})")
        _check_output_blocks(config)
    fatal(
        not p.right.is_sharded,
        f"{name}: input B must be INTERLEAVED, got: {p.right.memory_config.memory_layout.native}",
    )


def check_two_dimensions(p: Problem, config: ProgramConfig, device: Grid) -> None:
    name = config.kind
    for spec in (p.left, p.right):
        _check_in_grid(spec, device)
    if p.left.is_sharded:
        _check_left_of_grid(p, config)
    if p.right.is_sharded:
        _check_right_of_grid(p, config)
    if p.output.is_sharded():
        layout = p.output.memory_layout
        fatal(layout is _BLOCK, f"{name}: Output memory layout must be BLOCK_SHARDED, got: {layout.native}")
        _check_output_blocks(config)


def _check_left_of_grid(p: Problem, config: ProgramConfig) -> None:
    name, shard = config.kind, p.left.shard
    layout = p.left.memory_config.memory_layout
    fatal(config.fuse_batch, f"{name}: Batch fusion is required when input A is sharded")
    fatal(layout in (_BLOCK, _HEIGHT), f"{name}: Unsupported memory layout {layout.native}.")
    height, width = shard.shape[0] // TILE_SIZE, shard.shape[1] // TILE_SIZE
    if layout is _BLOCK:
        wanted = ShardOrientation.COL_MAJOR if config.transpose_mcast else ShardOrientation.ROW_MAJOR
        kind = "transpose" if config.transpose_mcast else "non-transpose"
        fatal(
            shard.orientation is wanted,
            f"{name}: Input tensor A must have {wanted.name} shard orientation for {kind} MCAST, got: "
            f"{shard.orientation.native}",
        )
        if p.output.is_sharded():
            _check_output_matches(p, name)
    else:
        fatal(not config.transpose_mcast, f"{name}: Transpose MCAST not supported with HEIGHT_SHARDED layout")
        fatal(p.k == config.block_k, f"{name}: K ({p.k}) must equal in0_block_w ({config.block_k})")
        fatal(
            config.block_k == width,
            f"{name}: in0_block_w ({config.block_k}) must equal shard_shape[1] / in0_tile.get_width() ({width})",
        )
        box = shard.grid.bounding_box()
        fatal(
            box.start.x == box.end.x,
            f"{name}: HEIGHT_SHARDED input A must have a single-column shard grid (got x={box.start.x} to "
            f"x={box.end.x}); use MatmulMultiCoreReuseProgramConfig for multi-column HEIGHT_SHARDED inputs",
        )
    fatal(
        config.per_core_m == height,
        f"{name}: per_core_M ({config.per_core_m}) must equal shard_shape[0] / in0_tile.get_height() ({height})",
    )
    fatal(
        width % config.block_k == 0,
        f"{name}: shard_shape[1] / in0_tile.get_width() ({width}) must be divisible by in0_block_w ({config.block_k})",
    )


def _check_right_of_grid(p: Problem, config: ProgramConfig) -> None:
    name, layout = config.kind, p.right.memory_config.memory_layout
    left_layout = p.left.memory_config.memory_layout
    fatal(not config.transpose_mcast, f"{name}: Transpose MCAST not supported when input B is sharded")
    fatal(
        layout in (_WIDTH, _HEIGHT),
        f"{name}: Input B memory layout must be WIDTH_SHARDED, HEIGHT_SHARDED, or DRAM ND_SHARDED, got: "
        f"{layout.native}",
    )
    buffer = p.right.memory_config.buffer_type
    if layout is _HEIGHT:
        fatal(
            p.right.memory_config.is_dram(),
            f"{name}: HEIGHT_SHARDED input B is only supported in DRAM, got: {buffer.native}",
        )
    if not p.right.memory_config.is_dram():
        fatal(
            left_layout in (_HEIGHT, TensorMemoryLayout.INTERLEAVED),
            f"{name}: Error - non-DRAM width sharded input B requires input A to be interleaved or height sharded, "
            f"rather than {left_layout.native}",
        )
        width = p.right.shard.shape[1] // TILE_SIZE
        fatal(
            config.per_core_n == width,
            f"{name}: per_core_N ({config.per_core_n}) must equal input tensor B shard shape[1] / "
            f"in1_tile.get_width() ({width})",
        )
    box = p.right.shard.grid.bounding_box()
    fatal(
        layout is not _WIDTH or box.start.y == box.end.y,
        f"{name}: Width-sharded input tensor B grid bounding box must have equal start and end y coordinates, got "
        f"start: {box.start.y} vs end: {box.end.y}",
    )


def check_reuse(p: Problem, config: ProgramConfig, device: Grid) -> None:
    name, m, n = config.kind, config.per_core_m, config.per_core_n
    total = p.rows(fuse_batch=True)
    if m > p.m:
        fatal(m % p.m == 0, f"{name}: per_core_M, {m}, must be a multiple of M, {p.m} if per_core_M > M!")
        fatal(total % m == 0, f"{name}: input a total height, {total}, must be divisible by per_core_M, {m}!")
    else:
        fatal(p.m % m == 0, f"{name}: per_core_M, {m}, must divide M, {p.m}, if per_core_M < M!")
    fatal(p.n == n, f"{name}: N ({p.n}) must equal per_core_N ({n})")
    if p.left.is_sharded:
        layout = p.left.memory_config.memory_layout
        fatal(layout is not _WIDTH, f"{name}: input A memory layout must not be WIDTH_SHARDED, got: {layout.native}")
        height, width = p.left.shard.shape
        inner = p.k * TILE_SIZE
        fatal(inner == width, f"{name}: K ({inner}) must equal in0 shard_shape[1] ({width})")
        fatal(
            width == config.block_k * TILE_SIZE,
            f"{name}: in0 shard_shape[1] ({width}) must equal in0_block_w ({config.block_k}) * in0_tile width "
            f"({TILE_SIZE})",
        )
        fatal(
            m * TILE_SIZE == height,
            f"{name}: per_core_M ({m}) * in0_tile height ({TILE_SIZE}) must equal in0 shard_shape[0] ({height})",
        )
        if p.output.is_sharded():
            _check_output_matches(p, name)
    fatal(
        not (p.batch_a > 1 and p.batch_b == 1),
        f"{name}: Batch broadcasting is not supported for the chosen program config",
    )
    if p.output.is_sharded():
        layout = p.output.memory_layout
        fatal(layout is not _WIDTH, f"{name}: Output memory layout must not be WIDTH_SHARDED, got: {layout.native}")
        fatal(
            config.subblock_w == n or config.subblock_h == 1,
            f"{name}: Either out_subblock_w ({config.subblock_w}) must equal per_core_N ({n}) or out_subblock_h "
            f"({config.subblock_h}) must be 1",
        )


def _check_in_grid(spec: Spec, grid: Grid) -> None:
    if not spec.is_sharded or spec.memory_config.is_dram():
        return
    fatal(
        CoreRange((0, 0), (grid[0] - 1, grid[1] - 1)).contains(spec.shard.grid),
        f"Tensor shard spec grid {spec.shard.grid} must lie within compute grid ({grid[0]}, {grid[1]})",
    )


def _check_left_shards(p: Problem, config: ProgramConfig, layout: TensorMemoryLayout, words: str) -> None:
    name, found = config.kind, p.left.memory_config.memory_layout
    fatal(config.fuse_batch, f"{name}: fuse_batch must be enabled when input A is sharded")
    fatal(found is layout, f"{name}: input A must be {words}, got: {found.native}")
    if p.output.is_sharded():
        _check_output_matches(p, name)
    orientation = p.left.shard.orientation
    fatal(
        p.left.shard.row_wise,
        f"{name}: input A shard orientation must be ROW_MAJOR, got: {orientation.native}",
    )


def _check_left_height(left: Spec, config: ProgramConfig) -> None:
    height = left.shard.shape[0]
    fatal(
        config.per_core_m == height // TILE_SIZE,
        f"{config.kind}: per_core_M ({config.per_core_m}) must equal shard_shape[0] ({height}) / in0_tile height "
        f"({TILE_SIZE})",
    )


def _check_output_matches(p: Problem, name: str) -> None:
    source, output = p.left.memory_config, p.output
    fatal(
        source.buffer_type is output.buffer_type,
        f"{name}: input A and output buffer types must match, got input: {source.buffer_type.native} vs output: "
        f"{output.buffer_type.native}",
    )
    fatal(
        source.memory_layout is output.memory_layout,
        f"{name}: input A and output memory layouts must match, got input: {source.memory_layout.native} vs output: "
        f"{output.memory_layout.native}",
    )


def _check_output_blocks(config: ProgramConfig) -> None:
    name, n = config.kind, config.per_core_n
    fatal(
        config.subblock_w == n or config.subblock_h == 1,
        f"{name}: out_subblock_w ({config.subblock_w}) must equal per_core_N ({n}) or out_subblock_h "
        f"({config.subblock_h}) must be 1",
    )
    fatal(
        config.block_w == n or config.block_h == 1,
        f"{name}: out_block_w ({config.block_w}) must equal per_core_N ({n}) or out_block_h ({config.block_h}) must "
        "be 1",
    )


def _on_line(p: Problem, *, row: bool) -> bool:
    """A block-sharded output on one row (or column) of cores."""
    shard = p.output.shard_spec
    if p.output.memory_layout is not _BLOCK or shard is None:
        return False
    size = shard.grid.bounding_box().grid_size()
    return (size.y if row else size.x) == 1
