# SPDX-License-Identifier: Apache-2.0
"""What untilize_with_unpadding asks of shards, by how they are cut."""

from __future__ import annotations

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.layout.relayout import extent
from tt_cnn.virtual.types.enums import BLOCK, HEIGHT, WIDTH
from tt_cnn.virtual.types.geometry import div_up
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec


def validate_shards(spec: Spec, config: MemoryConfig, out: Spec) -> None:
    {BLOCK: _blocks, HEIGHT: _heights, WIDTH: _widths}[spec.memory_config.memory_layout](spec, config, out)


def _unbatched(spec: Spec) -> bool:
    padded = spec.padded_shape
    return not spec.shape.volume() or spec.volume // (extent(padded, 2) * extent(padded, 1)) == 1


def _in_l1(config: MemoryConfig) -> None:
    name = config.memory_layout.name
    fatal(config.is_l1(), f"{name} -> {name} output must be in L1; got buffer_type={config.buffer_type.native}")


def _blocks(spec: Spec, config: MemoryConfig, out: Spec) -> None:
    ranges = spec.shard.grid.size()
    fatal(ranges == 1, f"Expected single grid range and got {ranges}")
    to = config.memory_layout
    if not config.is_sharded():
        fatal(_unbatched(spec), "Can only write unbatched output interleaved")
        return
    fatal(
        to in (BLOCK, WIDTH),
        f"Output memory config layout ({to.native}) must be BLOCK_SHARDED (or WIDTH_SHARDED with a matching column "
        "shard width) when input is BLOCK_SHARDED and output is sharded",
    )
    if to is BLOCK:
        _in_l1(config)
        fatal(_unbatched(spec), "Can only write unbatched output for BLOCK_SHARDED -> BLOCK_SHARDED")
    else:
        _crossing(spec, config, out)


def _heights(spec: Spec, config: MemoryConfig, out: Spec) -> None:
    if config.is_sharded():
        fatal(
            config.memory_layout is HEIGHT,
            "Output memory config layout must be HEIGHT_SHARDED when output is sharded but got "
            f"{config.memory_layout.native}",
        )
        _in_l1(config)
        return
    width, padded = spec.shard.shape[1], extent(spec.padded_shape, 1)
    fatal(
        width == padded,
        f"Height-sharded untilize to interleaved output requires the shard width ({width}) to equal the padded tensor "
        f"width ({padded})",
    )


def _widths(spec: Spec, config: MemoryConfig, out: Spec) -> None:
    for i, (have, want) in enumerate(zip(tuple(spec.padded_shape)[:-2], tuple(out.padded_shape)[:-2], strict=False)):
        fatal(have == want, f"Input tensor padded shape[{i}] ({have}) must equal output shape[{i}] ({want})")
    to = config.memory_layout
    padded, width, shard = extent(spec.padded_shape, 1), extent(out.padded_shape, 1), spec.shard
    if not config.is_sharded():
        fatal(_unbatched(spec), "Can only write unbatched output interleaved")
        fatal(
            padded - width < shard.shape[1],
            f"Input tensor width difference ({padded - width}) must be less than shard width ({shard.shape[1]})",
        )
        return
    fatal(
        to in (WIDTH, BLOCK),
        f"Output memory config layout ({to.native}) must match input tensor memory layout "
        f"({spec.memory_config.memory_layout.native}) (or be BLOCK_SHARDED with a matching column shard width)",
    )
    if to is BLOCK:
        _crossing(spec, config, out)
        return
    _in_l1(config)
    fatal(
        padded == width or div_up(width, shard.shape[1]) == shard.num_cores(),
        f"Input tensor width ({padded}) must equal output width ({width}) or output width / shard width must equal num "
        "cores",
    )


def _crossing(spec: Spec, config: MemoryConfig, out: Spec) -> None:
    """Width shards to blocks and back, where columns of shards stay as they are."""
    way = f"{spec.memory_config.memory_layout.name} -> {config.memory_layout.name}"
    shard = config.shard_spec
    fatal(shard is not None, "Output memory config is sharded but no shard spec is provided")
    assert shard is not None
    mine, its = spec.shard.shape[1], shard.shape[1]
    fatal(mine == its, f"{way} requires matching column shard width; got input={mine} output={its}")
    width = extent(out.padded_shape, 1)
    have, want = _columns(spec), div_up(width, its)
    fatal(
        have == want,
        f"{way} requires the output to effectively span the same number of column shards as the input ({have}), got "
        f"{want} (output width {width} / shard width {its}); width-unpadding that reduces the column-shard count is "
        "not yet supported",
    )
    fatal(_unbatched(spec), f"Can only write unbatched output for {way}")


def _columns(spec: Spec) -> int:
    shard = spec.shard
    if spec.memory_config.memory_layout is WIDTH:
        return shard.num_cores()
    size = shard.grid.bounding_box().grid_size()
    return size.x if shard.row_wise else size.y
