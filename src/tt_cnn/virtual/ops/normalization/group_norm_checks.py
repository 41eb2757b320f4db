# SPDX-License-Identifier: Apache-2.0
"""What `group_norm` refuses, in the order in which the library looks."""

from __future__ import annotations

from tt_cnn.virtual.arch import Card
from tt_cnn.virtual.errors.card_error import CardError, fatal
from tt_cnn.virtual.ops.normalization.group_norm_problem import Problem, largest_grid, virtual_columns
from tt_cnn.virtual.ops.normalization.layer_norm_checks import check_shards
from tt_cnn.virtual.types.enums import Arch, DataType, Layout, TensorMemoryLayout
from tt_cnn.virtual.types.geometry import TILE_SIZE
from tt_cnn.virtual.types.tensor_spec import Spec

_DTYPES = (DataType.BFLOAT16, DataType.FLOAT32)
_MOST_GROUPS = 16
"""That a core keeps the statistics of at once."""


def check_call(
    x: Spec, groups: int, in_place: bool, made: Layout, dtype: DataType | None, arch: Arch, asked: Layout | None
) -> None:
    fatal(
        not in_place or x.layout is Layout.ROW_MAJOR,
        "In-place operation not supported: Tile layout requires non-inplace tensors. (inplace=true)",
        "  pass inplace=False",
    )
    fatal(
        not in_place or made is x.layout,
        "In-place operation not allowed: Input and output tensor layouts differ. "
        f"(input_layout={x.layout.native}, output_layout={made.native})",
    )
    fatal(
        x.memory_config.memory_layout is not TensorMemoryLayout.WIDTH_SHARDED,
        "Unsupported memory layout: Input tensor cannot be width-sharded.",
    )
    rank = len(x.shape)
    fatal(rank == 4, f"Invalid tensor shape: Input tensor must have rank 4. (rank={rank})")
    fatal(groups > 0, f"num_groups must be greater than 0, got {groups}")
    fatal(
        x.shape[-1] % groups == 0,
        f"Invalid channel configuration: Number of channels ({x.shape[-1]}) must be divisible by the number of groups "
        f"({groups}).",
    )
    rows = x.volume // max(1, x.padded_shape[3])
    fatal(
        rows % TILE_SIZE == 0,
        f"Invalid tensor dimensions: The product of NHW dimensions ({rows}) must be divisible by the tile size "
        f"({TILE_SIZE}).",
    )
    fatal(
        dtype is None or dtype is x.dtype,
        f"group_norm output dtype must match input dtype ({x.dtype.native}), got "
        f"dtype={dtype.native if dtype is not None else None}",
    )
    if x.is_sharded or arch is Arch.WORMHOLE_B0:
        return
    fatal(
        x.layout is Layout.TILE,
        "group_norm: interleaved (non-sharded) input must be in TILE layout, got ROW_MAJOR. Convert the input with "
        "ttnn.to_layout(input, ttnn.TILE_LAYOUT) before calling group_norm. ROW_MAJOR is supported only for sharded "
        "inputs, or on Wormhole.",
    )
    fatal(
        asked is not Layout.ROW_MAJOR,
        "group_norm: interleaved (non-sharded) output must be in TILE layout, got ROW_MAJOR output_layout. Request "
        "TILE output and convert it yourself with ttnn.to_layout(output, ttnn.ROW_MAJOR_LAYOUT). ROW_MAJOR output is "
        "supported only for sharded inputs, or on Wormhole.",
    )


def check_blocks(x: Spec, chosen: bool, blocks: int | None) -> None:
    if x.is_sharded or blocks is None:
        return
    fatal(
        not chosen,
        "group_norm: num_out_blocks cannot be specified when core_grid is auto-selected. Either provide an explicit "
        "core_grid or omit num_out_blocks.",
    )
    fatal(
        blocks >= -1,
        f"group_norm: num_out_blocks ({blocks}) is invalid. Use -1 to request the auto-heuristic, or an explicit chunk "
        "count in [1, block_h].",
    )


def check_grid(x: Spec, grid: tuple[int, int], groups: int) -> None:
    channels, batches = x.padded_shape[3], x.padded_shape[0]
    rows = x.volume // channels // TILE_SIZE
    columns = virtual_columns(grid[0], groups, channels)
    count = grid[0] // columns * grid[1] if columns else 0
    if count and rows >= count and rows % count == 0 and (count < batches or count % batches == 0):
        return
    found = largest_grid(x, grid, groups)
    computed = f"Computed num_virtual_rows={count}, num_virtual_cols={columns}."
    if found is None:
        raise CardError(
            "group_norm: Cannot find any valid core grid for the given configuration. Input height in tiles "
            f"(Ht={rows}) is too small for any grid with W={channels}, num_groups={groups}, num_batches={batches}. "
            f"{computed} Requested grid was (x={grid[0]}, y={grid[1]})."
        )
    raise CardError(
        f"group_norm: Requested core_grid (x={grid[0]}, y={grid[1]}) is invalid for the input dimensions (Ht={rows}, "
        f"W={channels}, num_groups={groups}, num_batches={batches}). The grid must satisfy: num_virtual_rows = "
        "(grid_x / num_virtual_cols) * grid_y <= Ht, Ht must be divisible by num_virtual_rows, and num_virtual_rows "
        f"must be divisible by num_batches (for uniform multicast groups). {computed} The largest valid grid that fits "
        f"is (x={found[0]}, y={found[1]})."
    )


