# SPDX-License-Identifier: Apache-2.0
"""The convolution's own step: its output, its program with the checks of its factory, the table of window positions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.errors.card_error import CardError, fatal
from tt_cnn.virtual.ops.conv2d.blocks import Blocks, CoreWork, Formats
from tt_cnn.virtual.ops.conv2d.buffers import Buffers, buffers_of
from tt_cnn.virtual.ops.conv2d.parameters import Parameters
from tt_cnn.virtual.ops.conv2d.problem import Convolution, Request
from tt_cnn.virtual.ops.conv2d.program import ConvProgram, CoreRoles
from tt_cnn.virtual.ops.conv2d.time import block_sharded_cycles, height_sharded_cycles, width_sharded_cycles
from tt_cnn.virtual.ops.eltwise.activations import check_given
from tt_cnn.virtual.ops.sliding_window.halo import table_in_dram, table_in_l1_small
from tt_cnn.virtual.ops.sliding_window.parallel import BLOCK, HEIGHT, WIDTH, ParallelConfig
from tt_cnn.virtual.ops.sliding_window.tables import reader_table
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.planning.program import Step
from tt_cnn.virtual.types.enums import Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, CoreRange, CoreRangeSet, Shape, round_up
from tt_cnn.virtual.types.memory_config import MemoryConfig, ShardSpec
from tt_cnn.virtual.types.tensor_spec import Spec


@dataclass(frozen=True, kw_only=True)
class HeightShardedConvProgram(ConvProgram):
    """Each core has whole windows; one core fetches the weights and sends them to all."""

    def time(self, step: Step, figures: Figures) -> Cycles:
        return height_sharded_cycles(self, step, figures)


@dataclass(frozen=True, kw_only=True)
class BlockShardedConvProgram(ConvProgram):
    """Cores of a row share windows by channels: each tilizes its own part and sends it to all in turn."""

    def time(self, step: Step, figures: Figures) -> Cycles:
        return block_sharded_cycles(self, step, figures)


@dataclass(frozen=True, kw_only=True)
class WidthShardedConvProgram(ConvProgram):
    """Each core has some channels of all windows, sends them to all, and reads its own columns of the weights."""

    factory: str = "Conv2dWidthShardedProgramFactory"

    def time(self, step: Step, figures: Figures) -> Cycles:
        return width_sharded_cycles(self, step, figures)


_PROGRAMS: dict[object, type[ConvProgram]] = {
    HEIGHT: HeightShardedConvProgram,
    BLOCK: BlockShardedConvProgram,
    WIDTH: WidthShardedConvProgram,
}


class Arranged(NamedTuple):
    """A convolution whose input and output have their cores and blocks; `request` has the settings in effect."""

    conv: Convolution
    request: Request
    inputs: ParallelConfig
    outputs: ParallelConfig
    output_config: MemoryConfig
    blocks: Blocks


def plan_program(planner: Planner, source: Slot, parameters: Parameters, arranged: Arranged) -> Slot:
    """Dispatch the convolution on the halo's output (or on width shards that need no halo)."""
    conv, request, blocks = arranged.conv, arranged.request, arranged.blocks
    inputs, settings, window = arranged.inputs, request.settings, conv.window
    weight, bias = parameters.weight, parameters.bias
    assert weight is not None and parameters.layout is not None
    output = planner.allocate(_output_spec(arranged))
    fatal(
        blocks.out_h >= blocks.act_h,
        f"Output block height (in # of tiles) ({blocks.out_h}) should be greater than or equal to activation block "
        f"height (in # of tiles) ({blocks.act_h})",
    )
    rows, columns = weight.spec.physical
    buffers = buffers_of(_core_work(planner, source.spec, weight.spec, bias is not None, arranged))
    _check(source.spec, weight.spec, bias is not None, buffers, arranged)
    table_bytes = _table_bytes(arranged, buffers.splits_reader)
    cores = _cores(inputs, arranged.outputs)
    if settings.config_tensors_in_dram:
        table, in_place = table_in_dram(planner, table_bytes, inputs.cores_nhw), None
    else:
        table = in_place = table_in_l1_small(planner, table_bytes, inputs.grid)
    if inputs.layout is WIDTH:
        _check_row_wise(cores, planner.card.grid)
    column_blocks = max(1, columns // TILE_SIZE // blocks.out_w)
    check_given([] if settings.activation is None else [settings.activation])
    program = _PROGRAMS[inputs.layout](
        cores=cores,
        buffers=buffers.placed(cores, source, output, table_bytes, in_place),
        window=window,
        in_channels=conv.in_channels,
        out_channels=conv.out_channels,
        groups=conv.groups,
        blocks=blocks,
        inner_blocks=max(1, rows // TILE_SIZE // blocks.act_w),
        roles=_roles(inputs, cores.num_cores(), column_blocks),
        compute=request.compute,
        activation=settings.activation,
        has_bias=bias is not None,
        partials=buffers.partial_dtype,
        splits_reader=buffers.splits_reader,
        forced_split_reader=settings.force_split_reader,
        double_activations=settings.enable_act_double_buffer,
        double_weights=settings.enable_weights_double_buffer,
        full_inner=settings.full_inner_dim,
        reuses_activations=settings.enable_activation_reuse,
        tables_in_dram=settings.config_tensors_in_dram,
        row_major=settings.output_layout is Layout.ROW_MAJOR,
        weights=parameters.layout,
    )
    planner.dispatch(program, [source, weight] + ([bias] if bias else []), [output], configs=[table])
    return output


def _output_spec(arranged: Arranged) -> Spec:
    conv, request, blocks = arranged.conv, arranged.request, arranged.blocks
    shard = arranged.output_config.shard_spec
    assert shard is not None
    whole_tiles = ShardSpec(shard.grid, (blocks.out_h * TILE_SIZE, blocks.out_w * TILE_SIZE), shard.orientation)
    config = arranged.output_config.with_shard_spec(whole_tiles)
    shape = Shape((1, 1, conv.output_pixels, conv.out_channels))
    return Spec(shape, request.dtype, request.settings.output_layout, config, (TILE_SIZE, TILE_SIZE))


def _core_work(planner: Planner, source: Spec, weight: Spec, bias: bool, arranged: Arranged) -> CoreWork:
    conv, request, inputs = arranged.conv, arranged.request, arranged.inputs
    return CoreWork(
        arch=planner.card.arch,
        layout=inputs.layout,
        blocks=arranged.blocks,
        kernel=conv.kernel,
        dilation=conv.dilation,
        output_width=conv.output_hw[1],
        channels=source.shard.shape[1],
        matrix=weight.physical,
        formats=Formats(source.dtype, weight.dtype, request.dtype),
        bias=bias,
        compute=request.compute,
        settings=request.settings,
        depthwise_1d=inputs.layout is not WIDTH and conv.is_depthwise_1d(bias),
        no_multicast=inputs.layout is not HEIGHT and inputs.cores_c == arranged.outputs.cores_c == 1,
    )


def _table_bytes(arranged: Arranged, splits_reader: bool) -> int:
    """Of the table of window positions."""
    blocks = arranged.blocks
    second = blocks.act_h // 2 * TILE_SIZE if splits_reader else 0
    first = blocks.act_h * TILE_SIZE - second
    size = reader_table(arranged.conv.window, arranged.inputs.cores_nhw, True, first, second)
    room = 2 * TILE_SIZE * blocks.out_h
    fatal(
        size <= room,
        f"Reader indices buffer page size {size} exceeds worst-case CB size {room} (config tensor layout changed?)",
    )
    return size


def _cores(inputs: ParallelConfig, outputs: ParallelConfig) -> CoreRangeSet:
    if inputs.layout is HEIGHT:
        return CoreRangeSet([CoreRange((0, 0), outputs.grid.bounding_box().end)])
    if inputs.layout is BLOCK:
        a, b = inputs.grid.bounding_box(), outputs.grid.bounding_box()
        if inputs.grid.size() == outputs.grid.size() == 1 and (a.contains(b) or b.contains(a)):
            return inputs.grid if a.contains(b) else outputs.grid
        return inputs.grid.merge(outputs.grid)
    larger = inputs.grid if inputs.grid.num_cores() > outputs.grid.num_cores() else outputs.grid
    return CoreRangeSet([larger.bounding_box()])


def _roles(inputs: ParallelConfig, cores: int, column_blocks: int) -> CoreRoles:
    """`column_blocks`: parts of the weights' columns, each of them read by cores of its own."""
    if inputs.layout is HEIGHT:
        return CoreRoles(0, 0, 1, cores - 1)
    senders = inputs.cores_c
    if inputs.layout is BLOCK:
        receivers = max(column_blocks, senders) - 1 if senders > 1 else column_blocks - 1
        return CoreRoles(senders, receivers, column_blocks, inputs.cores_nhw - 1)
    return CoreRoles(senders, cores - 1, column_blocks, 0)


def _check(source: Spec, weight: Spec, bias: bool, buffers: Buffers, arranged: Arranged) -> None:
    conv, inputs, blocks = arranged.conv, arranged.inputs, arranged.blocks
    if inputs.layout is not WIDTH:
        if arranged.request.settings.enable_activation_reuse:
            _check_reuse(inputs, conv, buffers.splits_reader)
        return
    if conv.is_depthwise_1d(bias) and blocks.act_w != blocks.act_h:
        _refuse_depthwise_width(buffers, blocks)
    _check_width(source, weight, arranged)


def _refuse_depthwise_width(buffers: Buffers, blocks: Blocks) -> None:
    """The library checks width shards against the buffers of a depthwise convolution, which they do not have."""
    expected = buffers.own - buffers.weights + buffers.weights // blocks.act_w * blocks.act_h
    raise CardError(f"Calculated CB size {expected} does not match with the actual CB size {buffers.own}")


def _check_reuse(inputs: ParallelConfig, conv: Convolution, splits_reader: bool) -> None:
    name = "Activation data reuse"
    fatal(inputs.layout is not BLOCK, f"{name} is not supported for block sharded")
    fatal(conv.dilation == (1, 1), f"{name} is not supported for dilation > 1")
    fatal(conv.stride == (1, 1), f"{name} is not supported for stride > 1")
    fatal(splits_reader, f"{name} requires split reader to be on")


def _check_width(source: Spec, weight: Spec, arranged: Arranged) -> None:
    """The checks of conv2d_op_width_sharded_program_factory.cpp."""
    window, blocks, cores = arranged.conv.window, arranged.blocks, arranged.inputs.cores_c
    channels = source.shard.shape[1] * cores
    height, width = window.window
    inner = round_up(channels * width, TILE_SIZE) * height
    fatal(inner == weight.physical[0], "The width of tensor a needs to match the height of tensor b")
    rows = round_up(window.output_pixels, blocks.out_h * TILE_SIZE) // TILE_SIZE
    fatal(
        rows % blocks.act_h == 0,
        f"act_matrix_height_ntiles {rows} should be divisible by act_block_h_ntiles {blocks.act_h}",
    )
    columns = inner // TILE_SIZE
    fatal(
        columns % blocks.act_w == 0,
        f"act_matrix_width_ntiles {columns} should be divisible by act_block_w_ntiles {blocks.act_w}",
    )
    steps = columns // blocks.act_w
    fatal(
        steps % cores == 0,
        f"Number of Act Blocks along the Width {steps} should be divisible by the number of cores {cores}",
    )


def _check_row_wise(cores: CoreRangeSet, grid: tuple[int, int]) -> None:
    """Width shards: the library counts the cores along the card's rows, wherever they are."""
    box = cores.bounding_box()
    fatal(
        box.start == (0, 0) and (box.start.y == box.end.y or box.end.x == grid[0] - 1),
        "Multicast runtime arguments target an unplaced core",
    )
