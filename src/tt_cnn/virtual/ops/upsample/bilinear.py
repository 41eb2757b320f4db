# SPDX-License-Identifier: Apache-2.0
"""Bilinear upsampling: height shards with a halo of neighbours, four of them mixed for each output pixel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.layout.to_memory_config import plan_to_memory_config
from tt_cnn.virtual.ops.shape.reshape.reshape import plan_reshape
from tt_cnn.virtual.ops.sliding_window.halo import compute_key, halo_spec, plan_halo
from tt_cnn.virtual.ops.sliding_window.parallel import HEIGHT, row_wise_grid
from tt_cnn.virtual.ops.sliding_window.window import SlidingWindow
from tt_cnn.virtual.ops.upsample.problem import Upsampling, check_request, check_whole
from tt_cnn.virtual.ops.upsample.time import bilinear_cycles
from tt_cnn.virtual.planning.plan import CircularBuffer, Planner, Slot
from tt_cnn.virtual.planning.program import Program, Step
from tt_cnn.virtual.types.enums import BufferType, DataType, Layout, MathFidelity, ShardOrientation
from tt_cnn.virtual.types.geometry import TILE_SIZE, Shape, div_up, round_up
from tt_cnn.virtual.types.memory_config import MemoryConfig, ShardSpec
from tt_cnn.virtual.types.tensor_spec import Spec

_NEIGHBOURS = 4
_BUFFERED = 2
_REDUCED_AT_ONCE = 8
"""Tiles of channels that one reduction takes."""


@dataclass(frozen=True, kw_only=True)
class BilinearProgram(Program):
    suffix: ClassVar[str] = "Operation"
    op: str = "Upsample"
    factory: str = "UpsampleBilinearProgramFactory"
    upsampling: Upsampling
    window: SlidingWindow

    @property
    def mixes_at(self) -> MathFidelity:
        compute = self.upsampling.compute
        return MathFidelity.HiFi4 if compute is None else compute.math_fidelity

    def time(self, step: Step, figures: Figures) -> Cycles:
        return bilinear_cycles(_NEIGHBOURS, step, figures)


def bilinear_window(spec: Spec, ups: Upsampling) -> SlidingWindow:
    n, h, w, _ = spec.padded_shape
    return SlidingWindow(n, (h, w), (2, 2), (1, 1), (1, 1, 1, 1), scale=ups.whole)


def plan_bilinear(planner: Planner, source: Slot, ups: Upsampling) -> Slot:
    spec = source.spec
    fatal(0 not in spec.shape, f"bilinear upsampling of an image without pixels: its shape is {spec.shape}")
    target = ups.memory_config or spec.memory_config
    held = source
    if not spec.is_sharded:
        target = _height_shards(spec, planner.card.grid)
        held = plan_to_memory_config(planner, source, target, None)
    window = bilinear_window(held.spec, ups)
    n, h, w, c = held.spec.shape
    flat = plan_reshape(planner, held, Shape((1, 1, n * h * w, c)))
    fatal(min(ups.whole) > 0, "bilinear upsampling needs scale factors of at least 1", "  TT-NN ends the process here")
    if held.spec.memory_config.memory_layout is not HEIGHT:
        halo_spec(flat.spec, window, held.spec.shard.num_cores(), False)  # the library counts every core for rows
    halo = plan_halo(planner, flat, window, snap_to_tile=False, compute=compute_key(ups.compute))
    output = _plan_program(planner, halo, ups, window, c, target)
    result = output
    if ups.memory_config is not None and output.spec.memory_config != ups.memory_config:
        fatal(
            not ups.memory_config.is_sharded() or ups.memory_config.shard_spec is not None,
            "MemoryConfig must have Shard Spec specified for sharded memory layout",
        )
        result = plan_to_memory_config(planner, output, ups.memory_config, None)
        if result.buffer != output.buffer:
            planner.free(output)
    planner.free(halo)
    if held.buffer != source.buffer:
        planner.free(held)
    return result


def _height_shards(spec: Spec, grid: tuple[int, int]) -> MemoryConfig:
    sticks = spec.shape[0] * spec.shape[1] * spec.shape[2]
    cores = min(grid[0] * grid[1], sticks)
    shard = ShardSpec(row_wise_grid(cores, grid), (div_up(sticks, cores), spec.shape[3]), ShardOrientation.ROW_MAJOR)
    return MemoryConfig(HEIGHT, BufferType.L1, shard)


def _plan_program(
    planner: Planner, halo: Slot, ups: Upsampling, window: SlidingWindow, channels: int, target: MemoryConfig
) -> Slot:
    spec = halo.spec
    shape = ups.output_shape(window.batch, *window.input_hw, channels)
    output = planner.allocate(_output_spec(spec, shape, target))
    check_request(ups)
    check_whole(ups)
    fatal(spec.dtype is DataType.BFLOAT16, "Bilinear upsample requires BFLOAT16 input")
    fatal(
        spec.memory_config.memory_layout is HEIGHT,
        "Bilinear upsample requires HEIGHT_SHARDED input tensor",
    )
    fatal(channels % TILE_SIZE == 0, "input channels should be divisible by 32")
    stick = channels * spec.dtype.element_bytes
    fatal(
        stick == output.spec.padded_shape[3] * output.spec.dtype.element_bytes,
        "Input and output sticks should have same size",
    )
    fatal(output.spec.is_sharded, "bad optional access")
    fatal(
        ups.compute is None or not ups.compute.fp32_dest_acc_en,
        "fp32_dest_acc_en as true not supported for upsample bilinear",
    )
    cores = spec.shard.grid
    neighbours = _NEIGHBOURS * _BUFFERED
    part = min(_REDUCED_AT_ONCE * TILE_SIZE * spec.dtype.element_bytes, stick)
    weights = _BUFFERED * spec.dtype.tile_bytes
    buffers = (
        CircularBuffer(spec.shard.shape[0] * stick, cores, halo, name="input"),
        CircularBuffer(neighbours * part, cores, name="first neighbours"),
        CircularBuffer(neighbours * stick, cores, name="second neighbours"),
        CircularBuffer(weights, cores, name="first weights"),
        CircularBuffer(weights, cores, name="second weights"),
        CircularBuffer(output.spec.shard.shape[0] * stick, cores, output, name="output"),
    )
    program = BilinearProgram(cores=cores, buffers=buffers, upsampling=ups, window=window)
    planner.dispatch(program, [halo], [output])
    return output


def _output_spec(halo: Spec, shape: Shape, target: MemoryConfig) -> Spec:
    if target.is_sharded():
        fatal(target.shard_spec is not None, "bad optional access")
        assert target.shard_spec is not None
        cores = target.shard_spec.num_cores()
        rows = round_up(shape[0] * shape[1] * shape[2], cores) // cores
        shard = ShardSpec(target.shard_spec.grid, (rows, halo.shard.shape[1]), target.shard_spec.orientation)
        target = target.with_shard_spec(shard)
    return Spec(shape, halo.dtype, Layout.ROW_MAJOR, target)
