# SPDX-License-Identifier: Apache-2.0
"""What the cores of a `group_norm` stage: blocks of interleaved tensors, or their shards."""

from __future__ import annotations

from collections.abc import Iterator

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.memory.memory import footprint
from tt_cnn.virtual.ops.normalization.group_norm_checks import check_groups, check_mask_width
from tt_cnn.virtual.ops.normalization.group_norm_problem import Problem, tile_spans
from tt_cnn.virtual.planning.plan import CircularBuffer, Planner, Slot
from tt_cnn.virtual.types.enums import BufferType, DataType, Layout
from tt_cnn.virtual.types.geometry import (
    TILE_SIZE,
    CoreCoord,
    CoreRange,
    CoreRangeSet,
    div_up,
    num_cores_to_corerangeset,
)
from tt_cnn.virtual.types.tensor_spec import Spec

_CONSTANT = DataType.BFLOAT16.tile_bytes
_SLOT = 16
"""Bytes that a core of a group sends of each block's sum."""
Placed = tuple[str, CoreRangeSet, tuple[CircularBuffer, ...]]


def interleaved_buffers(planner: Planner, problem: Problem) -> Placed:
    """The factory, its cores and buffers. Blocks have buffers on each core by itself, the rest on all at once."""
    across, down = problem.grid
    used = across // problem.columns * problem.columns
    cores = num_cores_to_corerangeset(used * down, CoreCoord(across, down), False)
    one_by_one = [CoreRange((x, y), (x, y)) for x in range(used) for y in range(down)]
    groups = max(1, problem.groups // problem.columns)
    check_groups(problem, groups, "core grid")
    blocks, height, width = problem.asked_blocks, problem.block_height, problem.block_width
    fatal(
        0 < blocks <= height,
        f"num_out_blocks ({blocks}) must be in [1, block_h ({height})]. Reduce num_out_blocks or increase input "
        "spatial dimensions.",
    )
    check_mask_width(problem, width, "TILE_WIDTH" if problem.multicast else "tile_width")
    sizes, of_blocks = _interleaved_sizes(planner, problem, groups)
    factory = f"GroupNorm{'Mcast' if problem.multicast else 'NoMcast'}ProgramFactory"
    if problem.multicast:
        each = CoreRangeSet(one_by_one)
        buffers = [CircularBuffer(n, each if name in of_blocks else cores, name=name) for name, n in sizes.items()]
        return factory, cores, tuple(buffers)
    many, few = _by_images(problem, one_by_one)
    return factory, cores, tuple(_twice(sizes, of_blocks, cores, many, few, problem.by_welford))


def _twice(
    sizes: dict[str, int],
    of_blocks: set[str],
    cores: CoreRangeSet,
    many: CoreRangeSet,
    few: CoreRangeSet,
    by_welford: bool,
) -> Iterator[CircularBuffer]:
    """Blocks for the cores with an image more, then for the rest; without any of those theirs are there and empty."""
    for name, size in sizes.items():
        if name not in of_blocks:
            yield CircularBuffer(size, cores, name=name)
            continue
        kept = by_welford and name in ("x", "centered")
        if name != "output":
            yield CircularBuffer(size, many, name=name)
        if name == "input":
            yield CircularBuffer(sizes["output"], many, name="output")
        rest = size if few.ranges() or kept else 0
        yield CircularBuffer(rest, few, name=f"{name} of the rest")


def _by_images(problem: Problem, cores: list[CoreRange]) -> tuple[CoreRangeSet, CoreRangeSet]:
    """Where each core has whole images: those with one more, and the others."""
    if not problem.uneven:
        return CoreRangeSet(cores), CoreRangeSet([])
    extra = problem.batches % problem.down
    rows = [i % problem.down for i in range(len(cores))]
    first = [core for core, row in zip(cores, rows, strict=True) if row < extra]
    return CoreRangeSet(first), CoreRangeSet([core for core in cores if core not in first])


def _interleaved_sizes(planner: Planner, problem: Problem, groups: int) -> tuple[dict[str, int], set[str]]:
    """Bytes of the buffers, in the order in which they are placed, and which of them hold blocks."""
    tile, register = problem.tile, problem.register
    blocks, height, width = problem.blocks, problem.block_height, problem.block_width
    block = height // blocks * width
    tiles_across = div_up(problem.channels_per_core, TILE_SIZE)
    sizes = dict.fromkeys(("input", "output", "staged input"), block * tile)
    if problem.by_welford:
        sizes |= {"epsilon": _CONSTANT} | _weights(problem, tiles_across)
        sizes |= {"mask": width * groups * problem.mask_tile(), "x": register, "centered": 2 * register}
        sizes |= {"scaled": block * register, "partial statistics": 2 * register}
        sizes |= {"statistics": 2 * register * groups, "inverse root": register * groups}
        whole = height * tiles_across * tile
        if whole + sum(sizes.values()) - sizes["input"] < planner.program_l1():
            sizes["input"] = whole
        return sizes, {"input", "output", "staged input", "x", "centered", "scaled"}
    if problem.x.layout is Layout.ROW_MAJOR:
        sizes["tilized"] = problem.resident_tiles(blocks) * tile
    if problem.layout is Layout.ROW_MAJOR:
        sizes |= {"untilized": block * tile, "read again": block * tile}
    of_blocks = set(sizes) | {"x", "centered", "squares", "scaled"}
    sizes |= {"scaler": register, "epsilon": _CONSTANT, "scaler of all": register}
    sizes |= _weights(problem, tiles_across) | {"mask": 2 * width * problem.mask_tile()}
    sizes |= dict.fromkeys(("x", "centered", "squares", "scaled"), block * register)
    padded = problem.resident_tiles(blocks) // max(1, block)
    cores = problem.down // problem.batches if problem.multicast else 1
    gathered = div_up(padded * cores * _SLOT, register) * register
    sizes |= {"partial mean": register, "partial variance": register, "gathered": gathered}
    return sizes | dict.fromkeys(("mean", "variance", "inverse root"), register), of_blocks


def _weights(problem: Problem, tiles_across: int) -> dict[str, int]:
    given = [problem.named[name] for name in ("bias", "weight") if name in problem.named]
    return {name: tiles_across * given[0].dtype.tile_bytes for name in ("weight", "bias") if name in problem.named}


def shard_buffers(
    planner: Planner, problem: Problem, x: Slot, out: Slot, grid: tuple[int, int], room: int
) -> tuple[CircularBuffer, ...]:
    """`room`: L1 below the tensors before the result had its place."""
    spec = problem.x
    height, width = spec.shard.shape
    rows, columns = _check_shares(problem, grid)
    groups = problem.groups // columns if problem.groups > columns else 1
    check_groups(problem, groups, "shard spec")
    images = problem.batches // rows if problem.batches > rows else 1
    block_height, block_width = height // TILE_SIZE // images, max(tile_spans(width, problem.group))
    _check_shard_groups(problem, grid, groups, images)
    check_mask_width(problem, block_width, "tile_width")
    tile, register = problem.tile, problem.register
    tiles_across = div_up(width, TILE_SIZE)
    whole = tiles_across * (height // TILE_SIZE) * tile
    before = {"scaler": _CONSTANT, "epsilon": _CONSTANT, "scaler of all": _CONSTANT}
    mask = 2 * block_width * problem.mask_tile()
    between = {"x": block_height * block_width * register}
    between |= dict.fromkeys(("partial statistics", "gathered", "statistics", "inverse root"), register)
    if problem.by_welford:
        before = {"centered": 2 * register, "epsilon": _CONSTANT}
        mask = block_width * groups * problem.mask_tile()
        between = {"x": register, "partial statistics": 2 * register, "statistics": 2 * register * groups}
        between["inverse root"] = register * groups
    before |= _weights(problem, tiles_across) | {"mask": mask}
    repacks = width % TILE_SIZE != 0
    if repacks:
        between = {"repacked": 2 * tiles_across * tile} | between
    between["ones"] = _CONSTANT
    sizes = {"tilized": whole}
    if _overlaps(planner, problem, out, x, whole + sum(before.values()) + sum(between.values()), whole, room):
        before["negative mask"] = 2 * block_width * problem.mask_tile("negative_mask")
    elif problem.layout is Layout.ROW_MAJOR:
        sizes["untilized"] = whole
    sizes |= before | between
    cores = spec.shard.grid
    borrowed = [_borrowed(planner, "input", x, footprint(planner.card, spec).bank_bytes, cores)]
    if out is not x:
        held = footprint(planner.card, out.spec).bank_bytes
        borrowed.append(_borrowed(planner, "output", out, held if repacks else whole, cores))
    return (*borrowed, *(CircularBuffer(size, cores, name=name) for name, size in sizes.items()))


def _overlaps(planner: Planner, problem: Problem, out: Slot, x: Slot, total: int, whole: int, room: int) -> bool:
    """The result is built over the tilized input, with a second mask; by itself the library does so to save L1."""
    if "negative_mask" in problem.named:
        return True
    rows = problem.x.layout is Layout.ROW_MAJOR and problem.layout is Layout.ROW_MAJOR
    if problem.by_welford or not rows:
        return False
    if out is not x and out.spec.memory_config.buffer_type is BufferType.L1:
        room -= footprint(planner.card, out.spec).bank_bytes
    return room > 0 and total + whole > room


def _borrowed(planner: Planner, name: str, slot: Slot, size: int, cores: CoreRangeSet) -> CircularBuffer:
    fatal(slot.spec.memory_config.is_l1(), "Only L1 buffers can have an associated circular buffer!")
    held = footprint(planner.card, slot.spec).bank_bytes
    fatal(
        size <= held,
        f"Cannot set circular buffer size to {size}. This is larger than the associated dynamically allocated L1 "
        f"buffer bank size of {held} B",
    )
    page = slot.spec.page_bytes
    fatal(
        not slot.spec.is_sharded or slot.spec.shard.shape[1] % TILE_SIZE == 0 or size % page == 0,
        f"Total circular buffer size {size} B must be divisible by page size {page} B",
    )
    return CircularBuffer(size, cores, alias=slot, name=name)


def _check_shares(problem: Problem, grid: tuple[int, int]) -> tuple[int, int]:
    """Shards down and across; the program's cores are theirs."""
    spec: Spec = problem.x
    shard, box = spec.shard, spec.shard.grid.bounding_box().grid_size()
    for name in ("weight", "bias"):
        if name in problem.named:
            layout = problem.named[name].layout
            side = {"weight": "Gamma", "bias": "Beta"}[name]
            fatal(
                layout is Layout.ROW_MAJOR,
                f"{side} tensor must have ROW_MAJOR layout, but has {layout.native} layout",
            )
    fatal(
        grid == (box.x, box.y),
        f"program_config compute_with_storage_grid_size ({grid[0]}x{grid[1]}) must match shard grid dimensions "
        f"({box.x}x{box.y})",
    )
    height, width = shard.shape
    rows, channels = problem.rows * TILE_SIZE, problem.channels
    fatal(
        width % problem.group == 0,
        f"per_core_N ({width}) must be divisible by num_datum_row_per_group ({problem.group})",
    )
    if width != channels:
        pairs = (("c", box.x), ("r", box.y)) if shard.row_wise else (("r", box.y), ("c", box.x))
        for what, side, own, (name, count), total in (
            ("N", "width W", width, pairs[0], channels),
            ("M", "height H", height, pairs[1], rows),
        ):
            fatal(
                own * count == total,
                f"per_core_{what} ({own}) * num_cores_{name} ({count}) must equal total {side} ({total})",
            )
    fatal(rows % height == 0, f"H dim ({rows}) must be divisible by per_core_M ({height})")
    fatal(channels % width == 0, f"W dim ({channels}) must be divisible by per_core_N ({width})")
    down, across = rows // height, channels // width
    batches, groups = problem.batches, problem.groups
    _check_even(batches, down, "num_batches", "column")
    _check_even(groups, across, "num_groups", "row")
    return down, across


def _check_even(count: int, cores: int, name: str, side: str) -> None:
    if count >= cores:
        fatal(count % cores == 0, f"{name} ({count}) must be divisible by number of cores in a full {side} ({cores})")
    else:
        fatal(cores % count == 0, f"number of cores in a full {side} ({cores}) must be divisible by {name} ({count})")


def _check_shard_groups(problem: Problem, grid: tuple[int, int], groups: int, images: int) -> None:
    shard = problem.x.shard
    kind, name, count = ("RM", "c", grid[0]) if shard.row_wise else ("CM", "r", grid[1])
    if groups == 1:
        fatal(
            count % problem.groups == 0,
            f"for {kind} shard, when each group is split across cores, num_cores_{name} ({count}) must be divisible by "
            f"num_groups ({problem.groups})",
        )
    if shard.shape[1] != problem.channels:
        other, number = ("r", grid[1]) if shard.row_wise else ("c", grid[0])
        if (images if shard.row_wise else groups) == 1:
            fatal(
                number % problem.batches == 0,
                f"for {kind} shard, when each batch is split across cores, num_cores_{other} ({number}) must be "
                f"divisible by num_batches ({problem.batches})",
            )
    elif images == 1:
        total = grid[0] * grid[1]
        fatal(
            total % problem.batches == 0,
            f"for height shard, number of cores ({grid[0]} * {grid[1]} = {total}) must be divisible by num_batches "
            f"({problem.batches})",
        )