def check_tensors(problem: Problem, grid: tuple[int, int], card: Card) -> None:
    x = problem.x
    fatal(x.dtype in _DTYPES, f"Input tensor must be BFLOAT16 or FLOAT32, got: {x.dtype.native}")
    fatal(x.padded_shape[1] == 1, "input tensor shape[1] must be 1!")
    height = x.padded_shape[2]
    fatal(height % TILE_SIZE == 0, f"H*W (1*{height}) must be a multiple of the tile height ({TILE_SIZE})")
    if problem.by_welford and not x.is_sharded:
        fatal(
            x.layout is Layout.TILE and problem.layout is Layout.TILE,
            "group_norm: ROW_MAJOR interleaved input/output is not supported on the SFPU two-pass path yet. Use TILE "
            "layout for both input and output, or use the tile-reduction path (use_welford=false).",
        )
    if x.is_sharded:
        box, cores = x.shard.grid.bounding_box().grid_size(), x.shard.num_cores()
        fatal(
            box.x * box.y == cores,
            f"Sharded groupnorm does not support non-rectangular core grids. The shard spec grid has {cores} cores but "
            f"its bounding box spans {box.x * box.y} cores ({box.x} x {box.y}).",
        )
        check_shards(x, grid, card, whole_tiles=False)
    for name in ("weight", "bias"):
        _check_weights(problem, name)
    _check_masks(problem)


def _check_weights(problem: Problem, name: str) -> None:
    side, other = {"weight": "Gamma", "bias": "Beta"}[name], problem.named.get("bias")
    spec = problem.named.get(name)
    if spec is None:
        return
    shape = spec.padded_shape.to_rank(4) if len(spec.padded_shape) < 4 else spec.padded_shape
    if spec.layout is Layout.TILE:
        own = problem.channels
        said = f"{own} != {shape[3]}"
        if side == "Beta":
            said = f"Input and beta inner dimensions must match, got input: {own} vs beta: {shape[3]}"
        fatal(own == shape[3], said)
        fatal(shape[2] == TILE_SIZE, f"{side} tensor height must equal tile height ({TILE_SIZE}), got: {shape[2]}")
    else:
        fatal(
            shape[3] == TILE_SIZE,
            f"{side} tensor inner dimension must equal tile width ({TILE_SIZE}), got: {shape[3]}",
        )
        fatal(spec.dtype in _DTYPES, f"{side} tensor must be BFLOAT16 or FLOAT32, got: {spec.dtype.native}")
    if side == "Gamma" and other is not None:
        fatal(
            spec.layout is other.layout,
            f"Gamma and beta must have the same layout, got gamma: {spec.layout.native} vs beta: {other.layout.native}",
        )
        fatal(
            spec.dtype is other.dtype,
            "Gamma and beta must have the same dtype (the program factories use a single gamma/beta CB format for "
            f"both), got gamma: {spec.dtype.native} vs beta: {other.dtype.native}",
        )


def _check_masks(problem: Problem) -> None:
    mask, negative = problem.named.get("mask"), problem.named.get("negative_mask")
    groups = problem.groups
    if mask is not None:
        fatal(mask.layout is Layout.TILE, f"Input mask must have TILE layout, got: {mask.layout.native}")
        fatal(
            mask.padded_shape[1] == groups,
            f"Input mask dim1 must be {groups} (num_groups={groups}), got: {mask.padded_shape[1]}",
        )
        fatal(
            mask.padded_shape[2] == TILE_SIZE,
            f"Input mask height must equal tile height ({TILE_SIZE}), got: {mask.padded_shape[2]}",
        )
    if negative is None:
        return
    fatal(negative.layout is Layout.TILE, f"Negative mask must have TILE layout, got: {negative.layout.native}")
    fatal(
        negative.padded_shape[1] == groups,
        f"Negative mask padded shape[1] must be equal to num_groups, but is {negative.padded_shape[1]} and num_groups "
        f"is {groups}",
    )
    fatal(problem.x.is_sharded, "Negative mask support is only available for sharded input tensors.")
    fatal(not problem.by_welford, "Negative mask is not supported with use_welford=True.")
    for side, layout in (("input", problem.x.layout), ("output", problem.layout)):
        fatal(
            layout is Layout.ROW_MAJOR,
            f"If using negative mask, {side} tensor must be in ROW_MAJOR layout, but layout is {layout.native}",
        )


def check_mask_width(problem: Problem, width: int, written: str) -> None:
    """`written`: how the program's own message spells the tile's width."""
    mask = problem.named.get("mask")
    if mask is not None:
        fatal(
            mask.padded_shape[3] == width * TILE_SIZE,
            f"input mask width ({mask.padded_shape[3]}) must have the same width as block_wt * {written} "
            f"({width * TILE_SIZE})",
        )


def check_groups(problem: Problem, a_core: int, what: str) -> None:
    fatal(
        not problem.by_welford or a_core <= _MOST_GROUPS,
        f"num_groups_per_core ({a_core}) must be <= {_MOST_GROUPS} when use_welfords is true. Increase the width of "
        f"{what} to address this.",
    )
