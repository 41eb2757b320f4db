"""The convolution's own program: its output, its circular buffers, the table of window positions."""

from __future__ import annotations

from tt_cnn.virtual.errors.card_error import CardError, fatal
from tt_cnn.virtual.ops.conv2d.blocks import Blocks, Buffers, buffers_of
from tt_cnn.virtual.ops.conv2d.problem import Convolution, Request
from tt_cnn.virtual.ops.conv2d.weights import WeightLayout
from tt_cnn.virtual.ops.sliding_window.halo import table_in_dram, table_in_l1_small
from tt_cnn.virtual.ops.sliding_window.parallel import BLOCK, HEIGHT, WIDTH, ParallelConfig
from tt_cnn.virtual.ops.sliding_window.tables import reader_table
from tt_cnn.virtual.ops.sliding_window.window import SlidingWindow
from tt_cnn.virtual.planning.plan import CircularBuffer, Planner, Slot, Work
from tt_cnn.virtual.types.enums import Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, CoreRange, CoreRangeSet, Shape, round_up
from tt_cnn.virtual.types.memory_config import MemoryConfig, ShardSpec
from tt_cnn.virtual.types.tensor_spec import Spec

_SCRATCHPAD = 64


def plan_program(
    planner: Planner,
    source: Slot,
    weight: Slot,
    weight_layout: WeightLayout,
    bias: Slot | None,
    window: SlidingWindow,
    conv: Convolution,
    inputs: ParallelConfig,
    outputs: ParallelConfig,
    output_config: MemoryConfig,
    blocks: Blocks,
    request: Request,
) -> Slot:
    """Dispatch the convolution on the halo's output (or on width shards that need no halo)."""
    settings = request.settings
    depthwise = conv.is_depthwise_1d(bias is not None)
    row_major = settings.output_layout is Layout.ROW_MAJOR
    shape = Shape((1, 1, window.output_pixels, conv.out_channels))
    assert output_config.shard_spec is not None
    shard = output_config.shard_spec
    whole_tiles = ShardSpec(shard.grid, (blocks.out_h * TILE_SIZE, blocks.out_w * TILE_SIZE), shard.orientation)
    output_config = output_config.with_shard_spec(whole_tiles)
    spec = Spec(shape, request.dtype, settings.output_layout, output_config, (TILE_SIZE, TILE_SIZE))
    output = planner.allocate(spec)
    fatal(
        blocks.out_h >= blocks.act_h,
        f"Output block height (in # of tiles) ({blocks.out_h}) should be greater than or equal to activation block "
        f"height (in # of tiles) ({blocks.act_h})",
    )
    rows, columns = weight.spec.physical
    alone = inputs.cores_c == outputs.cores_c == 1 if inputs.layout is not HEIGHT else False
    buffers = buffers_of(
        planner.card.arch,
        inputs,
        blocks,
        conv.kernel,
        conv.dilation,
        rows,
        columns,
        source.spec.shard.shape[1],
        source.spec.dtype,
        weight.spec.dtype,
        request.dtype,
        window.output_hw[1],
        bias is not None,
        request.compute,
        settings,
        depthwise and inputs.layout is not WIDTH,
        alone,
    )
    if depthwise and inputs.layout is WIDTH and blocks.act_w != blocks.act_h:
        _refuse_depthwise_width(buffers, blocks)
    if settings.enable_activation_reuse and inputs.layout is not WIDTH:
        _check_reuse(inputs, conv, buffers.splits_reader)
    if inputs.layout is WIDTH:
        _check_width(window, source.spec, inputs, outputs, blocks, rows, columns)
    first = blocks.act_h * TILE_SIZE
    second = 0
    if buffers.splits_reader:
        second = blocks.act_h // 2 * TILE_SIZE
        first -= second
    table_bytes = reader_table(window, inputs.cores_nhw, True, first, second)
    room = 2 * TILE_SIZE * blocks.out_h
    fatal(
        table_bytes <= room,
        f"Reader indices buffer page size {table_bytes} exceeds worst-case CB size {room} (config tensor layout "
        "changed?)",
    )
    cores = _cores(inputs, outputs)
    if settings.config_tensors_in_dram:
        table = table_in_dram(planner, table_bytes, inputs.cores_nhw)
        indices = CircularBuffer(table_bytes, cores)
    else:
        table = table_in_l1_small(planner, table_bytes, inputs.grid)
        indices = CircularBuffer(table_bytes, cores, table)
    if inputs.layout is WIDTH:
        _check_row_wise(cores, planner.card.grid)
    planner.step(
        "Conv2d",
        "Conv2dWidthShardedProgramFactory" if inputs.layout is WIDTH else "Conv2dShardedProgramFactory",
        cores,
        [source, weight] + ([bias] if bias else []),
        [output],
        _circular_buffers(buffers, cores, source, output, indices),
        attributes={
            "window": window,
            "channels": (conv.in_channels, conv.out_channels, conv.groups),
            "blocks": blocks,
            "compute": request.compute,
            "activation": settings.activation,
            "double_buffers": (settings.enable_act_double_buffer, settings.enable_weights_double_buffer),
            "options": (settings.full_inner_dim, settings.enable_activation_reuse, settings.config_tensors_in_dram),
            "split_reader": settings.force_split_reader,
            "row_major": row_major,
            "arch": planner.card.arch,
            "weights": weight_layout,
        },
        work=_work(source.spec, weight.spec, output.spec, window, conv),
        configs=[table],
    )
    return output


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


