"""The matrix multiplication that a 1x1 convolution is: its program, its buffers, its output.

A sharded input brings its program with it (the convolution's blocks). An interleaved one gets the program that
`ttnn.linear` chooses itself: the rules are those of `create_simple_matmul_program_config` (matmul_program_config.cpp);
buffers are those of the multicast factories.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tt_cnn.virtual.devices.device import check_shard_grid
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.conv2d.blocks import Blocks, Compute
from tt_cnn.virtual.ops.conv2d.weights import WeightLayout
from tt_cnn.virtual.ops.sliding_window.parallel import BLOCK, COL_MAJOR, HEIGHT, ROW_MAJOR, WIDTH, row_wise_grid
from tt_cnn.virtual.planning.plan import CircularBuffer, Planner, Slot, Work
from tt_cnn.virtual.types.enums import BufferType, DataType, Layout
from tt_cnn.virtual.types.geometry import (
    TILE_SIZE,
    CoreCoord,
    CoreRange,
    CoreRangeSet,
    Shape,
    cores_to_ranges,
    div_up,
    num_cores_to_corerangeset,
)
from tt_cnn.virtual.types.memory_config import DRAM_MEMORY_CONFIG, MemoryConfig, ShardSpec
from tt_cnn.virtual.types.tensor_spec import Spec
from tt_cnn.virtual.types.unary import UnaryOpType

Activation = tuple[UnaryOpType, tuple[float, ...]]
_FUSED = {
    UnaryOpType.RELU,
    UnaryOpType.GELU,
    UnaryOpType.GELU_TANH,
    UnaryOpType.TANH,
    UnaryOpType.SILU,
    UnaryOpType.RELU6,
    UnaryOpType.SIGMOID,
    UnaryOpType.HARDSIGMOID,
    UnaryOpType.HARDTANH,
    UnaryOpType.SELU,
    UnaryOpType.SOFTPLUS,
}
"""Activations that the sharded programs can apply themselves."""
_NARROW = 8
"""A matrix this many times longer than wide is narrow: one dimension of cores then."""


@dataclass(frozen=True)
class Program:
    """A multicast matmul: the grid, what a core computes (`per_core_*`), and in which blocks, all in tiles."""

    factory: str
    grid: tuple[int, int]
    block_k: int
    block_m: int
    block_n: int
    per_core_m: int
    per_core_n: int
    shares_left: bool = False
    """One-dimensional: all cores get the same rows of the left matrix, and columns of the right one each."""
    transposed: bool = False


ONE_DIMENSION = "MatmulMultiCoreReuseMcast1DProgramFactory"
TWO_DIMENSIONS = "MatmulMultiCoreReuseMcast2DProgramFactory"
SIMPLE = "MatmulMultiCoreProgramFactory"


def program_of_convolution(
    source: Spec, output: MemoryConfig, blocks: Blocks, activation: Activation | None
) -> Program:
    """The program for a sharded input: each core computes its shard of the output."""
    if activation is not None:
        fatal(
            activation[0] in _FUSED,
            f"Unsupported UnaryOpType for fused activation: {activation[0].native}",
        )
    assert output.shard_spec is not None
    size = output.shard_spec.grid.bounding_box().grid_size()
    height = source.memory_config.memory_layout is HEIGHT
    return Program(
        ONE_DIMENSION if height else TWO_DIMENSIONS,
        (size.x, size.y),
        blocks.act_w,
        blocks.out_h,
        blocks.out_w,
        blocks.out_h,
        blocks.out_w,
        transposed=source.shard.orientation is COL_MAJOR,
    )


def plan_matmul(
    planner: Planner,
    left: Slot,
    right: Slot,
    bias: Slot | None,
    dtype: DataType,
    config: MemoryConfig | None,
    program: Program | None,
    compute: Compute,
    activation: Activation | None,
    weights: WeightLayout,
) -> Slot:
    """Dispatch `left @ right + bias`. Without a program the library's own choice for interleaved matrices is taken."""
    m, k = left.spec.physical[0] // TILE_SIZE, left.spec.physical[1] // TILE_SIZE
    n = right.spec.physical[1] // TILE_SIZE
    if program is None:
        program = choose_program(planner, left.spec, right.spec, bias, dtype, config or DRAM_MEMORY_CONFIG, compute)
    rows, columns = div_up(m, program.per_core_m), div_up(n, program.per_core_n)
    target = _output_config(config or DRAM_MEMORY_CONFIG, program, rows, columns)
    shape = Shape((*tuple(left.spec.shape)[:-1], right.spec.shape[-1]))
    spec = Spec(shape, dtype, Layout.TILE, target)
    check_shard_grid(planner.card, spec)
    width, height = left.spec.shape[-1], right.spec.shape[-2]
    fatal(
        width == height,
        "The width of the first tensor must be equal to the height of the second tensor. Mismatch: "
        f"width={width} height={height}",
    )
    inner = right.spec.physical[0] // TILE_SIZE
    fatal(k == inner, f"K dimension in tiles must match between input A ({k}) and input B ({inner})")
    layout = left.spec.memory_config.memory_layout
    fatal(
        program.factory != TWO_DIMENSIONS or layout is not WIDTH,
        f"MatmulMultiCoreReuseMultiCastProgramConfig: Unsupported memory layout {layout.native}.",
    )
    output = planner.allocate(spec)
    cores = _cores(left.spec, program, rows, columns)
    planner.step(
        "Matmul",
        program.factory,
        cores,
        [left, right] + ([bias] if bias else []),
        [output],
        _buffers(left, right, bias, output, program, k, cores, compute),
        attributes={"program": program, "compute": compute, "activation": activation, "weights": weights},
        work=_work(left.spec, right.spec, output.spec, m, k, n),
    )
    return output


