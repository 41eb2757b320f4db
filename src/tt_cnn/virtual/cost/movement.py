"""Time of steps that move data: shards to other shards, pages to other pages, tiles to rows and back.

A step's time on a core is the number of its transactions times what one takes, plus a wait wherever the kernel waits:
after each page, after each row of tiles, or once.
"""

from __future__ import annotations

from collections.abc import Callable

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.network import Way, in_l1_shards, page_move_cycles, transaction_cycles
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.planning.plan import Step
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, div_up
from tt_cnn.virtual.types.tensor_spec import Spec

_TILE = TILE_SIZE * TILE_SIZE
_PROCESSORS = 2
_FACE_ROWS = 64
"""Rows of 16 elements in a tile."""
_COPY_CYCLES = 40
"""A processor's own copy of 32 bytes in L1: eight loads and stores."""

Coster = Callable[[Step, Figures], Cycles]


def _core_bytes(spec: Spec, cores: int) -> float:
    """Bytes of a tensor that one core of the step handles."""
    if in_l1_shards(spec):
        return (
            spec.shard_pages
            * spec.page_bytes
            * (1 if cores >= spec.shard.num_cores() else spec.shard.num_cores() / cores)
        )
    return spec.num_pages * spec.page_bytes / max(1, cores)


def _latency(spec: Spec, figures: Figures) -> float:
    return figures.dram_latency_cycles if spec.memory_config.is_dram() else figures.l1_latency_cycles


def _parts(total: float, spec: Spec, compute: float = 0.0) -> Cycles:
    if spec.memory_config.is_dram():
        return Cycles(max(total, compute), dram=total, unpack_pack=compute)
    return Cycles(max(total, compute), noc=total, unpack_pack=compute)


def _through_pages(spec: Spec, size: float, cores: int, figures: Figures, read: bool, wait_every: float) -> float:
    """`size` bytes in pages of the tensor, with a wait for every `wait_every` pages."""
    pages = size / max(1, spec.page_bytes)
    cycles = page_move_cycles(figures, spec, pages, spec.page_bytes, cores, read)
    return cycles + pages / max(1.0, wait_every) * _latency(spec, figures)


def move_cycles(step: Step, figures: Figures) -> Cycles:
    """A shard copied within its core."""
    spec = step.inputs[0].spec
    size = _core_bytes(spec, step.cores.num_cores())
    return _parts(size / figures.local_bytes_per_cycle + figures.local_latency_cycles, spec)


