# SPDX-License-Identifier: Apache-2.0
"""Time of steps that move data, as far as several ops share it: pages one by one.

A step's time on a core is the number of its transactions times what one takes, plus a wait wherever the kernel waits:
after each page, after each row of tiles, or once.
"""

from __future__ import annotations

from math import ceil

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.network import Way, in_l1_shards, page_move_cycles, transaction_cycles
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.cost.pipeline import Block, Pages, Share, pipeline_cycles
from tt_cnn.virtual.planning.program import Step
from tt_cnn.virtual.types.enums import Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, div_up
from tt_cnn.virtual.types.tensor_spec import Spec

PROCESSORS = 2
"""Of a core, for data movement."""
_TILE = TILE_SIZE * TILE_SIZE


def core_bytes(spec: Spec, cores: int) -> float:
    """Bytes of a tensor that one core of the step handles."""
    if in_l1_shards(spec):
        shards = 1 if cores >= spec.shard.num_cores() else spec.shard.num_cores() / cores
        return spec.shard_pages * spec.page_bytes * shards
    return spec.num_pages * spec.page_bytes / max(1, cores)


def core_tiles(step: Step) -> int:
    """Tiles of the larger tensor that one core handles."""
    largest = max((slot.spec for slot in (*step.inputs, *step.outputs)), key=lambda spec: spec.volume)
    if in_l1_shards(largest):
        return div_up(largest.shard.shape[0] * largest.shard.shape[1], _TILE)
    return div_up(div_up(largest.volume, _TILE), max(1, step.cores.num_cores()))


def latency_cycles(spec: Spec, figures: Figures) -> float:
    return figures.dram_latency_cycles if spec.memory_config.is_dram() else figures.l1_latency_cycles


def moving_parts(total: float, spec: Spec, compute: float = 0.0) -> Cycles:
    """Transfers to or from the memory of a tensor, beside what unpackers and packers do meanwhile."""
    if spec.memory_config.is_dram():
        return Cycles(max(total, compute), dram=total, unpack_pack=compute)
    return Cycles(max(total, compute), noc=total, unpack_pack=compute)


def through_pages(spec: Spec, size: float, cores: int, figures: Figures, read: bool, wait_every: float) -> float:
    """`size` bytes in pages of the tensor, with a wait for every `wait_every` pages."""
    pages = size / max(1, spec.page_bytes)
    cycles = page_move_cycles(figures, spec, pages, spec.page_bytes, cores, read)
    return cycles + pages / max(1.0, wait_every) * latency_cycles(spec, figures)


def conversion_cycles(step: Step, figures: Figures) -> float:
    """Of a copy to another dtype, tile by tile."""
    if step.inputs[0].spec.dtype is step.outputs[0].spec.dtype:
        return 0.0
    return core_tiles(step) * figures.elementwise_cycles


def pages_cycles(step: Step, figures: Figures) -> Cycles:
    """Page after page, each read, waited for and written; the writer waits for the last of its writes alone."""
    source, output = step.inputs[0].spec, step.outputs[0].spec
    cores = step.cores.num_cores()
    size = core_bytes(output, cores)
    if in_l1_shards(output) and source.layout is Layout.ROW_MAJOR:
        run = min(source.page_bytes, output.page_bytes)
        read = size / run * transaction_cycles(figures, Way.L1_READ, run) / PROCESSORS
        crowded = size * cores / figures.network_total_bytes_per_cycle
        return moving_parts(max(read, crowded) + figures.l1_latency_cycles, output)
    page = min(source.page_bytes, output.page_bytes)
    return one_by_one_cycles(figures, source, output, output.num_pages * output.page_bytes / page, page, cores)


def one_by_one_cycles(
    figures: Figures,
    source: Spec,
    output: Spec,
    pages: float,
    size: float,
    cores: int,
    preparing: float = 0.0,
    uneven: float = 1.0,
) -> Cycles:
    """`pages` pages of all cores, read and waited for one by one while the page before is written."""
    block = Block(reads=[Pages(source, 1, size, uneven=uneven)], writes=[Pages(output, 1, size)], preparing=preparing)
    return pipeline_cycles(figures, Share.of(ceil(pages), cores), block)