def _output_config(config: MemoryConfig, program: Program, rows: int, columns: int) -> MemoryConfig:
    """A sharded output stands on the cores that compute something, whatever grid was asked for."""
    if not config.is_sharded():
        return config
    shape = (program.per_core_m * TILE_SIZE, program.per_core_n * TILE_SIZE)
    if program.factory == ONE_DIMENSION:
        return config.with_shard_spec(ShardSpec(row_wise_grid(rows * columns, program.grid), shape, ROW_MAJOR))
    x, y = (rows, columns) if program.transposed else (columns, rows)
    grid = CoreRangeSet([CoreRange((0, 0), (x - 1, y - 1))])
    return config.with_shard_spec(ShardSpec(grid, shape, COL_MAJOR if program.transposed else ROW_MAJOR))


def _cores(left: Spec, program: Program, rows: int, columns: int) -> CoreRangeSet:
    if program.factory == SIMPLE:
        x, y = program.grid
        return cores_to_ranges(num_cores_to_corerangeset(min(rows * columns, x * y), CoreCoord(x, y)).cores())
    if program.factory == ONE_DIMENSION:
        return row_wise_grid(rows * columns, program.grid)
    x, y = (rows, columns) if program.transposed else (columns, rows)
    if left.memory_config.memory_layout is BLOCK:
        senders = left.shard.grid.bounding_box().grid_size()
        x, y = (x, max(y, senders.y)) if program.transposed else (max(x, senders.x), y)
    return CoreRangeSet([CoreRange((0, 0), (x - 1, y - 1))])