def to_shards_cycles(step: Step, figures: Figures) -> Cycles:
    """Each core reads the pages of its shard; a shard of another format is converted."""
    source, output = step.inputs[0].spec, step.outputs[0].spec
    cores = step.cores.num_cores()
    size = _core_bytes(output, cores) * source.page_bytes / max(1, output.page_bytes)
    width = max(1, output.shard.shape[1] // source.page_shape[1]) if output.is_sharded else 1
    total = _through_pages(
        source, size, cores, figures, True, width * (TILE_SIZE if source.layout is Layout.ROW_MAJOR else 1)
    )
    return _parts(total, source, _conversion(step, figures))


def from_shards_cycles(step: Step, figures: Figures) -> Cycles:
    """Each core writes the pages of its shard to where they belong."""
    source, output = step.inputs[0].spec, step.outputs[0].spec
    cores = step.cores.num_cores()
    size = _core_bytes(source, cores) * output.page_bytes / max(1, source.page_bytes)
    total = _through_pages(output, size, cores, figures, False, max(1, size / max(1, output.page_bytes)))
    return _parts(total, output, _conversion(step, figures))


def _conversion(step: Step, figures: Figures) -> float:
    source, output = step.inputs[0].spec, step.outputs[0].spec
    if source.dtype is output.dtype:
        return 0.0
    return _core_tiles(step) * figures.elementwise_cycles


def _core_tiles(step: Step) -> int:
    cores = step.cores.num_cores()
    largest = max((s.spec for s in (*step.inputs, *step.outputs)), key=lambda spec: spec.volume)
    if in_l1_shards(largest):
        return div_up(largest.shard.shape[0] * largest.shard.shape[1], _TILE)
    return div_up(div_up(largest.volume, _TILE), max(1, cores))


def reshard_cycles(step: Step, figures: Figures) -> Cycles:
    """Cores fetch runs of pages that stay together; both processors share them."""
    source, output = step.inputs[0].spec, step.outputs[0].spec
    cores = step.cores.num_cores()
    size = max(_core_bytes(output, cores), _core_bytes(source, cores) if output.memory_config.is_dram() else 0.0)
    widths = [s.shard.shape[1] for s in (source, output) if s.is_sharded]
    run = min(widths) / source.page_shape[1] * source.page_bytes if widths else source.page_bytes
    if "SameWidth" in step.factory:
        run = size
    run = max(1.0, min(run, size))
    read = transaction_cycles(figures, Way.L1_READ, run)
    crowded = size * cores / figures.network_total_bytes_per_cycle
    total = max(size / run * read / _PROCESSORS, crowded) + figures.l1_latency_cycles
    return _parts(total, output, _conversion(step, figures))


def concat_cycles(step: Step, figures: Figures) -> Cycles:
    output = step.outputs[0].spec
    cores = step.cores.num_cores()
    if not in_l1_shards(output):
        size = _core_bytes(output, cores)
        read = _through_pages(step.inputs[0].spec, size, cores, figures, True, 1)
        write = _through_pages(output, size, cores, figures, False, 1)
        return _parts(max(read, write), output)
    remote = "Block" in step.factory
    total = 0.0
    for slot in step.inputs:
        spec = slot.spec
        run = spec.shard.shape[1] / spec.page_shape[1] * spec.page_bytes
        size = spec.shard_pages * spec.page_bytes
        way = Way.L1_READ if remote else Way.LOCAL
        total += size / run * transaction_cycles(figures, way, run)
    tiles = 0.0
    if step.factory == "ConcatS2STiledProgramFactory":
        tiles = 2 * output.shard_pages * figures.transpose_cycles
    return _parts(total / _PROCESSORS + figures.l1_latency_cycles, output, tiles)


def tilize_cycles(step: Step, figures: Figures) -> Cycles:
    source, output = step.inputs[0].spec, step.outputs[0].spec
    compute = _core_tiles(step) * figures.tilize(source.dtype, output.dtype, False)
    return _rows_and_tiles(step, figures, compute)


def untilize_cycles(step: Step, figures: Figures) -> Cycles:
    output = step.outputs[0].spec
    compute = _core_tiles(step) * figures.untilize_cycles * output.dtype.element_bytes / 2
    return _rows_and_tiles(step, figures, compute)


def _rows_and_tiles(step: Step, figures: Figures, compute: float) -> Cycles:
    """Shards are converted where they are; interleaved pages are read a row of tiles at a time, and written so."""
    source, output = step.inputs[0].spec, step.outputs[0].spec
    cores = step.cores.num_cores()
    moving = [0.0]
    for spec, read in ((source, True), (output, False)):
        if not in_l1_shards(spec):
            at_once = TILE_SIZE if spec.layout is Layout.ROW_MAJOR else max(1, spec.physical[1] // TILE_SIZE)
            moving.append(_through_pages(spec, _core_bytes(spec, cores), cores, figures, read, at_once))
        elif in_l1_shards(source) != in_l1_shards(output) or source.shard.shape != output.shard.shape:
            pages = _core_bytes(spec, cores) / max(1, spec.page_bytes)
            moving.append(pages * transaction_cycles(figures, Way.LOCAL, spec.page_bytes))
    slowest = max(moving)
    in_dram = [s for s in (source, output) if s.memory_config.is_dram()]
    return _parts(slowest, in_dram[0] if in_dram else output, compute)


def pages_cycles(step: Step, figures: Figures) -> Cycles:
    """Page after page, each read, waited for and written: slices, pads, row permutations, reshapes of rows."""
    source, output = step.inputs[0].spec, step.outputs[0].spec
    cores = step.cores.num_cores()
    size = _core_bytes(output, cores)
    if in_l1_shards(output) and source.layout is Layout.ROW_MAJOR:
        run = min(s.page_bytes for s in (source, output))
        read = size / run * transaction_cycles(figures, Way.L1_READ, run) / _PROCESSORS
        return _parts(
            max(read, size * cores / figures.network_total_bytes_per_cycle) + figures.l1_latency_cycles, output
        )
    small = source if source.page_bytes < output.page_bytes else output
    read = _through_pages(small, size, cores, figures, True, 1)
    write = _through_pages(small, size, cores, figures, False, 1)
    return _parts(max(read, write), output)


def turned_cycles(step: Step, figures: Figures) -> Cycles:
    """Rows and columns change places: tiles are turned by the unpacker; rows are tilized before and untilized after."""
    source, output = step.inputs[0].spec, step.outputs[0].spec
    cores = step.cores.num_cores()
    tiles = _core_tiles(step)
    a_tile = figures.transpose_cycles
    rows = source.layout is Layout.ROW_MAJOR
    if rows:
        a_tile += figures.tilize(source.dtype, DataType.BFLOAT16, False) + figures.untilize_cycles
    moving = [0.0]
    for spec, read in ((source, True), (output, False)):
        if in_l1_shards(spec):
            continue
        if rows:  # a tile's rows one by one
            pages, page = tiles * TILE_SIZE, TILE_SIZE * spec.dtype.element_bytes
            wait = tiles * _latency(spec, figures)
            moving.append(page_move_cycles(figures, spec, pages, page, cores, read) + wait)
        else:
            moving.append(_through_pages(spec, tiles * spec.page_bytes, cores, figures, read, 1))
    return _parts(max(moving), output, tiles * a_tile)


def channels_last_cycles(step: Step, figures: Figures) -> Cycles:
    """`convert_to_hwc` and back: tiles turned, and each stick copied to its place."""
    spec = max((s.spec for s in (*step.inputs, *step.outputs)), key=lambda one: one.shard.shape[0])
    sticks = spec.shard.shape[0]
    tiles = div_up(sticks, TILE_SIZE) * div_up(spec.shard.shape[1], TILE_SIZE)
    rows = spec.layout is Layout.ROW_MAJOR
    compute = tiles * (figures.transpose_cycles + (2 * figures.untilize_cycles if rows else 0.0))
    copies = sticks if rows else tiles
    copying = copies * transaction_cycles(figures, Way.LOCAL, spec.page_bytes)
    return _parts(copying + tiles * figures.local_latency_cycles, spec, compute)


def face_rows_cycles(step: Step, figures: Figures) -> Cycles:
    """Reshapes of tiles that cut through tiles: a processor copies rows of faces itself."""
    output = step.outputs[0].spec
    tiles = _core_tiles(step)
    cycles = tiles * (_FACE_ROWS * _COPY_CYCLES + 2 * _latency(output, figures))
    return _parts(cycles, output)
