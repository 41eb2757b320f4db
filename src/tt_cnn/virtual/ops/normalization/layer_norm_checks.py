# SPDX-License-Identifier: Apache-2.0
"""What `layer_norm` and `rms_norm` refuse, in the order in which the library looks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tt_cnn.virtual.arch import Card
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.normalization.configs import (
    LayerNormDefaultProgramConfig,
    LayerNormShardedMultiCoreProgramConfig,
)
from tt_cnn.virtual.types.enums import DataType, Layout, TensorMemoryLayout
from tt_cnn.virtual.types.geometry import TILE_SIZE, CoreCoord, div_up
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

_INPUTS = (DataType.FLOAT32, DataType.BFLOAT16, DataType.BFLOAT8_B)
_WEIGHTS = (DataType.FLOAT32, DataType.BFLOAT16)
Config = LayerNormDefaultProgramConfig | LayerNormShardedMultiCoreProgramConfig


def check_norm(
    x: Spec, named: Mapping[str, Spec], config: MemoryConfig, program: Config, centered: bool, card: Card
) -> None:
    """`named`: weight, bias and residual where given; `config`: of the result; `program`: given or made from shards."""
    _check_input(x)
    if "residual" in named:
        _check_residual(x, named["residual"])
    for name in ("weight", "bias"):
        if name in named:
            _check_weights(x, named[name], {"weight": "Gamma", "bias": "Beta"}[name])
        if name == "weight" and {"weight", "bias"} <= named.keys():
            fatal(named["weight"].layout is named["bias"].layout, "Gamma and beta must have the same layout!")
    if x.is_sharded:
        _check_sharded(x, named.get("residual"), config)
        fatal(isinstance(program, LayerNormShardedMultiCoreProgramConfig), "std::get: wrong index for variant")
        check_shards(x, program.compute_with_storage_grid_size, card)  # type: ignore[union-attr]
    if program.use_welford:
        fatal(
            x.layout is Layout.TILE,
            "LayerNorm with use_welford=True requires TILE input; the SFPU two-pass kernels do not implement ROW_MAJOR "
            "input tilization.",
        )
        fatal(centered, "Welford's algorithm is not supported for RMSNorm")
    if isinstance(program, LayerNormShardedMultiCoreProgramConfig):
        fatal(x.is_sharded, "bad optional access")
        _check_blocks(x, config, program)


def _check_input(x: Spec) -> None:
    fatal(
        x.layout is Layout.TILE or not x.is_sharded,
        "Input tensor must have TILE layout (ROW_MAJOR is only supported for non-sharded tensors), got: "
        f"{x.layout.native}",
    )
    fatal(
        x.layout is Layout.TILE or _width(x) % TILE_SIZE == 0,
        f"ROW_MAJOR input requires W ({_width(x)}) to be a multiple of tile width ({TILE_SIZE})",
    )
    fatal(x.dtype in _INPUTS, f"Input tensor must be FLOAT32, BFLOAT16, or BFLOAT8_B, got: {x.dtype.native}")


def _check_residual(x: Spec, residual: Spec) -> None:
    fatal(residual.layout is Layout.TILE, f"Residual tensor must have TILE layout, got: {residual.layout.native}")
    fatal(
        x.shape == residual.shape and x.padded_shape == residual.padded_shape,
        f"Input and residual logical and padded shapes must match, got input: logical={x.shape} "
        f"padded={x.padded_shape} vs residual: logical={residual.shape} padded={residual.padded_shape}",
    )


def _check_weights(x: Spec, weights: Spec, name: str) -> None:
    low = name.lower()
    if weights.layout is Layout.TILE:
        own, other = (f"logical[-1]={_width(spec)} padded[-1]={spec.padded_shape[-1]}" for spec in (x, weights))
        done = {"Gamma": "multiplied", "Beta": "offset"}[name]
        fatal(
            weights.padded_shape[-1] == x.padded_shape[-1] and _width(weights) >= _width(x),
            f"Input and {low} padded widths must match and {low} logical width must be >= input logical width "
            f"(otherwise valid input columns would be {done} by {low} padding). Got input: {own} vs {low}: {other}",
        )
        fatal(
            weights.padded_shape[-2] == TILE_SIZE,
            f"{name} tensor height must equal tile height ({TILE_SIZE}), got: {weights.padded_shape[-2]}",
        )
        return
    aligned = weights.padded_shape[-1] == TILE_SIZE and weights.volume // TILE_SIZE == x.padded_shape[-1] // TILE_SIZE
    if name == "Gamma":
        fatal(
            aligned,
            "Gamma's last padded dim needs to equal tile width and gamma's volume needs to align with last padded dim "
            f"of input. Error with gamma.value().padded_shape(): {weights.padded_shape}, tile_width: {TILE_SIZE}, "
            f"gamma.value().physical_volume(): {weights.volume}, a.padded_shape(): {x.padded_shape}",
        )
    else:
        fatal(
            aligned,
            f"Beta tensor dimensions must align with input tensor. Got beta padded shape: {weights.padded_shape[-1]}, "
            f"physical volume: {weights.volume}, input padded shape: {x.padded_shape[-1]}, tile_width: {TILE_SIZE}",
        )
    fatal(weights.dtype in _WEIGHTS, f"{name} tensor must be FLOAT32 or BFLOAT16, got: {weights.dtype.native}")


def _check_sharded(x: Spec, residual: Spec | None, config: MemoryConfig) -> None:
    height = TensorMemoryLayout.HEIGHT_SHARDED
    fatal(x.memory_config.memory_layout is not height, "Height sharded inputs are not supported.")
    fatal(
        config.is_sharded() and config.memory_layout is not height,
        "Sharded inputs require sharded outputs.",
    )
    if residual is not None:
        fatal(residual.is_sharded, "residual tensor b should be sharded if input a is sharded")
        fatal(
            residual.memory_config.shard_spec == x.memory_config.shard_spec,
            "Both a and b should have the same shard spec",
        )
        fatal(residual.memory_config == x.memory_config, "Both a and b should have the same memory config")


def check_shards(x: Spec, grid: CoreCoord | tuple[int, int], card: Card, whole_tiles: bool = True) -> None:
    """`validate_sharded_input`: the program's cores, and shards that hold the tensor exactly."""
    given, box = CoreCoord(grid), x.shard.grid.bounding_box().grid_size()
    fatal(
        given.x <= card.grid[0] and given.y <= card.grid[1],
        f"program_config grid ({given.x}x{given.y}) must be contained within device grid "
        f"({card.grid[0]}x{card.grid[1]})",
    )
    fatal(
        box.x <= given.x and box.y <= given.y,
        f"shard_spec.grid size {box.x}x{box.y} does not fit within program_config grid {given.x}x{given.y}",
    )
    shape = x.shard.shape
    sides = (("height", shape[0]), ("width", shape[1])) if whole_tiles else (("height", shape[0]),)
    for side, size in sides:
        fatal(size % TILE_SIZE == 0, f"shard {side} {size} must be divisible by tile {side} {TILE_SIZE}")
    width = x.padded_shape[-1]
    height = x.volume // width
    cores, layout = x.shard.num_cores(), x.memory_config.memory_layout
    rows, columns = div_up(height, shape[0]), div_up(width, shape[1])
    if layout is TensorMemoryLayout.HEIGHT_SHARDED:
        rows, columns = cores, 1
    elif layout is TensorMemoryLayout.WIDTH_SHARDED:
        rows, columns = 1, cores
    fatal(
        rows * columns == cores,
        f"Shard layout requires {rows}x{columns} = {rows * columns} shards but shard grid has {cores} cores",
    )
    for side, count, one, size in (("height", rows, shape[0], height), ("width", columns, shape[1], width)):
        fatal(
            0 <= count * one - size < one,
            f"Shard-padded {side} ({count}x{one} = {count * one}) does not align with tensor {side} {size}: trailing "
            f"pad {(count * one - size) % 2**64} must be less than one shard {side} ({one})",
        )