def _buffers(
    left: Slot,
    right: Slot,
    bias: Slot | None,
    output: Slot,
    program: Program,
    k: int,
    cores: CoreRangeSet,
    compute: Compute,
) -> list[CircularBuffer]:
    tile_a, tile_b, tile_out = (s.spec.dtype.tile_bytes for s in (left, right, output))
    if program.factory == SIMPLE:
        return [_staging(2 * size, cores) for size in (tile_a, tile_b, tile_out)]
    steps = k // program.block_k
    depth = 2 if steps > 1 else 1
    layout = left.spec.memory_config.memory_layout
    borrowed = layout is HEIGHT and program.factory == ONE_DIMENSION
    shard = [] if layout is not BLOCK else [_staging(left.spec.shard_pages * tile_a, cores, left)]
    a = (
        _staging(left.spec.shard_pages * tile_a, cores, left)
        if borrowed
        else _staging(program.block_m * program.block_k * depth * tile_a, cores)
    )
    b = _staging(program.block_n * program.block_k * depth * tile_b, cores)
    sharded = output.spec.is_sharded
    out_tiles = program.per_core_m * program.per_core_n if sharded else program.block_m * program.block_n
    out = _staging(out_tiles * tile_out, cores, output if sharded else None)
    partial = _partial_dtype(output.spec.dtype, steps, compute)
    own_partials = partial is not output.spec.dtype or (sharded and program.per_core_m != program.block_m)
    partials = [_staging(program.block_m * program.block_n * partial.tile_bytes, cores)] if own_partials else []
    biases = [_staging(program.block_n * bias.spec.dtype.tile_bytes, cores)] if bias else []
    return [a, b, *shard, out, *partials, *biases]


def _staging(size: int, cores: CoreRangeSet, alias: Slot | None = None) -> CircularBuffer:
    return CircularBuffer(size, cores, alias, dataflow=True)


def _partial_dtype(output: DataType, steps: int, compute: Compute) -> DataType:
    """The format of partial sums: the output's, or a wider one where they accumulate."""
    if compute.fp32_accumulation:
        return DataType.FLOAT32
    return DataType.BFLOAT16 if compute.packer_l1 and steps > 1 else output


def fuses_bias(left: Spec, right: Spec, output: MemoryConfig, program: Program | None) -> bool:
    """Whether `ttnn.linear` adds the bias inside the matmul, or as an op of its own afterwards."""
    if program is not None:
        return True
    if output.buffer_type is not BufferType.DRAM:
        return False
    if left.is_sharded:
        return True
    return all(c.is_dram() and not c.is_sharded() for c in (left.memory_config, right.memory_config, output))


def choose_program(
    planner: Planner,
    left: Spec,
    right: Spec,
    bias: Slot | None,
    dtype: DataType,
    output: MemoryConfig,
    compute: Compute,
) -> Program:
    """The library's choice for interleaved matrices."""
    grid = planner.card.grid
    room = planner.program_l1()
    return _choose(left, right, bias.spec.dtype if bias else None, dtype, output, compute, grid, room)


@lru_cache(maxsize=4096)
def _choose(
    left: Spec,
    right: Spec,
    bias: DataType | None,
    dtype: DataType,
    output: MemoryConfig,
    compute: Compute,
    grid: tuple[int, int],
    room: int,
) -> Program:
    (height, inner), width = left.physical, right.physical[1]
    m, k, n = height // TILE_SIZE, inner // TILE_SIZE, width // TILE_SIZE
    configs = (left.memory_config, right.memory_config, output)
    interleaved = not any(c.is_sharded() for c in configs)
    in_dram = all(c.is_dram() for c in configs)
    fits = _Fits(left.dtype, right.dtype, bias, dtype, compute, room)
    narrow = interleaved and _is_narrow(height, width, in_dram)
    wide, tall = narrow and width > height, narrow and width <= height
    side = next((s for s in (16, 8, 4, 2) if fits(s, s, 2)), 1)
    blocks_y, blocks_x = div_up(m, side), div_up(n, side)
    block_k = 1 if (blocks_y > 1 or blocks_x > 1) and k % 2 else 2
    all_dram = interleaved and in_dram
    if not (all_dram or (blocks_x * blocks_y <= grid[0] * grid[1] and k % block_k == 0)):
        return Program(SIMPLE, grid, 1, 1, 1, 1, 1)
    single = blocks_x == blocks_y == 1
    range_x, range_y = (blocks_x, blocks_y) if not single and blocks_y <= grid[1] and blocks_x <= grid[0] else (0, 0)
    if wide or (range_y == 1 and not all_dram):
        return _one_dimension(m, k, n, grid, True, fits)
    if tall or (range_x == 1 and not all_dram):
        return _one_dimension(m, k, n, grid, False, fits)
    if not (range_y > 0 or all_dram):
        return Program(SIMPLE, grid, 1, 1, 1, 1, 1)
    if not all_dram:
        return Program(TWO_DIMENSIONS, grid, block_k, side, side, side, side)
    block_k = k // grid[0] if k % grid[0] == 0 else 1
    per_m, per_n = div_up(m, grid[1]), div_up(n, grid[0])
    block_m, block_n, block_k = fits.best(per_m, per_n, block_k, shrink_k=True)
    return Program(TWO_DIMENSIONS, grid, block_k, block_m, block_n, per_m, per_n)


