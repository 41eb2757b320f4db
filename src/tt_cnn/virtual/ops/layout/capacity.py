# SPDX-License-Identifier: Apache-2.0
"""How much L1 a program may take now, which decides between programs that need more and programs that need less."""

from __future__ import annotations

from tt_cnn.virtual.errors.card_error import CardError
from tt_cnn.virtual.planning.plan import Planner
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import Shape, div_up, round_up
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec


def program_limit(planner: Planner) -> int:
    """Bytes per core that a program could have on an empty card (L1_SMALL counted in, as TT-NN does)."""
    return planner.card.l1_size - planner.card.l1_base


def half_limit(planner: Planner) -> int:
    """What single-core programs allow themselves: half of L1 without the reserved part."""
    return planner.card.l1_size // 2 - planner.card.l1_base


def pending_output(planner: Planner, shape: Shape, config: MemoryConfig, dtype: DataType, layout: Layout) -> int:
    """Bytes per bank that an interleaved L1 output will take; it is allocated before the program's buffers."""
    if not config.is_l1() or config.is_sharded():
        return 0
    try:
        spec = Spec(shape, dtype, layout, config)
    except CardError:
        return 0
    page = round_up(spec.page_bytes, planner.card.l1_alignment)
    granule = planner.card.dram_alignment
    return round_up(max(div_up(spec.num_pages, planner.card.cores) * page, granule), granule)


def row_fits(
    planner: Planner,
    source: DataType,
    target: DataType,
    tiles: int,
    pending: int,
    *,
    stages_rows: bool = False,
) -> bool:
    """Whether a row of tiles fits, once as input and once as output (and a staged row of sticks, for tilize)."""
    a_tile = source.tile_bytes + target.tile_bytes + (source.tile_bytes // 32 if stages_rows else 0)
    fixed = 2 * planner.card.dram_alignment if stages_rows else 0
    return max(planner.program_l1() - pending, 0) > a_tile * tiles + fixed


def block_width_limit(planner: Planner, source: DataType, target: DataType, *, stages_rows: bool) -> int:
    """Tiles of width that a core can hold twice (and a staged row), with what is free at this point of the plan."""
    fixed = 2 * planner.card.dram_alignment if stages_rows else 0
    a_tile = source.tile_bytes + target.tile_bytes + (source.tile_bytes // 32 if stages_rows else 0)
    return max(planner.program_l1() - fixed, 0) // a_tile
