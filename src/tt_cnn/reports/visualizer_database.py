# SPDX-License-Identifier: Apache-2.0
"""The database that `ttnn-visualizer` opens (db.sqlite, schema 3.3 of tt-metal's graph reports), and its companions.

An operation is a TT-NN call; the device operations inside it, with their circular buffers, are its captured graph.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

from tt_cnn.reports.records import Profile, Row, TensorRecord
from tt_cnn.virtual.types.enums import BufferType, TensorMemoryLayout

SCHEMA_VERSION = "3.3"
DATABASE = "db.sqlite"
CONFIG = "config.json"
DEVICE_LOG = "profile_log_device.csv"

_TABLES: dict[str, str] = {
    "devices": "device_id int, num_y_cores int, num_x_cores int, num_y_compute_cores int, num_x_compute_cores int, "
    "worker_l1_size int, l1_num_banks int, l1_bank_size int, address_at_first_l1_bank int, "
    "address_at_first_l1_cb_buffer int, num_banks_per_storage_core int, num_compute_cores int, num_storage_cores int, "
    "total_l1_memory int, total_l1_for_tensors int, total_l1_for_interleaved_buffers int, "
    "total_l1_for_sharded_buffers int, cb_limit int",
    "operations": "operation_id int, name text, duration float",
    "operation_arguments": "operation_id int, name text, value text",
    "tensors": "tensor_id int, shape text, dtype text, layout text, memory_config text, device_id int, address int, "
    "buffer_type int, size int",
    "device_tensors": "tensor_id int, device_id int, address int",
    "input_tensors": "operation_id int, input_index int, tensor_id int",
    "output_tensors": "operation_id int, output_index int, tensor_id int",
    "tensor_consumers": "tensor_id int, operation_id int, input_index int",
    "tensor_producers": "tensor_id int, operation_id int, output_index int",
    "tensor_lifetime": "tensor_id int, producer_operation_id int, last_use_operation_id int, "
    "deallocate_operation_id int, producer_source_file text, producer_source_line int, last_use_source_file text, "
    "last_use_source_line int",
    "buffers": "operation_id int, device_id int, address int, max_size_per_bank int, buffer_type int, "
    "buffer_layout int",
    "buffer_chunks": "operation_id int, device_id int, address int, bank_id int, core_x int, core_y int, "
    "chunk_address int, chunk_size int, page_size int, num_pages int, buffer_type int",
    "captured_graph": "operation_id int, captured_graph text",
    "nodes": "operation_id int, unique_id int, node_operation_id int, name text",
    "edges": "operation_id int, source_unique_id int, sink_unique_id int, source_output_index int, "
    "sink_input_index int, key int",
    "stack_traces": "operation_id int, stack_trace text, source_file_id int",
    "errors": "operation_id int, operation_name text, error_type text, error_message text, stack_trace text, "
    "timestamp text",
    "local_tensor_comparison_records": "tensor_id int, golden_tensor_id int, matches int, desired_pcc float, "
    "actual_pcc float",
    "global_tensor_comparison_records": "tensor_id int, golden_tensor_id int, matches int, desired_pcc float, "
    "actual_pcc float",
}
_WITHOUT_RANK: dict[str, str] = {
    "report_metadata": "key text unique, value text",
    "source_files": "id integer primary key, path text, contents text",
}
_DEVICE = 0


def write_database(profile: Profile, folder: Path) -> Path:
    """db.sqlite and config.json in a folder that exists."""
    path = folder / DATABASE
    if path.exists():
        raise FileExistsError(f"{path} is there already; choose another folder")
    connection = sqlite3.connect(path)
    try:
        with connection:
            connection.execute("begin")  # else each new table is written to the disk by itself
            _create(connection)
            for table, (columns, rows) in _contents(profile).items():
                marks = ", ".join("?" * (columns.count(",") + 1))
                connection.executemany(f"insert into {table} ({columns}) values ({marks})", rows)
    finally:
        connection.close()
    (folder / CONFIG).write_text(json.dumps(_configuration(profile), indent=2) + "\n", encoding="utf-8")
    return path


def write_device_log(profile: Profile, path: Path) -> Path:
    """Kernel starts and ends as the device profiler logs them; one core stands for all of a step's."""
    card = profile.card_data
    lines = [
        f"ARCH: {card.arch_name}, CHIP_FREQ[MHz]: {card.clock_ghz * 1000:.0f}, Max Compute Cores: {card.cores}",
        "PCIe slot, core_x, core_y, RISC processor type, timer_id, time[cycles since reset], data, run host ID, "
        "trace id, trace id counter, zone name, type, source line, source file, meta data",
    ]
    now = 0.0
    for row in profile.rows:
        start = now + row.gap_ns
        now = start + row.cost.ns
        call, trace = (row.index + 1) * 1024, "1,1" if row.traced else ","
        for kind, time in (("ZONE_START", start), ("ZONE_END", now)):
            lines.append(f"0,1,1,BRISC,1,{round(time * card.clock_ghz)},0,{call},{trace},BRISC-KERNEL,{kind},0,,")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _create(connection: sqlite3.Connection) -> None:
    for table, columns in _TABLES.items():
        unique = ", unique (operation_id, rank)" if table == "operations" else ""
        connection.execute(f"create table {table} ({columns}, rank int not null default 0{unique})")
    for table, columns in _WITHOUT_RANK.items():
        connection.execute(f"create table {table} ({columns})")


