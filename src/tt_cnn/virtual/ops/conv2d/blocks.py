"""How a core works through its part of a convolution, and the circular buffers that this needs.

The rules are those of `determine_per_core_conv_block_config` (conv2d_utils.cpp) and `get_cb_info`
(conv2d_op_program_factory_common.cpp).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.conv2d.config import Settings
from tt_cnn.virtual.ops.conv2d.split_reader import splits_reader
from tt_cnn.virtual.ops.sliding_window.halo import ComputeKey
from tt_cnn.virtual.ops.sliding_window.parallel import BLOCK, HEIGHT, WIDTH, ParallelConfig, largest_divisor
from tt_cnn.virtual.types.enums import Arch, DataType, Layout, MathFidelity
from tt_cnn.virtual.types.geometry import TILE_SIZE, div_up, round_up
from tt_cnn.virtual.types.memory_config import MemoryConfig

_SCRATCHPAD = 64
# fmt: off
_SUBBLOCKS = (
    (2, 4), (4, 2), (1, 8), (8, 1), (1, 7), (7, 1), (2, 3), (3, 2), (1, 6), (6, 1),
    (1, 5), (5, 1), (2, 2), (1, 4), (4, 1), (1, 3), (3, 1), (1, 2), (2, 1), (1, 1),
)
# fmt: on


@dataclass(frozen=True)
class Compute:
    """The compute configuration. Sizes depend on accumulation alone; precision decides a step's time, and makes another
    program of it."""

    fp32_accumulation: bool = False
    packer_l1: bool = False
    fidelity: MathFidelity = MathFidelity.HiFi4
    approx: bool = True

    @property
    def of_halo(self) -> ComputeKey:
        """The same as a halo's program carries it."""
        return self.fidelity, self.approx, self.fp32_accumulation, self.packer_l1


@dataclass(frozen=True)
class Blocks:
    """Tiles of a core's output, of an activation block, and of an output sub-block."""

    out_h: int
    out_w: int
    act_h: int
    act_w: int
    sub_h: int
    sub_w: int


@lru_cache(maxsize=4096)
def largest_subblock(height: int, width: int, fp32_accumulation: bool) -> tuple[int, int]:
    for h, w in _SUBBLOCKS:
        if fp32_accumulation and h * w > 4:
            continue
        if height % h == 0 and width % w == 0 and (w == width or h == 1):
            return h, w
    return 1, 1


