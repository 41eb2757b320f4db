# SPDX-License-Identifier: Apache-2.0
"""What upsampling is asked to do, which program does it, and what it refuses (upsample_common.cpp)."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from math import floor

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.sliding_window.parallel import BLOCK, HEIGHT, WIDTH, ParallelConfig
from tt_cnn.virtual.types.compute_config import WormholeComputeKernelConfig
from tt_cnn.virtual.types.enums import DataType, Layout, TensorMemoryLayout
from tt_cnn.virtual.types.geometry import Shape, div_up
from tt_cnn.virtual.types.memory_config import MemoryConfig, ShardSpec
from tt_cnn.virtual.types.tensor_spec import Spec


@dataclass(frozen=True)
class Upsampling:
    scale_h: float
    scale_w: float
    mode: str
    memory_config: MemoryConfig | None = None
    compute: WormholeComputeKernelConfig | None = None

    @property
    def is_whole(self) -> bool:
        return self.scale_h == floor(self.scale_h) and self.scale_w == floor(self.scale_w)

    @property
    def whole(self) -> tuple[int, int]:
        return int(self.scale_h), int(self.scale_w)

    def output_shape(self, n: int, h: int, w: int, c: int) -> Shape:
        return Shape((n, floor(h * self.scale_h), floor(w * self.scale_w), c))


class Path(enum.Enum):
    WHOLE_INTERLEAVED = "UpsampleMultiCoreInterleavedProgramFactory"
    WHOLE_SHARDED = "UpsampleMultiCoreShardedProgramFactory"
    FRACTIONAL = "UpsampleNearestFloatProgramFactory"


def check_request(ups: Upsampling) -> None:
    """Checks of the device operation, which come after its output is allocated."""
    fatal(ups.scale_h > 0, f"scale_factor_h must be positive, got {ups.scale_h:g}")
    fatal(ups.scale_w > 0, f"scale_factor_w must be positive, got {ups.scale_w:g}")
    fatal(ups.mode in ("nearest", "bilinear"), "mode must be 'nearest' or 'bilinear'")


def check_whole(ups: Upsampling) -> None:
    fatal(
        ups.is_whole,
        f"bilinear mode requires integer scale factors, got ({ups.scale_h:g}, {ups.scale_w:g})",
    )


def nearest_path(spec: Spec, ups: Upsampling) -> Path | None:
    """The program for nearest upsampling, or none (`select_upsample_path`)."""
    config = spec.memory_config
    if ups.is_whole:
        if config.memory_layout is TensorMemoryLayout.INTERLEAVED:
            return Path.WHOLE_INTERLEAVED
        if spec.layout is Layout.ROW_MAJOR and config.memory_layout in (HEIGHT, BLOCK):
            return Path.WHOLE_SHARDED
    return Path.FRACTIONAL if spec.layout is Layout.ROW_MAJOR else None


def unsupported(spec: Spec, ups: Upsampling) -> str:
    return (
        f"Unsupported upsample configuration:\n  Mode: {ups.mode}\n  Scales: {ups.scale_h:f} x {ups.scale_w:f}\n"
        f"  Layout: {spec.layout.name}\n  Memory: {spec.memory_config.memory_layout.name}\n\n"
        "Supported configurations:\n"
        "  - Integer scales + nearest + ROW_MAJOR + (INTERLEAVED|HEIGHT_SHARDED|BLOCK_SHARDED)\n"
        "  - Integer scales + nearest + TILE + INTERLEAVED\n"
        "  - Float scales + nearest + ROW_MAJOR + any memory layout\n"
        "  - Integer scales + bilinear + HEIGHT_SHARDED or INTERLEAVED)"
    )


def output_spec(spec: Spec, ups: Upsampling, path: Path | None) -> Spec:
    """The output of nearest upsampling: row-major always, with more rows a shard."""
    n, h, w, c = (spec.shape[i] for i in range(4))
    shape = ups.output_shape(n, h, w, c)
    dtype = DataType.BFLOAT16 if spec.dtype is DataType.BFLOAT8_B else spec.dtype
    config = ups.memory_config or spec.memory_config
    if config.is_sharded():
        fatal(spec.is_sharded, "Output memory config is sharded but input memory config is not sharded")
        config = _more_rows(spec, ups, config, path, shape)
    return Spec(shape, dtype, Layout.ROW_MAJOR, config)


def _more_rows(spec: Spec, ups: Upsampling, config: MemoryConfig, path: Path | None, shape: Shape) -> MemoryConfig:
    height, width = spec.shard.shape
    if path is Path.WHOLE_SHARDED:
        fatal(config.shard_spec is not None, "bad optional access")
        assert config.shard_spec is not None
        rows = int(height * ups.scale_h * ups.scale_w)
        return config.with_shard_spec(ShardSpec(config.shard_spec.grid, (rows, width), config.shard_spec.orientation))
    source = spec.memory_config
    rows = div_up(shape[0] * shape[1] * shape[2], _cores_nhw(spec))
    fatal(rows > 0, "Shard shape must have non zero volume!")
    return source.with_shard_spec(ShardSpec(spec.shard.grid, (rows, width), spec.shard.orientation))


def _cores_nhw(spec: Spec) -> int:
    return 1 if spec.memory_config.memory_layout is WIDTH else ParallelConfig.of(spec.memory_config).cores_nhw