def _check_blocks(x: Spec, config: MemoryConfig, program: LayerNormShardedMultiCoreProgramConfig) -> None:
    own = x.memory_config
    fatal(
        own.buffer_type is config.buffer_type,
        f"Input and output buffer types must match, got input: {own.buffer_type.native} vs output: "
        f"{config.buffer_type.native}",
    )
    fatal(
        own.memory_layout is config.memory_layout,
        f"Input and output memory layouts must match, got input: {own.memory_layout.native} vs output: "
        f"{config.memory_layout.native}",
    )
    fatal(program.block_w % program.subblock_w == 0, "block_w must be divisible by subblock_w.")
    columns = x.padded_shape[-1] // TILE_SIZE
    rows = x.volume // x.padded_shape[-1] // TILE_SIZE
    shard = x.shard
    if rows == program.block_h:
        most = div_up(columns, shard.num_cores())
        fatal(
            most == program.block_w,
            f"block_w ({program.block_w}) must equal to K (in tiles) / num_cores ({most})",
        )
    else:
        box = shard.grid.bounding_box().grid_size()
        across, down, names = (box.x, box.y, "cr") if shard.row_wise else (box.y, box.x, "rc")
        fatal(
            div_up(columns, across) == program.block_w,
            f"block_w ({program.block_w}) must equal to K (in tiles) / num_cores_{names[0]} "
            f"({div_up(columns, across)})",
        )
        fatal(
            div_up(rows, down) == program.block_h,
            f"block_h ({program.block_h}) must equal ceil(Mt / num_cores_{names[1]}) ({div_up(rows, down)}); "
            f"Mt={rows}, num_cores_{names[1]}={down}",
        )
    for name, side, blocks, size in (
        ("height", "HEIGHT", program.block_h, shard.shape[0]),
        ("width", "WIDTH", program.block_w, shard.shape[1]),
    ):
        index = 0 if name == "height" else 1
        fatal(
            blocks * TILE_SIZE == size,
            f"Block {name} * TILE_{side} must match shard shape[{index}], got {blocks * TILE_SIZE} vs {size}",
        )


def check_registers(settings: Any, subblock: int) -> None:
    """The destination registers hold a sub-block."""
    most = settings.registers
    mode = " in fp32 mode" if settings.fp32 else ""
    fatal(
        subblock <= most,
        f"subblock_wt={subblock}, but subblock width must less than {most} tiles{mode} when dst_full_sync_en is "
        f"{'true' if settings.full_sync else 'false'}",
    )


def _width(spec: Spec) -> int:
    return spec.shape[-1] if len(spec.shape) else 1