def _cores(inputs: ParallelConfig, outputs: ParallelConfig) -> CoreRangeSet:
    if inputs.layout is HEIGHT:
        return CoreRangeSet([CoreRange((0, 0), outputs.grid.bounding_box().end)])
    if inputs.layout is BLOCK:
        a, b = inputs.grid.bounding_box(), outputs.grid.bounding_box()
        if a.start == b.start and a.end == b.end:
            return inputs.grid
        return inputs.grid.merge(outputs.grid)
    larger = inputs.grid if inputs.grid.num_cores() > outputs.grid.num_cores() else outputs.grid
    return CoreRangeSet([larger.bounding_box()])


def _check_row_wise(cores: CoreRangeSet, grid: tuple[int, int]) -> None:
    """Width shards: the library counts the cores along the card's rows, wherever they are."""
    box = cores.bounding_box()
    fatal(
        box.start == (0, 0) and (box.start.y == box.end.y or box.end.x == grid[0] - 1),
        "Multicast runtime arguments target an unplaced core",
    )


def _circular_buffers(
    buffers: Buffers, cores: CoreRangeSet, source: Slot, output: Slot, indices: CircularBuffer
) -> list[CircularBuffer]:
    def own(size: int) -> CircularBuffer:
        return CircularBuffer(size, cores)

    partials = CircularBuffer(buffers.partials, cores, output if buffers.partials_in_output else None)
    made = [
        own(buffers.weights),
        partials,
        own(buffers.activations),
        own(buffers.second_activations),
        own(buffers.tilized),
        own(buffers.bias),
        own(buffers.row_major),
        CircularBuffer(buffers.output, cores, output),
        indices,
        own(_SCRATCHPAD),
        CircularBuffer(source.spec.shard_pages * source.spec.page_bytes, cores, source),
    ]
    return [buffer for buffer in made if buffer.bytes]


def _check_width(
    window: SlidingWindow,
    source: Spec,
    inputs: ParallelConfig,
    outputs: ParallelConfig,
    blocks: Blocks,
    weight_rows: int,
    weight_columns: int,
) -> None:
    """The checks of conv2d_op_width_sharded_program_factory.cpp."""
    cores = inputs.grid.num_cores()
    channels = source.shard.shape[1] * cores
    height, width = window.window
    inner = round_up(channels * width, TILE_SIZE) * height
    fatal(inner == weight_rows, "The width of tensor a needs to match the height of tensor b")
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


def _work(source: Spec, weight: Spec, output: Spec, window: SlidingWindow, conv: Convolution) -> Work:
    taps = window.window[0] * window.window[1] * conv.in_channels
    weights = weight.num_pages * weight.page_bytes
    activations = window.output_pixels * window.window[0] * window.window[1] * source.physical[1] * 2
    return Work(
        macs=window.output_pixels * taps * conv.out_channels,
        dram_read=weights,
        l1_read=activations,
        l1_write=output.num_pages * output.page_bytes,
        noc=weights + activations,
        transaction=source.page_bytes * (window.window[1] if window.dilation[1] == 1 else 1),
    )
