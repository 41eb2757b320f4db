# SPDX-License-Identifier: Apache-2.0
"""The real ttnn-visualizer opens the folder and tells what is in the profile."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tt_cnn.reports.profile import Profile
from tt_cnn.reports.serving import Visualizer, visualizer_command
from tt_cnn.reports.visualizer_database import write_database
from tt_cnn.virtual.types.enums import BufferType


@pytest.fixture(scope="module")
def visualizer(folder: Path) -> Iterator[Visualizer]:
    command = visualizer_command()
    assert command is not None, "ttnn-visualizer is a dependency of the tests: pip install 'tt-cnn[dev]'"
    with Visualizer(folder, command) as running:
        yield running


@pytest.fixture(scope="module")
def operations(visualizer: Visualizer) -> list[dict[str, Any]]:
    return visualizer.ask("operations")


def test_operations_are_our_calls(operations: list[dict[str, Any]], unet: Profile) -> None:
    calls = sorted({row.call for row in unet.rows})
    assert len(operations) == len(calls)
    for call, operation in zip(calls, operations, strict=True):
        rows = [row for row in unet.rows if row.call == call]
        assert operation["name"] == rows[0].call_name
        assert operation["duration"] == pytest.approx(sum(row.cost.ns for row in rows) / 1e9)
        arguments = {one["name"]: one["value"] for one in operation["arguments"]}
        assert arguments == dict(rows[0].arguments) | ({"layer": rows[0].layer} if rows[0].layer else {})
        started = [n for n in operation["device_operations"] if n["node_type"] == "function_start"]
        assert [n["params"]["name"] for n in started[1:]] == [row.device_operation for row in rows]
        buffers = [n for n in operation["device_operations"] if n["node_type"] == "circular_buffer_allocate"]
        assert [int(n["params"]["size"]) for n in buffers] == [b.bytes for row in rows for b in row.circular_buffers]


def test_tensors_flow_from_call_to_call(
    visualizer: Visualizer, operations: list[dict[str, Any]], unet: Profile
) -> None:
    tensors = {tensor["id"]: tensor for tensor in visualizer.ask("tensors")}
    assert len(tensors) == len({id for op in operations for id in (t["id"] for t in (*op["inputs"], *op["outputs"]))})
    conv = next(op for op in operations if op["name"] == "ttnn.conv2d")
    first = next(row for row in unet.rows if row.call_name == "ttnn.conv2d" and row.op == "Conv2d")
    (output,) = conv["outputs"]
    ours = first.outputs[0]
    assert output["shape"] == f"Shape([{', '.join(map(str, ours.shape))}])"
    assert output["dtype"] == f"DataType.{ours.dtype}" and output["address"] == ours.address
    assert output["memory_config"]["memory_layout"] == f"TensorMemoryLayout::{ours.memory_layout}"
    shards = output["memory_config"]["shard_spec"]
    assert tuple(shards["shape"]) == ours.shard_shape and shards["grid"] == "[(x=0,y=0) - (x=7,y=7)]"
    assert output["size"] == ours.total_bytes
    assert output["producers"] == [conv["id"]] and output["consumers"] == [conv["id"] + 1]
    weights = [t for t in conv["inputs"] if tensors[t["id"]]["buffer_type"] == BufferType.DRAM.value]
    assert len(weights) == 2 and all(not t["producers"] for t in weights)


def test_what_a_call_makes_for_itself_is_none_of_its_inputs(operations: list[dict[str, Any]], unet: Profile) -> None:
    """Every input was made by another call, or was there before the first."""
    before = {b.address for b in unet.buffers if b.born_before}
    for operation in operations:
        for tensor in operation["inputs"]:
            assert tensor["producers"] or tensor["address"] in before, (operation["name"], tensor)


def test_circular_buffers_on_tables_have_the_tables_addresses(unet: Profile) -> None:
    tables = {b.address for b in unet.buffers if b.buffer_type == "L1_SMALL"}
    halos = [row for row in unet.rows if row.op == "Halo"]
    assert all(any(b.address in tables for b in row.circular_buffers if b.borrowed) for row in halos)
    assert all(b.address for row in unet.rows for b in row.circular_buffers)


def test_buffers_of_every_operation_are_those_in_use(
    visualizer: Visualizer, operations: list[dict[str, Any]], unet: Profile
) -> None:
    buffers = {op["id"]: op["buffers"] for op in visualizer.ask("operation-buffers")}
    last = {row.call: row.index for row in unet.rows}
    for operation, row in zip(operations, last.values(), strict=True):
        held = [unet.buffers[i] for i in unet.held(row)]
        ours = sorted((BufferType[b.buffer_type].value, b.address, b.bank_bytes) for b in held)
        theirs = sorted((b["buffer_type"], b["address"], b["size"]) for b in buffers[operation["id"]])
        assert theirs == ours
    l1 = visualizer.ask("buffers", buffer_type=str(BufferType.L1.value))
    assert l1 and all(b["buffer_type"] == BufferType.L1.value for b in l1)


def test_the_device_and_the_configuration_are_told(visualizer: Visualizer, unet: Profile) -> None:
    (device,) = visualizer.ask("devices")
    assert device["num_compute_cores"] == 64 and device["worker_l1_size"] == unet.card_data.l1_size
    assert device["address_at_first_l1_cb_buffer"] == unet.l1_base
    assert visualizer.ask("config")["report_name"].startswith("vanilla_unet on n150")
    assert visualizer.ask("report-metadata")["schema_version"] == "3.3"
    assert visualizer.ask("errors") == []


def test_the_performance_report_is_read_too(visualizer: Visualizer, unet: Profile) -> None:
    report = visualizer.ask("performance/perf-results/report")["report"]
    assert len(report) == len(unet.rows)
    assert sum(float(row["device_time"]) for row in report) == pytest.approx(unet.device_ns / 1e3, rel=1e-4)
    assert [float(row["pm_ideal_ns"]) for row in report] == [round(row.cost.pm_ideal_ns) for row in unet.rows]
    meta = visualizer.ask("performance/device-log/meta")
    assert meta == {"architecture": "wormhole_b0", "frequency": 1000, "max_cores": 64}
    zones = visualizer.ask("performance/device-log")
    assert {zone["zone_name"] for zone in zones} == {"BRISC-KERNEL"}


def test_it_listens_on_the_loopback_address_alone(visualizer: Visualizer) -> None:
    port = int(visualizer.base.rsplit(":", 1)[1])
    listening = [
        line.split()[1]
        for table in ("/proc/net/tcp", "/proc/net/tcp6")
        if os.path.exists(table)
        for line in Path(table).read_text().splitlines()[1:]
        if line.split()[3] == "0A" and line.split()[1].endswith(f":{port:04X}")
    ]
    assert listening == [f"0100007F:{port:04X}"]


def test_a_database_is_never_written_over(unet: Profile, folder: Path) -> None:
    with pytest.raises(FileExistsError, match="is there already"):
        write_database(unet, folder)


def test_every_table_has_its_rank(folder: Path) -> None:
    connection = sqlite3.connect(folder / "db.sqlite")
    try:
        tables = [name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")]
        ranked = {t for t in tables if "rank" in [c[1] for c in connection.execute(f"pragma table_info({t})")]}
        assert set(tables) - ranked == {"report_metadata", "source_files"}
        graphs = [json.loads(text) for (text,) in connection.execute("select captured_graph from captured_graph")]
    finally:
        connection.close()
    for graph in graphs:
        assert [node["counter"] for node in graph] == list(range(len(graph)))
        assert all(target < len(graph) for node in graph for target in node["connections"])
