# SPDX-License-Identifier: Apache-2.0
"""The rules of agreement between a recorded plan and ours."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.virtual.stand_in import StandIn
from tt_cnn.conformance.agreement import compare
from tt_cnn.conformance.answer import Answer, answer
from tt_cnn.conformance.making import zeros
from tt_cnn.conformance.planning_card import PlanningCard
from tt_cnn.virtual import ttnn
from tt_cnn.virtual.planning.happenings import Taken
from tt_cnn.virtual.planning.placement import Place, PlacedStep
from tt_cnn.virtual.planning.plan import CircularBuffer, Slot, Step
from tt_cnn.virtual.planning.slots import AllocateConfig
from tt_cnn.virtual.types import BufferType, CoreRange, CoreRangeSet, DataType, Layout, Shape, Spec

CORES = CoreRangeSet([CoreRange((0, 0), (7, 7))])
RANGES = [[[0, 0], [7, 7]]]
SLOT = Slot(0, 0, Spec(Shape([32, 32]), DataType.BFLOAT16, Layout.TILE))
OUTPUT = {"shape": [1, 1, 32, 32], "dtype": "BFLOAT16"}


def placed(name: str, *buffers: tuple[CircularBuffer, int]) -> PlacedStep:
    step = Step(StandIn(op=name, cores=CORES, buffers=tuple(b for b, _ in buffers)), (SLOT,), (SLOT,))
    return PlacedStep(step, tuple(address for _, address in buffers))


def accepted(**changes: Any) -> Answer:
    own = (CircularBuffer(4096, CORES), 105824)
    borrowed = (CircularBuffer(2048, CORES, alias=SLOT), 999)
    values: dict[str, Any] = {
        "output": dict(OUTPUT),
        "address": 1000,
        "steps": [placed("Unary", own, borrowed)],
        "peak": {"cb": 4096, "l1": 0, "staging": 0, "total": 4096},
        "graph_peak": {"cb": 4096, "l1": 0, "staging": 0, "total": 4096},
    }
    return Answer("ok", **(values | changes))


def recorded(**changes: Any) -> dict[str, Any]:
    step = {"op": "Unary", "cbs": [[105824, 4096, 0, RANGES], [999, 2048, 1, RANGES]], "staging": []}
    values = {
        "status": "ok",
        "output": OUTPUT | {"address": 1000},
        "ops": [step],
        "peak": {"cb": 4096, "l1": 0, "staging": 0, "total": 4096},
    }
    return values | changes


def fields(verdicts: dict[str, Any], agree: bool) -> set[str]:
    return {name for name, verdict in verdicts.items() if verdict.agrees is agree}


def test_an_equal_call_agrees_in_every_field() -> None:
    verdicts = compare(recorded(), accepted())
    every = {"status", "output", "address", "steps", "cores", "cbs", "borrowed", "peak", "graph_peak"}
    assert fields(verdicts, True) == every
    assert not fields(verdicts, False)


def test_the_address_of_borrowed_memory_is_a_field_of_its_own() -> None:
    elsewhere = placed("Unary", (CircularBuffer(4096, CORES), 105824), (CircularBuffer(2048, CORES, alias=SLOT), 1031))
    assert fields(compare(recorded(), accepted(steps=[elsewhere])), False) == {"borrowed"}


def test_factories_are_compared_where_they_were_recorded() -> None:
    step = recorded()["ops"][0]
    assert compare(recorded(ops=[step | {"factory": "F"}]), accepted())["factories"].agrees is False
    assert "factories" not in compare(recorded(ops=[step | {"factory": None}]), accepted())


def test_what_else_came_back_is_compared() -> None:
    further = recorded(more=[OUTPUT], rest=[8, None])
    assert fields(compare(further, accepted(more=[dict(OUTPUT)], rest=[8, None])), False) == set()
    assert fields(compare(further, accepted(more=[], rest=[8])), False) == {"more", "rest"}


def test_every_allocation_of_a_step_is_compared_and_of_tables_the_size_only() -> None:
    step = recorded()["ops"][0]
    known = [[0, 1024, 2048, 0, "INTERLEAVED"], [3, 1499104, 32, 64, "HEIGHT_SHARDED"]]
    own = [
        Taken(Place(BufferType.DRAM, 1024, 2048), SLOT),
        Taken(Place(BufferType.L1_SMALL, 1499000, 32), table=AllocateConfig(32, 64, 7)),
    ]
    mine = accepted(allocations=[own])
    assert compare(recorded(ops=[step | {"buffers": known}]), mine)["allocations"].agrees
    for wrong in ([0, 1056, 2048, 0, "INTERLEAVED"], [0, 1024, 4096, 0, "INTERLEAVED"]):
        assert not compare(recorded(ops=[step | {"buffers": [wrong, known[1]]}]), mine)["allocations"].agrees
    assert not compare(recorded(ops=[step | {"buffers": known[:1]}]), mine)["allocations"].agrees


def test_a_table_in_dram_is_a_tensor() -> None:
    step = recorded()["ops"][0] | {"buffers": [[0, 1024, 2048, 0, "INTERLEAVED"]]}
    table = AllocateConfig(2048, 12, 7, BufferType.DRAM, spec=SLOT.spec)
    mine = accepted(allocations=[[Taken(Place(BufferType.DRAM, 1024, 2048), table=table)]])
    assert compare(recorded(ops=[step]), mine)["allocations"].agrees


def test_a_step_has_its_outputs_and_tables_and_not_what_the_call_gave_it() -> None:
    """A reshape of tiles takes memory for its output and its map; an add in place takes none."""
    card = PlanningCard("n150")
    x = zeros(card, [1, 1, 96, 80], DataType.BFLOAT16, Layout.TILE)
    found = answer(card, partial(ttnn.reshape, x, (1, 1, 80, 96)))
    ((output, table),) = found.allocations
    assert output.slot is not None and output.slot.spec.shape == Shape([1, 80, 96])
    assert table.table is not None and table.place.buffer_type is BufferType.DRAM
    assert answer(card, partial(ttnn.add_, x, 1.0)).allocations == [[]]


def test_a_name_that_neither_library_has_agrees() -> None:
    nowhere = {"status": "error", "type": "AttributeError", "message": "no attribute '__pow__'"}
    missing = Answer("missing", "ttnn.Tensor.__pow__")
    assert compare(nowhere, missing)["status"].agrees
    assert not compare(nowhere, accepted())["status"].agrees
    assert not compare(recorded(), missing)["status"].agrees


@pytest.mark.parametrize(
    ("changes", "differing"),
    [
        ({"output": OUTPUT | {"dtype": "FLOAT32"}}, {"output"}),
        ({"address": 1032}, {"address"}),
        ({"steps": [placed("Copy")]}, {"steps", "cores", "cbs", "borrowed"}),
        ({"steps": []}, {"steps", "cores", "cbs"}),
        ({"peak": {"total": 4200}}, {"peak"}),
        ({"graph_peak": {"total": 4200}}, {"graph_peak"}),
    ],
)
def test_each_field_can_differ(changes: dict[str, Any], differing: set[str]) -> None:
    assert fields(compare(recorded(), accepted(**changes)), False) == differing


def test_a_peak_within_two_percent_agrees() -> None:
    assert compare(recorded(), accepted(peak={"total": 4170}))["peak"].agrees


def test_of_a_refused_call_the_graph_of_the_dry_run_is_compared() -> None:
    peak = {"cb": 0, "l1": 0, "staging": 0, "total": 1000}
    refusal = {"status": "error", "message": "Out of Memory", "peak": peak}
    for total, agrees in ((1000, True), (2000, False)):
        verdicts = compare(refusal, Answer("error", "Out of Memory", graph_peak=peak | {"total": total}))
        assert verdicts["status"].agrees and verdicts["graph_peak"].agrees is agrees


@pytest.mark.parametrize("address", [105824, 105856])
def test_addresses_of_buffers_that_alias_nothing_count(address: int) -> None:
    steps = [placed("Unary", (CircularBuffer(4096, CORES), address), (CircularBuffer(2048, CORES, alias=SLOT), 0))]
    assert compare(recorded(), accepted(steps=steps))["cbs"].agrees is (address == 105824)


def test_cores_are_compared_apart_from_sizes() -> None:
    fewer = CoreRangeSet([CoreRange((0, 0), (3, 7))])
    steps = [placed("Unary", (CircularBuffer(4096, fewer), 105824), (CircularBuffer(2048, fewer, alias=SLOT), 999))]
    verdicts = compare(recorded(), accepted(steps=steps))
    assert fields(verdicts, False) == {"cores"}


def test_of_staging_buffers_the_sizes_count_and_scratchpads_do_not() -> None:
    step = {"op": "Pad", "cbs": [], "staging": [[512, 1, RANGES], [64, 0, RANGES]]}
    ours = placed(
        "Pad",
        (CircularBuffer(64, CORES, dataflow=True), 77),
        (CircularBuffer(512, CORES, alias=SLOT, dataflow=True), 0),
        (CircularBuffer(32, CORES, dataflow=True, scratch=True), 99),
    )
    assert not fields(compare(recorded(ops=[step]), accepted(steps=[ours])), False)


def test_a_footprint_that_was_not_recorded_is_not_compared() -> None:
    verdicts = compare(recorded(ops=[{"op": "Unary", "cbs": [], "staging": []}]), accepted())
    assert "cbs" not in verdicts and "cores" not in verdicts and verdicts["steps"].agrees


@pytest.mark.parametrize("status", ["crash", "timeout"])
def test_where_the_library_fails_a_clear_refusal_is_right(status: str) -> None:
    assert compare({"status": status}, Answer("error", "no"))["status"].agrees
    assert not compare({"status": status}, accepted())["status"].agrees
    assert not compare({"status": status}, Answer("broken", "KeyError: 1"))["status"].agrees


@pytest.mark.parametrize("status", ["error", "input_error"])
def test_refusals_compare_their_text_with_program_numbers_masked(status: str) -> None:
    text = "buffers in program {} clash with L1 buffers at 1234"
    verdicts = compare({"status": status, "message": text.format(7)}, Answer("error", text.format(12)))
    assert fields(verdicts, True) == {"status", "message"}
    other = compare({"status": status, "message": text.format(7)}, Answer("error", "at 1235"))
    assert fields(other, False) == {"message"}


def test_nothing_else_is_compared_where_the_status_differs() -> None:
    assert set(compare(recorded(), Answer("error", "no"))) == {"status"}
    assert set(compare({"status": "error", "message": "no"}, accepted())) == {"status"}
    assert not compare({"status": "error", "message": "no"}, Answer("broken", "no"))["status"].agrees
