# SPDX-License-Identifier: Apache-2.0
"""The library's own choice of a program (matmul_program_config.cpp)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.matmul.configs import MCAST_1D, MCAST_2D, REUSE, SIMPLE, Activation, ProgramConfig
from tt_cnn.virtual.ops.matmul.problem import Problem
from tt_cnn.virtual.types.enums import ShardOrientation, TensorMemoryLayout
from tt_cnn.virtual.types.geometry import TILE_SIZE, div_up
from tt_cnn.virtual.types.memory_config import ShardSpec

_HEIGHT, _WIDTH, _BLOCK = (
    TensorMemoryLayout.HEIGHT_SHARDED,
    TensorMemoryLayout.WIDTH_SHARDED,
    TensorMemoryLayout.BLOCK_SHARDED,
)
_SUBBLOCKS = (
    *((4, 2), (2, 4), (8, 1), (1, 8), (7, 1), (1, 7), (3, 2), (2, 3), (6, 1), (1, 6)),
    *((5, 1), (1, 5), (2, 2), (4, 1), (1, 4), (3, 1), (1, 3), (2, 1), (1, 2), (1, 1)),
)
_NARROW = 8
"""A matrix this many times longer than wide is narrow: a line of cores then."""
_FP32_SUBBLOCK = 4


@dataclass(frozen=True)
class Choice:
    """One choice to be made: the product, the card's grid, what the user said, and the L1 free for buffers."""

    problem: Problem
    device_grid: tuple[int, int]
    room: int
    core_grid: tuple[int, int] | None = None
    activation: Activation | None = None
    batched: bool = False
    """`user_run_batched`: `matmul` of a batched right side."""

    def config(self) -> ProgramConfig:
        if self.problem.left.is_sharded:
            return self._for_sharded()
        if self.core_grid is not None:
            return self._for_grid()
        return self._simple(self.device_grid)

    # --- the estimate of L1 ---------------------------------------------------------------------------------------

    def _fits(self, m: int, n: int, k: int) -> bool:
        p = self.problem
        a, b = p.left.dtype.tile_bytes, p.right.dtype.tile_bytes
        partial = 4096 if p.compute.fp32 else max(2048, p.dtype.tile_bytes)
        shard = m * (p.left.shard.shape[1] // TILE_SIZE) * a if p.left.is_sharded else 0
        left = 2 * m * k * a
        size = left + 2 * n * k * b + m * n * (a + partial) + n * p.bias_bytes + shard
        if p.transpose_a:
            size += shard if p.left.is_sharded else left
        return size < self.room

    def _blocks(self, m: int, n: int, k: int, shrink_k: bool = False) -> tuple[int, int, int]:
        """The largest blocks that fit and divide a core's part, the squarest of equal ones."""
        if self._fits(m, n, k):
            return m, n, k
        shapes: dict[int, tuple[int, int]] = {}
        for height in _divisors(m):
            for width in _divisors(n):
                known = shapes.get(height * width)
                if known is None or _ratio(*known) >= _ratio(height, width):
                    shapes[height * width] = (height, width)
        for depth in range(k, 0 if shrink_k else k - 1, -1):
            if k % depth:
                continue
            for area in sorted(shapes, reverse=True):
                if self._fits(*shapes[area], depth):
                    return (*shapes[area], depth)
        return 1, 1, 1

    # --- a line of cores ------------------------------------------------------------------------------------------

    def _line(self, grid: tuple[int, int]) -> ProgramConfig:
        """`create_matmul_1d_systolic_array_program_config`"""
        p = self.problem
        fatal(p.batch_b == 1, "Second input cannot be currently batched when running matmul using 1d systolic array")
        layout = p.left.memory_config.memory_layout
        rows, cores = p.rows(fuse_batch=True), grid[0] * grid[1]
        tall = layout is _HEIGHT or (layout is not _WIDTH and rows > p.n)
        m, n = (div_up(rows, cores), p.n) if tall else (rows, div_up(p.n, cores))
        k = div_up(p.k, cores)
        while p.k % k:
            k -= 1
        block_h, block_w, _ = self._blocks(m, n, k)
        h, w = _subblock(block_h, block_w, p.compute.fp32)
        return ProgramConfig(
            MCAST_1D, grid, k, h, w, block_h, block_w, m, n, True, mcast_left=not tall, activation=self.activation
        )

    def _one_dimension(
        self,
        grid: tuple[int, int],
        mcast_left: bool,
        fuse_batch: bool = False,
        activation: Activation | None = None,
        shard: ShardSpec | None = None,
    ) -> ProgramConfig:
        """`get_mcast_1d_config`; `shard` is what the user asked of a block-sharded output on a line of cores."""
        p = self.problem
        rows = p.rows(fuse_batch) * TILE_SIZE
        cores = grid[0] * grid[1]
        if shard is not None:
            m, n = shard.shape[0] // TILE_SIZE, shard.shape[1] // TILE_SIZE
            size = shard.grid.bounding_box().grid_size()
            fatal(
                size.x * size.y == shard.grid.num_cores(),
                "BLOCK_SHARDED on 1D grid requires a contiguous core grid without gaps. "
                f"Bounding box has {size.x * size.y} cores but grid has {shard.grid.num_cores()} cores.",
            )
            grid = (size.x, size.y)
        elif mcast_left:
            m, n = rows // TILE_SIZE, div_up(div_up(p.n * TILE_SIZE, cores), TILE_SIZE)
        else:
            m, n = div_up(div_up(rows, cores), TILE_SIZE), p.n
        k = 2 if p.k % 2 == 0 else 1
        block_h, block_w, _ = self._blocks(m, n, k)
        h, w = subblock_params(block_h, block_w, p.compute.fp32)
        return ProgramConfig(
            MCAST_1D, grid, k, h, w, block_h, block_w, m, n, fuse_batch, mcast_left=mcast_left, activation=activation
        )

    # --- a user's core_grid ---------------------------------------------------------------------------------------

    def _for_grid(self) -> ProgramConfig:
        """`create_matmul_program_config`"""
        p = self.problem
        fatal(p.a[-1] == p.b[-2], "The k dimension does not match between tensors")
        grid = self.device_grid
        if self.core_grid is not None and self.core_grid[0] <= grid[0] and self.core_grid[1] <= grid[1]:
            grid = self.core_grid
        if p.batch_b > 1:
            return self._batched(grid)
        layout = p.left.memory_config.memory_layout
        height, width = p.rows(fuse_batch=True) * TILE_SIZE, p.n * TILE_SIZE
        small = p.k == 1 or p.m == 1 or p.n == 1
        if (_is_narrow(height, width, False) or small or p.left.is_sharded) and layout is not _BLOCK:
            return self._line(grid)
        if not p.left.is_sharded:
            m, n = div_up(p.rows(fuse_batch=True), grid[1]), div_up(p.n, grid[0])
            k = next(depth for depth in (4, 3, 2, 1) if p.k % depth == 0)
        else:
            shard = p.left.shard.shape
            m, n = shard[0] // TILE_SIZE, p.n * shard[1] // (p.k * TILE_SIZE)
            k = gcd(shard[1] // TILE_SIZE, p.k)
        n = max(n, 1)
        block_h, block_w, _ = self._blocks(m, n, k)
        h, w = _subblock(block_h, block_w, p.compute.fp32)
        transposed = layout is _BLOCK and p.left.shard.orientation is ShardOrientation.COL_MAJOR
        return ProgramConfig(
            MCAST_2D,
            grid,
            k,
            h if w == n else 1,
            w,
            block_h,
            block_w,
            m,
            n,
            True,
            transpose_mcast=transposed,
            activation=self.activation,
        )

    def _batched(self, grid: tuple[int, int]) -> ProgramConfig:
        p = self.problem
        fatal(self.activation is None, "Cannot use activation with batched input b")
        sharded = p.left.is_sharded or p.right.is_sharded
        if not sharded:
            m, n, k = p.m, p.n, 1
            if not self._fits(m, n, k):
                return self._simple(grid)
        elif p.left.is_sharded:
            layout = p.left.memory_config.memory_layout
            fatal(
                layout is not _WIDTH,
                f"MatmulMultiCoreReuseProgramConfig: Input A cannot be width sharded, got layout: {layout.native}",
            )
            shard = p.left.shard.shape
            m, n, k = shard[0] // TILE_SIZE, p.b[-1] // TILE_SIZE, shard[1] // TILE_SIZE
        else:
            layout = p.right.memory_config.memory_layout
            fatal(
                layout is not _WIDTH,
                f"MatmulMultiCoreReuseProgramConfig: Input B cannot be width sharded, got layout: {layout.native}",
            )
            m, n, k = p.m, p.right.shard.shape[1] // TILE_SIZE, 1
        h, w = _subblock(m, n, p.compute.fp32)
        return ProgramConfig(REUSE, grid, k, h, w, m, n, m, n)

    # --- a sharded left side --------------------------------------------------------------------------------------

    def _for_sharded(self) -> ProgramConfig:
        """`get_matmul_program_config`: each core computes with the shard it has."""
        p = self.problem
        size = p.left.shard.grid.bounding_box().grid_size()
        grid = (size.x, size.y)
        layout = p.left.memory_config.memory_layout
        if self.batched:
            return self._batch_of_shards(grid)
        fatal(
            not p.right.is_sharded,
            f"Input tensor B must have INTERLEAVED memory layout, got: {p.right.memory_config.memory_layout.native}",
        )
        if layout in (_WIDTH, _HEIGHT):
            return self._line_of_shards(grid, layout)
        if layout is _BLOCK and size.x > 1 and size.y > 1:
            return self._grid_of_shards(grid)
        return replace(self, activation=None)._for_grid()

    def _check_output_matches(self) -> bool:
        source, output = self.problem.left.memory_config, self.problem.output
        if not output.is_sharded():
            return False
        fatal(
            source.buffer_type is output.buffer_type,
            f"Input A and output buffer types must match, got input: {source.buffer_type.native} vs output: "
            f"{output.buffer_type.native}",
        )
        fatal(
            source.memory_layout is output.memory_layout,
            f"Input A and output memory layouts must match, got input: {source.memory_layout.native} vs output: "
            f"{output.memory_layout.native}",
        )
        return True

    def _blocks_of_shard(self, m: int, n: int, k: int, sharded_output: bool) -> tuple[int, int]:
        """A sharded output is written in whole rows, or row by row."""
        height, width, _ = self._blocks(m, n, k)
        return (1 if sharded_output and width != n else height), width

    def _line_of_shards(self, grid: tuple[int, int], layout: TensorMemoryLayout) -> ProgramConfig:
        p = self.problem
        shard = p.left.shard
        fatal(shard.row_wise, f"Input tensor A must have ROW_MAJOR shard orientation, got: {shard.orientation.native}")
        sharded_output = self._check_output_matches()
        if layout is _WIDTH:
            m, n = p.rows(fuse_batch=True), div_up(p.n, shard.num_cores())
            k = gcd(shard.shape[1] // TILE_SIZE, p.k)
        else:
            m, n, k = shard.shape[0] // TILE_SIZE, p.n, p.k
            fatal(m > 0, "per_core_M must be greater than 0!")  # of rows less than a tile
        block_h, block_w = self._blocks_of_shard(m, n, k, sharded_output)
        h, w = subblock_params(block_h, block_w, p.compute.fp32, sharded_output)
        return ProgramConfig(MCAST_1D, grid, k, h, w, block_h, block_w, m, n, True, mcast_left=layout is _WIDTH)

    def _grid_of_shards(self, grid: tuple[int, int]) -> ProgramConfig:
        p = self.problem
        shard = p.left.shard
        transposed = shard.orientation is ShardOrientation.COL_MAJOR
        sharded_output = self._check_output_matches()
        x, y = (grid[1], grid[0]) if transposed else grid
        height, width = shard.shape[0] // TILE_SIZE, shard.shape[1] // TILE_SIZE
        fatal(
            height > 0 and width > 0,
            f"Shards of {shard.shape[0]}x{shard.shape[1]} were given to a matmul, less than a tile of 32x32.",
            "  TT-NN ends the process here",
        )
        rows = p.rows(fuse_batch=True)
        fatal(
            y in (rows // height, div_up(rows, height)),
            f"Num cores along y ({y}) must match provided grid size ({rows // height}) or divided up size "
            f"({div_up(rows, height)})",
        )
        fatal(
            x in (p.k // width, div_up(p.k, width)),
            f"Num cores along x ({x}) must match provided grid size ({p.k // width}) or divided up size "
            f"({div_up(p.k, width)})",
        )
        m, n = div_up(rows, y), div_up(p.n, x)
        k = gcd(width, p.k) if x == p.k // width else 1
        block_h, block_w = self._blocks_of_shard(m, n, k, sharded_output)
        h, w = subblock_params(block_h, block_w, p.compute.fp32, sharded_output)
        return ProgramConfig(MCAST_2D, grid, k, h, w, block_h, block_w, m, n, True, transpose_mcast=transposed)

    def _batch_of_shards(self, grid: tuple[int, int]) -> ProgramConfig:
        p = self.problem
        layout = p.left.memory_config.memory_layout
        fatal(layout is not _WIDTH, f"Input A memory layout must not be WIDTH_SHARDED, got: {layout.native}")
        whole_rows = self._check_output_matches()
        shard = p.left.shard
        m, n, k = shard.shape[0] // TILE_SIZE, p.n, shard.shape[1] // TILE_SIZE
        h, w = subblock_params(m, n, p.compute.fp32, whole_rows)
        return ProgramConfig(REUSE, grid, k, h, w, m, n, m, n)

    # --- interleaved, nothing said --------------------------------------------------------------------------------

    def _simple(self, grid: tuple[int, int]) -> ProgramConfig:
        """`create_simple_matmul_program_config`"""
        p = self.problem
        if p.batch_a == 1 and p.batch_b > 1 and p.interleaved:
            return self._one_dimension(grid, mcast_left=False)
        height, width = p.m * TILE_SIZE, p.n * TILE_SIZE
        narrow = p.interleaved and _is_narrow(height, width, p.all_dram)
        wide, tall = narrow and width > height, narrow and width <= height
        side = next((s for s in (16, 8, 4, 2) if self._fits(s, s, 2)), 1)
        blocks_y, blocks_x = div_up(p.m, side), div_up(p.n, side)
        several = blocks_y > 1 or blocks_x > 1
        k = 1 if (p.output.is_sharded() or several) and p.k % 2 else 2
        whole_dram = p.interleaved and p.all_dram
        if not whole_dram and not (blocks_x * blocks_y <= grid[0] * grid[1] and p.k % k == 0):
            return ProgramConfig(SIMPLE, grid)
        inside = several and not whole_dram and blocks_y <= grid[1] and blocks_x <= grid[0]
        range_x, range_y = (blocks_x, blocks_y) if inside else (0, 0)
        row_shard, column_shard = self._line_output()
        outside = range_y == 0 and p.output.is_sharded()
        layout = p.output.memory_layout
        if range_y == 1 or wide or (outside and (layout is _WIDTH or row_shard is not None)):
            return self._one_dimension(
                self.device_grid, True, row_shard is not None and p.batch_b == 1, shard=row_shard
            )
        if range_x == 1 or tall or (outside and (layout is _HEIGHT or column_shard is not None)):
            return self._one_dimension(
                self.device_grid, False, column_shard is not None and p.batch_b == 1, shard=column_shard
            )
        if whole_dram:
            return self._whole_dram(grid)
        if range_y or (outside and layout is _BLOCK):
            m, n = min(side, p.m), min(side, p.n)
            h, w = subblock_params(m, n, p.compute.fp32, p.output.is_sharded())
            return ProgramConfig(MCAST_2D, grid, k, h, w, m, n, m, n)
        return ProgramConfig(SIMPLE, grid)

    def _line_output(self) -> tuple[ShardSpec | None, ShardSpec | None]:
        """The shard spec of a block-sharded output on one row of cores, or on one column of them."""
        output = self.problem.output
        shard = output.shard_spec
        if output.memory_layout is not _BLOCK or shard is None:
            return None, None
        size = shard.grid.bounding_box().grid_size()
        row = shard if size.y == 1 and size.x > 1 else None
        column = shard if size.x == 1 and size.y > 1 else None
        fatal(
            (row is None and column is None) or self.problem.batch_b == 1,
            "BLOCK_SHARDED output on a 1D grid (single row or column of cores) is not supported when both input "
            "tensors are batched. Either use HEIGHT_SHARDED/WIDTH_SHARDED explicitly, use a 2D core grid for "
            "BLOCK_SHARDED, or ensure the second input tensor (B) has batch size 1. See GitHub issue #32306 for "
            "details.",
        )
        return row, column

    def _whole_dram(self, grid: tuple[int, int]) -> ProgramConfig:
        p = self.problem
        k = p.k // grid[0] if p.k % grid[0] == 0 else 1
        m, n = div_up(p.m, grid[1]), div_up(p.n, grid[0])
        block_h, block_w, k = self._blocks(m, n, k, shrink_k=True)
        h, w = subblock_params(block_h, block_w, p.compute.fp32)
        return ProgramConfig(MCAST_2D, grid, k, h, w, block_h, block_w, m, n)


def subblock_params(m: int, n: int, fp32: bool, whole_rows: bool = False) -> tuple[int, int]:
    """`get_matmul_subblock_params`: height and width; `whole_rows` asks for one row of the whole width."""
    for h, w in _SUBBLOCKS:
        if fp32 and h * w > _FP32_SUBBLOCK:
            continue
        if whole_rows and (w != n or h != 1):
            continue
        if m % h == 0 and n % w == 0:
            return h, w
    return 1, 1


def _subblock(m: int, n: int, fp32: bool) -> tuple[int, int]:
    """`get_subblock_sizes`: as above, with height and width of the table swapped."""
    return next((h, w) for w, h in _SUBBLOCKS if (h * w <= _FP32_SUBBLOCK or not fp32) and m % h == 0 and n % w == 0)


def _is_narrow(height: int, width: int, in_dram: bool) -> bool:
    fatal(height > 0 and width > 0, "per_core_M must be greater than 0!")
    ratio = height // width if height > width else width // height
    return ratio > _NARROW or (in_dram and (height <= TILE_SIZE or width <= TILE_SIZE))


def _divisors(value: int) -> list[int]:
    """In the order in which the library tries them: the whole, one, then downwards."""
    return [value, 1] + [d for d in range(value // 2, 1, -1) if value % d == 0]


def _ratio(a: int, b: int) -> float:
    return max(a, b) / min(a, b)