def _configuration(profile: Profile) -> dict[str, Any]:
    return {
        "report_name": f"{profile.model.name} on {profile.card} (tt-cnn {profile.version}, planned)",
        "enable_logging": True,
        "enable_graph_report": False,
        "enable_detailed_buffer_report": False,
        "enable_detailed_tensor_report": False,
        "enable_comparison_mode": False,
        "comparison_mode_pcc": 0.9999,
    }


# --- contents -------------------------------------------------------------------------------------------------------

_Rows = Iterable[tuple[Any, ...]]


def _contents(profile: Profile) -> dict[str, tuple[str, _Rows]]:
    """For each table its columns, as far as they are filled, and its rows."""
    calls = _calls(profile)
    book = _Tensors()
    used = [(call, [book.id(t) for t in call.inputs], [book.id(t) for t in call.outputs]) for call in calls]
    inputs = _indexed((call.id, ids) for call, ids, _ in used)
    outputs = _indexed((call.id, ids) for call, _, ids in used)
    device = _device(profile)
    return {
        "report_metadata": ("key, value", [("schema_version", SCHEMA_VERSION), _tool(profile)]),
        "devices": (", ".join(device), [tuple(device.values())]),
        "operations": ("operation_id, name, duration", [(call.id, call.name, call.seconds) for call in calls]),
        "operation_arguments": (
            "operation_id, name, value",
            [(call.id, name, value) for call in calls for name, value in call.arguments],
        ),
        "input_tensors": ("operation_id, input_index, tensor_id", inputs),
        "output_tensors": ("operation_id, output_index, tensor_id", outputs),
        "tensor_consumers": ("operation_id, input_index, tensor_id", inputs),
        "tensor_producers": ("operation_id, output_index, tensor_id", outputs),
        "tensors": (
            "tensor_id, shape, dtype, layout, memory_config, device_id, address, buffer_type, size",
            list(book.rows()),
        ),
        "device_tensors": ("tensor_id, device_id, address", [(i, _DEVICE, t.address) for i, t in book.known()]),
        "tensor_lifetime": (
            "tensor_id, producer_operation_id, last_use_operation_id, deallocate_operation_id",
            _lifetimes(profile, calls, book, used),
        ),
        "buffers": (
            "operation_id, device_id, address, max_size_per_bank, buffer_type, buffer_layout",
            _buffers(profile, calls),
        ),
        "captured_graph": (
            "operation_id, captured_graph",
            [(call.id, json.dumps(_graph(call.rows, call.name))) for call in calls],
        ),
        "stack_traces": ("operation_id, stack_trace", [(call.id, call.layer) for call in calls if call.layer]),
    }


def _tool(profile: Profile) -> tuple[str, str]:
    return "generator", f"tt-cnn {profile.version}"


@dataclass(frozen=True)
class _Call:
    id: int
    rows: list[Row]

    @property
    def name(self) -> str:
        return self.rows[0].call_name

    @property
    def layer(self) -> str:
        return self.rows[0].layer

    @property
    def seconds(self) -> float:
        return sum(row.cost.ns for row in self.rows) / 1e9

    @property
    def arguments(self) -> list[tuple[str, str]]:
        layer = [("layer", self.layer)] if self.layer else []
        return [*layer, *self.rows[0].arguments]

    @cached_property
    def inputs(self) -> list[TensorRecord]:
        """What its steps read and no step of it wrote."""
        made: set[int] = set()
        found: dict[TensorRecord, None] = {}
        for row in self.rows:
            found |= dict.fromkeys(tensor for tensor in row.inputs if tensor.buffer not in made)
            made |= {tensor.buffer for tensor in row.outputs}
        return list(found)

    @cached_property
    def outputs(self) -> list[TensorRecord]:
        return list(dict.fromkeys(self.rows[-1].outputs))


def _calls(profile: Profile) -> list[_Call]:
    grouped = groupby(profile.rows, key=lambda row: row.call)
    return [_Call(number + 1, list(rows)) for number, (_, rows) in enumerate(grouped)]


@dataclass
class _Tensors:
    """Numbers for tensors: a view of a buffer is a tensor of its own."""

    _ids: dict[TensorRecord, int] = field(default_factory=dict)

    def id(self, tensor: TensorRecord) -> int:
        return self._ids.setdefault(tensor, len(self._ids))

    def known(self) -> list[tuple[int, TensorRecord]]:
        return [(number, tensor) for tensor, number in self._ids.items()]

    def rows(self) -> Iterator[tuple[Any, ...]]:
        for number, tensor in self.known():
            yield (
                number,
                f"Shape([{', '.join(map(str, tensor.shape))}])",
                f"DataType.{tensor.dtype}",
                f"Layout.{tensor.layout}",
                _as_the_visualizer_reads_it(tensor.memory_config),
                _DEVICE,
                tensor.address,
                BufferType[tensor.buffer_type].value,
                tensor.total_bytes,
            )


