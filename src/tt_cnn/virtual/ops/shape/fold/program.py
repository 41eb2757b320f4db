# SPDX-License-Identifier: Apache-2.0
"""The fold device operation: neighbourhoods of pixels packed into channels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.network import Way, in_l1_shards, transaction_cycles
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.layout.moving import PagesProgram
from tt_cnn.virtual.ops.layout.relayout import staging
from tt_cnn.virtual.ops.layout.time import PROCESSORS, moving_parts
from tt_cnn.virtual.ops.layout.work_split import split_blocks
from tt_cnn.virtual.ops.shape.programs import CoresAndBuffers, borrowed
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.planning.program import Step
from tt_cnn.virtual.types.enums import HEIGHT, DataType, Layout
from tt_cnn.virtual.types.geometry import (
    TILE_SIZE,
    CoreCoord,
    Shape,
    div_up,
    num_cores_to_corerangeset,
    round_up,
)
from tt_cnn.virtual.types.memory_config import ShardSpec
from tt_cnn.virtual.types.tensor_spec import Spec

TILES_IN_FLIGHT = 2
RESERVED = 160 * 1024
"""L1 that tiled folds leave for code and stack."""


@dataclass(frozen=True, kw_only=True)
class FoldProgram(PagesProgram):
    suffix: ClassVar[str] = ""
    op: str = "Fold"
    stride: tuple[int, int]
    collapse: bool

    def time(self, step: Step, figures: Figures) -> Cycles:
        """On cores with height shards a processor reads the pixels of a patch that follow each other at once."""
        source, output = step.inputs[0].spec, step.outputs[0].spec
        if not (on_cores(source) and in_l1_shards(output)):
            return super().time(step, figures)
        reads = output.shard_pages * self.stride[0]
        a_read = transaction_cycles(figures, Way.LOCAL, self.stride[1] * source.page_bytes)
        return moving_parts(reads / PROCESSORS * a_read + figures.local_latency_cycles, source)


def folded_dtype(dtype: DataType) -> DataType:
    return dtype if dtype in (DataType.FLOAT32, DataType.UINT16) else DataType.BFLOAT16


def folded_shape(shape: Shape, stride: tuple[int, int], collapse: bool) -> Shape:
    n, h, w, c = shape
    rows, columns, channels = h // stride[0], w // stride[1], c * stride[0] * stride[1]
    return Shape([1, 1, n * rows * columns, channels]) if collapse else Shape([n, rows, columns, channels])


def on_cores(spec: Spec) -> bool:
    """Height shards of rows in L1, which each core folds for itself."""
    config = spec.memory_config
    return config.memory_layout is HEIGHT and config.is_l1() and spec.layout is Layout.ROW_MAJOR


def tile_refusal(planner: Planner, spec: Spec, stride: tuple[int, int]) -> str | None:
    """Why tiles cannot be folded directly, or None."""
    if spec.layout is not Layout.TILE:
        return "non-TILE layout"
    if spec.is_sharded:
        return "sharded input"
    out = folded_dtype(spec.dtype)
    channels = spec.shape[-1] * out.element_bytes
    if channels % 16:
        return f"c_bytes={channels} (not 16B-aligned)"
    scratch = _row_of_patches(spec, stride)
    tiles = div_up(spec.padded_shape[-1], TILE_SIZE)
    buffers = (spec.dtype.tile_bytes + out.tile_bytes) * tiles * TILES_IN_FLIGHT
    budget = planner.card.l1_size - planner.card.l1_base
    if scratch + buffers + RESERVED >= budget:
        return f"scratch={scratch} B + CBs={buffers} B exceed L1 budget ({budget} B)"
    return None


def _row_of_patches(spec: Spec, stride: tuple[int, int]) -> int:
    patches = spec.shape[2] // stride[1]
    return patches * stride[0] * stride[1] * spec.shape[-1] * folded_dtype(spec.dtype).element_bytes


def plan_fold_device(planner: Planner, x: Slot, stride: tuple[int, int], collapse: bool = False) -> Slot:
    spec = x.spec
    fatal(
        stride[0] > 0 and stride[1] > 0,
        f"Fold: stride_h ({stride[0]}) and stride_w ({stride[1]}) must be > 0.",
    )
    patch = stride[0] * stride[1]
    config = spec.memory_config
    if config.shard_spec is not None:
        height, width = config.shard_spec.shape
        shard = ShardSpec(config.shard_spec.grid, [height // patch, width * patch], config.shard_spec.orientation)
        config = config.with_shard_spec(shard)
    shape = folded_shape(spec.shape, stride, collapse)
    output = planner.allocate(Spec(shape, folded_dtype(spec.dtype), Layout.ROW_MAJOR, config))
    _validate(planner, spec, stride)
    if on_cores(spec):
        factory, (cores, buffers) = "MultiCore", _shards(planner, x, output, stride)
    else:
        tiled = spec.layout is Layout.TILE
        factory = "MultiCoreDRAMFold"
        cores, buffers = _tiles(planner, spec, stride) if tiled else _rows(planner, spec, stride)
    program = FoldProgram(factory=factory, cores=cores, buffers=tuple(buffers), stride=stride, collapse=collapse)
    planner.dispatch(program, [x], [output])
    return output


def _validate(planner: Planner, spec: Spec, stride: tuple[int, int]) -> None:
    for name, extent, step in (("H", spec.shape[1], stride[0]), ("W", spec.shape[2], stride[1])):
        side = name.lower()
        fatal(extent % step == 0, f"Fold: logical {name} ({extent}) must be divisible by stride_{side} ({step}).")
    if spec.layout is Layout.TILE:
        reason = tile_refusal(planner, spec, stride)
        fatal(reason is None, f"Fold (TILE): tile-native gate refused: {reason}; untilize input to RM first.")
    patch = stride[0] * stride[1]
    if on_cores(spec):
        fatal(
            spec.shard.shape[0] % (spec.shape[2] * stride[0]) == 0,
            "Fold (fast path): shard height must be divisible by input width times stride_h.",
        )
    elif spec.is_sharded:
        fatal(
            spec.shard.shape[0] % patch == 0,
            f"Fold: sharded input shard height ({spec.shard.shape[0]}) must be divisible by patch_size ({patch}).",
        )


def _shards(planner: Planner, x: Slot, output: Slot, stride: tuple[int, int]) -> CoresAndBuffers:
    word = planner.card.l1_alignment
    pixels, width = x.spec.shard.shape
    cores = x.spec.shard.grid
    pixel = width * x.spec.dtype.element_bytes
    patch = stride[0] * stride[1]
    return cores, [
        borrowed(planner, "src0", round_up(pixel, word), pixels, cores, x, "input"),
        borrowed(planner, "dst0", round_up(patch * pixel, word), pixels // patch, cores, output, "output"),
    ]


def _rows(planner: Planner, spec: Spec, stride: tuple[int, int]) -> CoresAndBuffers:
    card = planner.card
    n, h, w, _ = spec.shape
    patch = stride[0] * stride[1]
    patches = n * h * w // patch
    used = div_up(patches, div_up(patches, card.cores))
    cores = num_cores_to_corerangeset(used, CoreCoord(*card.grid), row_wise=True)
    stick = spec.padded_shape[3] * spec.dtype.element_bytes
    aligned = round_up(stick, card.dram_alignment)
    buffers = [staging(2 * aligned * patch, cores, name="patches")]
    if stick != aligned:
        buffers.append(staging(stick * patch, cores, name="packed patch"))
    return cores, buffers


def _tiles(planner: Planner, spec: Spec, stride: tuple[int, int]) -> CoresAndBuffers:
    cores, _ = split_blocks(planner.card, spec.shape[0] * (spec.shape[1] // stride[0]), None, row_wise=True)
    tiles = div_up(spec.padded_shape[-1], TILE_SIZE) * TILES_IN_FLIGHT
    out = folded_dtype(spec.dtype)
    return cores, [
        staging(spec.dtype.tile_bytes * tiles, cores, name="input"),
        staging(out.tile_bytes * tiles, cores, name="rows"),
        staging(_row_of_patches(spec, stride), cores, name="patches"),
    ]
