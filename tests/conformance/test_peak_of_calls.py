# SPDX-License-Identifier: Apache-2.0
"""The peak of a call as the library's graph tools count it."""

from __future__ import annotations

from tests.virtual.stand_in import StandIn
from tt_cnn.conformance.making import zeros
from tt_cnn.conformance.peak import dry_peak, peak_of
from tt_cnn.conformance.planning_card import Began, PlanningCard
from tt_cnn.virtual import ttnn
from tt_cnn.virtual.planning.happenings import Entered, Given, Happening, Left, Ran, Taken
from tt_cnn.virtual.planning.placement import Place, PlacedStep
from tt_cnn.virtual.planning.plan import AllocateConfig, CircularBuffer, Slot, Step
from tt_cnn.virtual.types import (
    BufferType,
    CoreGrid,
    CoreRange,
    CoreRangeSet,
    DataType,
    Layout,
    Shape,
    ShardStrategy,
    Spec,
    create_sharded_memory_config,
)

ALL = CoreRangeSet([CoreRange((0, 0), (7, 7))])
SLOT = Slot(0, 0, Spec(Shape([32, 32]), DataType.BFLOAT16, Layout.TILE))


def l1(address: int, size: int) -> Place:
    return Place(BufferType.L1, address, size)


def program(*buffers: CircularBuffer, tables: int = 0) -> list[Happening]:
    placed = PlacedStep(Step(StandIn(op="Op", cores=ALL, buffers=buffers), (), ()), (0,) * len(buffers))
    if not tables:
        return [Entered(placed), Ran(placed), Left(placed)]
    table = Place(BufferType.L1_SMALL, 9, tables)
    return [Entered(placed), Taken(table, table=AllocateConfig(tables, 64, 9)), Ran(placed), Given(table), Left(placed)]


class RefusesDryRuns(StandIn):
    def dry_run_refusal(self, step: Step) -> str | None:
        return "Global CB size mismatch: actual 0 != expected 7"


def test_a_pad_and_a_tilize() -> None:
    """Corpus ops_wormhole, to_layout of height shards: a Pad with 1024 B of staging, then a Tilize."""
    happenings = [
        Taken(l1(1368064, 32768)),
        *program(
            CircularBuffer(32768, ALL, SLOT, dataflow=True),
            CircularBuffer(32768, ALL, SLOT, dataflow=True),
            CircularBuffer(1024, ALL, dataflow=True),
        ),
        Taken(l1(1335296, 32768)),
        *program(CircularBuffer(32768, ALL, SLOT, dataflow=True), CircularBuffer(32768, ALL, SLOT, dataflow=True)),
        Given(l1(1368064, 32768)),
    ]
    assert peak_of(happenings) == {"cb": 0, "l1": 65536, "staging": 1024, "total": 66560}


def test_circular_buffers_stay_until_the_next_program_and_tables_only_for_theirs() -> None:
    happenings = [
        Taken(l1(100, 1000)),
        *program(CircularBuffer(300, ALL), tables=50),
        Given(l1(100, 1000)),
        Taken(l1(200, 1020)),
        *program(CircularBuffer(10, ALL)),
    ]
    assert peak_of(happenings) == {"cb": 300, "l1": 1050, "staging": 0, "total": 1350}


def test_what_the_call_was_given_and_dram_do_not_count() -> None:
    assert peak_of([Given(l1(5, 99)), Taken(Place(BufferType.DRAM, 0, 4096))])["total"] == 0


def test_inputs_that_go_before_anything_is_allocated_wrap_around() -> None:
    """The library counts in unsigned numbers of 64 bits, and looks for the highest when something is allocated."""
    peak = peak_of([Given(l1(5, 99)), Taken(l1(100, 10))])
    assert peak == {"cb": 0, "l1": 2**64 - 89, "staging": 0, "total": 2**64 - 89}
    assert peak_of([Taken(l1(100, 100)), Given(l1(5, 99)), Taken(l1(200, 10))])["l1"] == 100


def test_a_pool_beside_tensors_ends_the_count() -> None:
    pool = Ran(
        PlacedStep(Step(RefusesDryRuns(op="Pool2D", cores=ALL, buffers=(CircularBuffer(7, ALL),)), (), ()), (0,))
    )
    assert peak_of([Began(False), pool, *program(CircularBuffer(300, ALL))])["cb"] == 300
    assert peak_of([Began(True), pool, *program(CircularBuffer(300, ALL))])["cb"] == 0


def test_scratchpads_count_in_the_total_alone() -> None:
    peak = peak_of(
        [*program(CircularBuffer(2, ALL, dataflow=True, scratch=True), CircularBuffer(64, ALL, dataflow=True))]
    )
    assert peak == {"cb": 0, "l1": 0, "staging": 64, "total": 66}


def test_buffers_count_together_whichever_cores_they_stand_on() -> None:
    left, right = CoreRangeSet([CoreRange((0, 0), (3, 7))]), CoreRangeSet([CoreRange((4, 0), (7, 7))])
    assert peak_of([*program(CircularBuffer(10, left), CircularBuffer(5, right))])["cb"] == 15
    assert peak_of([*program(CircularBuffer(10, left, alias=SLOT))])["cb"] == 0


def test_tables_stand_beside_the_buffers_of_the_program_before() -> None:
    happenings = [*program(CircularBuffer(300, ALL)), *program(CircularBuffer(10, ALL), tables=50)]
    assert peak_of(happenings) == {"cb": 300, "l1": 50, "staging": 0, "total": 350}


def test_a_rehearsal_leaves_the_card_as_it_was() -> None:
    """A call that gives its input back can be rehearsed and then made; the graph of the rehearsal has its peak."""
    card = PlanningCard("n150")
    shards = create_sharded_memory_config((1, 1, 1024, 32), CoreGrid(x=8, y=4), ShardStrategy.HEIGHT)
    x = zeros(card, [1, 1, 1024, 32], DataType.BFLOAT16, Layout.TILE, shards)
    before = card.memory_view(BufferType.L1)
    moved = ttnn.move
    assert dry_peak(card, lambda: moved(x))["l1"] == 0  # it gives as much back as it takes
    assert x.is_allocated() and card.memory_view(BufferType.L1) == before and not card.happenings
    assert dry_peak(card, lambda: ttnn.relu(x)) == {"cb": 0, "l1": 2048, "staging": 0, "total": 2048}
    assert moved(x).is_allocated() and not x.is_allocated()