_SHARDS = re.compile(r"ShardSpec\{grid=\[(.*?)\], shape=\[(\d+), (\d+)\], orientation=ShardOrientation::(\w+)\}")
_RANGE = re.compile(r'"start":\{"x":(\d+),"y":(\d+)\},"end":\{"x":(\d+),"y":(\d+)\}')


def _as_the_visualizer_reads_it(memory_config: str) -> str:
    """Shards as older versions of TT-NN spell them: ttnn-visualizer 0.108 shows none that are spelt as in 0.81.1."""

    def spelt(found: re.Match[str]) -> str:
        ranges = ", ".join("(x={},y={}) - (x={},y={})".format(*corners) for corners in _RANGE.findall(found[1]))
        shape = f"{{{found[2]}, {found[3]}}}"
        return f"ShardSpec(grid={{[{ranges}]}},shape={shape},orientation=ShardOrientation::{found[4]},halo=0)"

    return _SHARDS.sub(spelt, memory_config)


def _indexed(used: Iterable[tuple[int, list[int]]]) -> list[tuple[int, int, int]]:
    return [(call, index, tensor) for call, tensors in used for index, tensor in enumerate(tensors)]


def _lifetimes(
    profile: Profile, calls: list[_Call], book: _Tensors, used: list[tuple[_Call, list[int], list[int]]]
) -> Iterator[tuple[Any, ...]]:
    produced: dict[int, int] = {}
    last_use: dict[int, int] = {}
    for call, inputs, outputs in used:
        last_use |= dict.fromkeys(inputs, call.id)
        for output in outputs:
            produced.setdefault(output, call.id)
    by_row = {row.index: call.id for call in calls for row in call.rows}
    for number, tensor in book.known():
        buffer = profile.buffers[tensor.buffer]
        gone = by_row.get(buffer.last_row) if buffer.last_row < len(profile.rows) - 1 else None
        yield number, produced.get(number), last_use.get(number), gone


def _device(profile: Profile) -> dict[str, int]:
    card = profile.card_data
    x, y = card.grid
    return {
        "device_id": _DEVICE,
        "num_y_cores": y,
        "num_x_cores": x,
        "num_y_compute_cores": y,
        "num_x_compute_cores": x,
        "worker_l1_size": card.l1_size,
        "l1_num_banks": card.cores,
        "l1_bank_size": profile.l1_size,
        "address_at_first_l1_bank": 0,
        "address_at_first_l1_cb_buffer": profile.l1_base,
        "num_banks_per_storage_core": 1,
        "num_compute_cores": card.cores,
        "num_storage_cores": 0,
        "total_l1_memory": card.l1_size * card.cores,
        "total_l1_for_tensors": profile.l1_size * card.cores,
        "total_l1_for_interleaved_buffers": profile.l1_size * card.cores,
        "total_l1_for_sharded_buffers": profile.l1_size * card.cores,
        "cb_limit": profile.l1_size,
    }


def _buffers(profile: Profile, calls: list[_Call]) -> Iterator[tuple[int, ...]]:
    """What is in memory when a call's last step runs."""
    columns = [
        (b.address, b.bank_bytes, BufferType[b.buffer_type].value, TensorMemoryLayout[b.memory_layout].value)
        for b in profile.buffers
    ]
    for call in calls:
        for index in profile.held(call.rows[-1].index):
            yield call.id, _DEVICE, *columns[index]


def _graph(rows: list[Row], name: str) -> list[dict[str, Any]]:
    """The nodes of one call: its function, the device operations in it, their circular buffers."""
    nodes: list[dict[str, Any]] = []

    def node(kind: str, level: int, params: dict[str, Any], **more: Any) -> int:
        counter = len(nodes)
        following = {"arguments": [], "connections": [counter + 1], "counter": counter, "input_tensors": []}
        nodes.append({**following, "node_type": kind, "params": params, "stacking_level": level, **more})
        return counter

    node("capture_start", 0, {})
    node("function_start", 1, {"name": name, "inputs": len(rows[0].inputs)})
    for row in rows:
        operation = row.device_operation
        node("function_start", 2, {"name": operation, "inputs": len(row.inputs), "program_factory_type": row.factory})
        for buffer in row.circular_buffers:
            params = {
                "address": str(buffer.address),
                "core_range_set": row.core_ranges,
                "device_id": str(_DEVICE),
                "globally_allocated": str(int(buffer.borrowed)),
                "size": str(buffer.bytes),
            }
            node("circular_buffer_allocate", 3, params)
        node("circular_buffer_deallocate_all", 3, {"device_id": str(_DEVICE)})
        node("function_end", 2, {"name": operation}, duration_ns=round(row.cost.ns))
    node("function_end", 1, {"name": name}, duration_ns=round(sum(row.cost.ns for row in rows)))
    node("capture_end", 0, {})
    nodes[-1]["connections"] = []
    return nodes