@lru_cache(maxsize=16384)
def blocks_of(
    output: MemoryConfig,
    inputs: ParallelConfig,
    padded_channels: int,
    kernel: tuple[int, int],
    output_width: int,
    settings: Settings,
    fp32_accumulation: bool,
    depthwise_1d: bool,
) -> Blocks:
    assert output.shard_spec is not None
    height, width = output.shard_spec.shape
    out_h, out_w = div_up(height, TILE_SIZE), div_up(width, TILE_SIZE)
    override = settings.act_block_h_override
    fatal(
        override % TILE_SIZE == 0,
        f"Config Error: act_block_h_override ({override}) must be a multiple of 32 (tile height).",
    )
    act_h = largest_divisor(height // TILE_SIZE, override // TILE_SIZE) if override else out_h
    if inputs.layout is HEIGHT and settings.enable_activation_reuse:
        image_tiles = div_up(output_width, TILE_SIZE)
        fatal(
            act_h > image_tiles,
            f"Activation reuse needs act block h ({act_h}) to be bigger than output image width in tiles "
            f"({image_tiles}) for the optimization to give boost",
        )
    if depthwise_1d and inputs.layout is HEIGHT and takes_one_tap(padded_channels):
        kernel = (1, 1)
    act_w = _block_width(inputs, padded_channels, kernel, settings) // TILE_SIZE
    sub_h, sub_w = largest_subblock(act_h, out_w, fp32_accumulation)
    return Blocks(out_h, out_w, act_h, act_w, sub_h, sub_w)


def takes_one_tap(padded_channels: int) -> bool:
    """A 1D depthwise convolution reads one tap of its kernel at a time where channels are no whole tiles."""
    return padded_channels % TILE_SIZE != 0


def _block_width(inputs: ParallelConfig, channels: int, kernel: tuple[int, int], settings: Settings) -> int:
    height, width = kernel
    if inputs.layout is HEIGHT:
        return round_up(channels * width * (height if settings.enable_activation_reuse else 1), TILE_SIZE)
    if inputs.layout is BLOCK:
        rows = height if settings.full_inner_dim else 1
        return round_up(channels // inputs.cores_c * width * rows, TILE_SIZE)
    fatal(settings.act_block_w_div > 0, "act_block_w_div is 0; it must be 1 or more.")  # the library ends here
    return channels * height * width // (inputs.grid.num_cores() * settings.act_block_w_div)


@dataclass(frozen=True)
class Buffers:
    """Bytes of a convolution's circular buffers, in the order in which its program creates them; 0: none."""

    weights: int
    partials: int
    partials_in_output: bool
    activations: int
    second_activations: int
    tilized: int
    bias: int
    row_major: int
    output: int
    splits_reader: bool

    @property
    def own(self) -> int:
        """Bytes that the buffers take beside tensors."""
        return (
            self.weights
            + (0 if self.partials_in_output else self.partials)
            + self.activations
            + self.second_activations
            + self.tilized
            + self.bias
            + self.row_major
            + _SCRATCHPAD
        )


@lru_cache(maxsize=16384)
def buffers_of(
    arch: Arch,
    inputs: ParallelConfig,
    blocks: Blocks,
    kernel: tuple[int, int],
    dilation: tuple[int, int],
    weight_rows: int,
    weight_columns: int,
    padded_channels: int,
    input_dtype: DataType,
    weights_dtype: DataType,
    output_dtype: DataType,
    output_width: int,
    bias: bool,
    compute: Compute,
    settings: Settings,
    depthwise_1d: bool,
    no_multicast: bool,
) -> Buffers:
    """`weight_rows`, `weight_columns`: the prepared weight matrix; `no_multicast`: one core reads all activations."""
    layout = inputs.layout
    halo = DataType.FLOAT32 if input_dtype is DataType.FLOAT32 else DataType.BFLOAT16
    split = splits_reader(
        arch,
        layout,
        depthwise_1d,
        blocks.act_h,
        blocks.act_w,
        blocks.out_w * blocks.act_w,
        weights_dtype,
        padded_channels,
        kernel[1],
        dilation[1],
        input_dtype,
        output_dtype,
        compute.fp32_accumulation,
        settings.enable_activation_reuse,
        settings.force_split_reader,
    )
    block = blocks.act_h * blocks.act_w
    first, second = _activation_tiles(
        blocks, split, kernel, weight_rows, output_width, input_dtype, settings.enable_activation_reuse
    )
    if settings.enable_act_double_buffer:
        first, second = 2 * first, 2 * second
    partial = partial_dtype(layout, blocks, weight_rows, weight_columns, output_dtype, bias, compute)
    in_output = settings.output_layout is not Layout.ROW_MAJOR and partial is output_dtype
    shares_activations = layout is BLOCK and halo is output_dtype and not no_multicast
    block_tiles = blocks.act_h * blocks.out_w
    fatal(
        depthwise_1d or block_tiles <= blocks.out_h * blocks.out_w,
        f"Conv2d output block size {block_tiles} exceeds the per-core output size {blocks.out_h * blocks.out_w}",
    )
    taps = (1 if takes_one_tap(padded_channels) else kernel[1]) if depthwise_1d else 0
    row_major = {HEIGHT: 0, WIDTH: 2 * blocks.act_w, BLOCK: first}[layout]
    if layout is HEIGHT:
        activations = first * halo.tile_bytes
    else:
        activations = 0 if no_multicast else (first + second) * output_dtype.tile_bytes
    return Buffers(
        weights=_weight_tiles(layout, blocks, kernel, settings, taps) * weights_dtype.tile_bytes,
        partials=0 if depthwise_1d else block_tiles * partial.tile_bytes,
        partials_in_output=in_output,
        activations=activations,
        second_activations=0 if shares_activations else second * halo.tile_bytes,
        tilized=block * output_dtype.tile_bytes,
        bias=blocks.out_w * weights_dtype.tile_bytes if bias else 0,
        row_major=0 if shares_activations else row_major * halo.tile_bytes,
        output=blocks.out_h * blocks.out_w * output_dtype.tile_bytes,
        splits_reader=split,
    )


def _activation_tiles(
    blocks: Blocks,
    split: bool,
    kernel: tuple[int, int],
    weight_rows: int,
    output_width: int,
    input_dtype: DataType,
    reuse: bool,
) -> tuple[int, int]:
    """Tiles of the first and of the second reader's part of an activation block."""
    if not split:
        return blocks.act_h * blocks.act_w, 0
    second = blocks.act_h // 2
    first = blocks.act_h - second
    if not reuse:
        return first * blocks.act_w, second * blocks.act_w
    channels = weight_rows // (kernel[0] * kernel[1])
    return tuple(  # type: ignore[return-value]
        _reused_tiles(rows, blocks.act_w, output_width, channels, kernel, input_dtype) for rows in (first, second)
    )


def _reused_tiles(
    rows: int, act_w: int, output_width: int, channels: int, kernel: tuple[int, int], input_dtype: DataType
) -> int:
    """Space for one image row's windows, and what each further row adds to it."""
    image_tiles = div_up(output_width, TILE_SIZE)
    left_over = -output_width % TILE_SIZE
    element = 4 if input_dtype is DataType.FLOAT32 else 2
    added = div_up(rows, image_tiles) * channels * kernel[1] * (1 + left_over * kernel[0]) * element
    return image_tiles * act_w + div_up(added, TILE_SIZE * TILE_SIZE * element)


def partial_dtype(
    layout: object,
    blocks: Blocks,
    weight_rows: int,
    weight_columns: int,
    output_dtype: DataType,
    bias: bool,
    compute: Compute,
) -> DataType:
    """Partial sums have the output's format, or a wider one where the packer accumulates in L1."""
    inner = weight_rows // TILE_SIZE // blocks.act_w
    if layout is BLOCK:
        inner *= weight_columns // TILE_SIZE // blocks.out_w
    if compute.packer_l1 and ((bias and inner > 1) or inner > 2):
        return DataType.FLOAT32 if compute.fp32_accumulation else DataType.BFLOAT16
    return output_dtype


def _weight_tiles(
    layout: object, blocks: Blocks, kernel: tuple[int, int], settings: Settings, depthwise_taps: int
) -> int:
    """`depthwise_taps`: taps at a time of a 1D depthwise convolution, 0 for any other."""
    tiles = blocks.out_w * (blocks.act_h * depthwise_taps or blocks.act_w)
    if layout is not HEIGHT:
        return 2 * tiles if settings.enable_weights_double_buffer else tiles
    if settings.enable_activation_reuse:
        return tiles
    if blocks.out_h // blocks.act_h > 1:
        return tiles * kernel[0]  # all rows of the kernel stay in L1 for the blocks that follow
    return 2 * tiles if settings.enable_weights_double_buffer else tiles