def _one_dimension(m: int, k: int, n: int, grid: tuple[int, int], shares_left: bool, fits: _Fits) -> Program:
    cores = grid[0] * grid[1]
    if shares_left:
        per_m, per_n = m, div_up(div_up(n * TILE_SIZE, cores), TILE_SIZE)
    else:
        per_m, per_n = div_up(div_up(m * TILE_SIZE, cores), TILE_SIZE), n
    block_k = 2 if k % 2 == 0 else 1
    block_m, block_n, _ = fits.best(per_m, per_n, block_k, shrink_k=False)
    return Program(ONE_DIMENSION, grid, block_k, block_m, block_n, per_m, per_n, shares_left)


def _is_narrow(height: int, width: int, in_dram: bool) -> bool:
    ratio = height // width if height > width else width // height
    return ratio > _NARROW or (in_dram and (height <= TILE_SIZE or width <= TILE_SIZE))


@dataclass(frozen=True)
class _Fits:
    """The library's estimate of a program's buffers, against the L1 that is free below the lowest tensor."""

    left: DataType
    right: DataType
    bias: DataType | None
    output: DataType
    compute: Compute
    room: int

    def __call__(self, m: int, n: int, k: int) -> bool:
        a, b = self.left.tile_bytes, self.right.tile_bytes
        bias = n * self.bias.tile_bytes if self.bias else 0
        partial = 4096 if self.compute.fp32_accumulation else max(2048, self.output.tile_bytes)
        return 2 * m * k * a + 2 * n * k * b + m * n * (a + partial) + bias < self.room

    def best(self, m: int, n: int, k: int, shrink_k: bool) -> tuple[int, int, int]:
        """The largest blocks that fit and divide a core's part, the squarest of equals."""
        if self(m, n, k):
            return m, n, k
        shapes: dict[int, tuple[int, int]] = {}
        for block_m in _divisors(m):
            for block_n in _divisors(n):
                known = shapes.get(block_m * block_n)
                if known is None or _ratio(*known) >= _ratio(block_m, block_n):
                    shapes[block_m * block_n] = (block_m, block_n)
        inner = [b for b in range(k, 0 if shrink_k else k - 1, -1) if k % b == 0]
        for area in sorted(shapes, reverse=True):
            for block_k in inner:
                if self(*shapes[area], block_k):
                    return (*shapes[area], block_k)
        return 1, 1, 1


def _divisors(value: int) -> list[int]:
    """In the order in which the library tries them: the whole, one, then downwards."""
    return [value, 1] + [d for d in range(value // 2, 1, -1) if value % d == 0]


def _ratio(a: int, b: int) -> float:
    return max(a, b) / min(a, b)


def _work(left: Spec, right: Spec, output: Spec, m: int, k: int, n: int) -> Work:
    def size(spec: Spec) -> int:
        return spec.num_pages * spec.page_bytes

    reads = [s for s in (left, right)]
    return Work(
        macs=m * k * n * TILE_SIZE**3,
        dram_read=sum(size(s) for s in reads if s.memory_config.is_dram()),
        l1_read=sum(size(s) for s in reads if not s.memory_config.is_dram()),
        dram_write=size(output) if output.memory_config.is_dram() else 0,
        l1_write=0 if output.memory_config.is_dram() else size(output),
        noc=size(left) + size(right),
        transaction=left.dtype.tile_bytes,
    )
