# SPDX-License-Identifier: Apache-2.0
"""Steps read from a graph that the real library captured, and the virtual card beside them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.live.recorded import ROOT, graphs, real_recording, virtual_recording
from tt_cnn import compat
from tt_cnn.conformance.live.comparison import compare
from tt_cnn.conformance.live.graph_reading import call_graphs, core_ranges, operation_name, read_steps, with_dry_run


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(ROOT)
    yield
    compat.uninstall()


def test_steps_are_the_functions_with_a_program_factory() -> None:
    steps, calls = read_steps(graphs()["NORMAL"])
    assert [step.op for step in steps[:4]] == ["InterleavedToSharded", "Halo", "Move", "Conv2d"]
    assert steps[1].factory == "UntilizeWithHaloProgramFactory"
    assert [call.name for call in calls[:4]] == ["ttnn.conv2d", "ttnn.add", "ttnn.reallocate", "ttnn.max_pool2d"]
    assert sum(call.steps for call in calls) == len(steps)


def test_a_step_has_its_specs_buffers_and_addresses() -> None:
    conv = next(step for step in read_steps(graphs()["NORMAL"])[0] if step.op == "Conv2d")
    (output,) = conv.outputs
    assert output["shape"] == [1, 1, 1024, 32]
    assert (output["dtype"], output["memory_layout"]) == ("BFLOAT16", "HEIGHT_SHARDED")
    assert output["shard_shape"] == [32, 32] and output["grid"] == [[[0, 0], [7, 3]]]
    assert [1, output["address"], 2048] in conv.buffers
    borrowed = [cb for cb in conv.cbs if cb[2]]
    assert output["address"] in [address for address, *_ in borrowed]
    assert all(cores == [[[0, 0], [7, 3]]] for *_, cores in conv.cbs)


def test_tables_of_the_sliding_window_go_with_their_program() -> None:
    halo = next(step for step in read_steps(graphs()["NORMAL"])[0] if step.op == "Halo")
    tables = [memory for memory in halo.buffers if memory[0] == 3]
    assert tables and all(table in halo.frees for table in tables)


def test_dataflow_buffers_and_peaks_come_from_the_dry_run() -> None:
    steps, calls = read_steps(graphs()["NORMAL"])
    assert not any(step.staging for step in steps)
    assert with_dry_run(steps, calls, read_steps(graphs()["NO_DISPATCH"])[0], graphs()["peaks"]) == ""
    assert steps[0].op == "InterleavedToSharded" and steps[0].staging
    assert calls[0].peak == graphs()["peaks"][0]


def test_a_dry_run_that_takes_another_way_leaves_staging_unknown() -> None:
    steps, calls = read_steps(graphs()["NORMAL"])
    other = read_steps(graphs()["NO_DISPATCH"])[0][:-1]
    assert "a dry run took another way" in with_dry_run(steps, calls, other, [])
    assert all(step.staging is None for step in steps)


def test_a_step_with_another_program_in_the_dry_run_has_no_staging_and_no_peak() -> None:
    """Matmul chooses its program by the free L1, and a dry run takes none (seen in attention on an n150)."""
    steps, calls = read_steps(graphs()["NORMAL"])
    dry = read_steps(graphs()["NO_DISPATCH"])[0]
    dry[0].factory = "Another"
    note = with_dry_run(steps, calls, dry, graphs()["peaks"])
    assert note == "1 step has another program in a dry run: staging and peak"
    assert steps[0].staging is None and calls[steps[0].call].peak is None
    others = {step.call for step in steps if step.op != "Move"} - {steps[0].call}
    assert others and all(calls[call].peak is not None for call in others)
    assert all(s.staging is not None for s in steps if s.call in others and s.op != "Move")


def test_calls_are_graphs_of_their_own() -> None:
    parts = list(call_graphs(graphs()["NO_DISPATCH"]))
    assert len(parts) == len(graphs()["peaks"])
    assert all([node["counter"] for node in part] == list(range(len(part))) for part in parts)


@pytest.mark.parametrize(
    ("function", "op"),
    [("HaloDeviceOperation", "Halo"), ("Pool2D", "Pool2D"), ("BatchNormOperation", "BatchNorm")],
)
def test_operations_by_their_short_names(function: str, op: str) -> None:
    assert operation_name(function) == op


def test_core_ranges() -> None:
    assert core_ranges("{[0-0 - 7-1], [0-2 - 1-2]}") == [[[0, 0], [7, 1]], [[0, 2], [1, 2]]]


def test_the_virtual_card_does_what_the_real_library_did() -> None:
    found = compare(real_recording(), virtual_recording())
    assert [vars(difference) for difference in found.differences] == []
    assert found.equal == found.steps == len(real_recording().steps)
    assert set(found.fields()) >= {"step", "factory", "addresses", "cbs", "staging", "buffers", "frees", "peak"}
