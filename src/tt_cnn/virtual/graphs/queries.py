# SPDX-License-Identifier: Apache-2.0
"""What a captured graph tells: calls, outputs, peaks. The rules are those of TT-NN 0.81.1, found by asking it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from tt_cnn.virtual.errors.card_error import CardError
from tt_cnn.virtual.graphs.core_usage import CoreUsage, PeakMemoryUsagePerCore
from tt_cnn.virtual.types.enums import BufferType
from tt_cnn.virtual.types.geometry import Shape

Node = dict[str, Any]
_STATIC = {
    "circular_buffer_allocate": "cb",
    "dataflow_buffer_allocate": "dataflow_buffer",
    "scratchpad_allocate": "scratchpad",
}
_UNSIGNED = 2**32


@dataclass(frozen=True)
class TensorInfo:
    shape: Shape
    size: int
    type: BufferType

    def __repr__(self) -> str:
        return f"TensorInfo(shape={self.shape}, size={self.size}, type={self.type.name})"


def extract_calltrace(trace: list[Node]) -> list[str]:
    """The functions in the order in which they were entered."""
    return [n["params"]["name"] for n in trace if n["node_type"] == "function_start"]


def extract_peak_L1_memory_usage(trace: list[Node]) -> int:
    """Whole L1 buffers and the static buffers of a program, at their highest.

    A circular buffer counts even where it borrows a tensor's memory, a dataflow buffer only where it does not. What a
    function outside all others is given counts, once. TT-NN counts in 32 bits: a graph in which more is freed than was
    allocated has a peak near 2**32.
    """
    buffers = static = peak = 0
    given = _given_to_functions(trace)
    for node in trace:
        kind, params = node["node_type"], node["params"]
        if kind in _STATIC:
            static += 0 if params.get("borrows_memory") == "1" else params["size"]
        elif kind == "circular_buffer_deallocate_all":
            static = 0
        elif kind == "buffer_allocate" or node["counter"] in given:
            buffers += _l1_size(params)
        elif kind == "buffer_deallocate":
            buffers -= _l1_size(trace[node["connections"][0]]["params"])
        peak = max(peak, (buffers + static) % _UNSIGNED)
    return peak


def _given_to_functions(trace: list[Node]) -> set[int]:
    """Buffers that stand right behind the start of a function outside all others, with only tensors between."""
    given = set()
    depth = 0
    behind_start = False
    for node in trace:
        kind = node["node_type"]
        if behind_start and kind == "buffer":
            given.add(node["counter"])
        behind_start = (behind_start and kind in ("buffer", "tensor")) or (kind == "function_start" and not depth)
        depth += (kind == "function_start") - (kind == "function_end")
    return given


def _l1_size(params: dict[str, Any]) -> int:
    return params["size"] if params["type"] == "L1" else 0


def extract_resource_usage_per_core(
    trace: list[Node], interleaved_storage_cores: int | None = None
) -> PeakMemoryUsagePerCore:
    """What one core holds: a bank's share of each L1 buffer, and the static buffers that borrow no tensor's memory."""
    usage = CoreUsage()
    for node in trace:
        kind, params = node["node_type"], node["params"]
        if kind in _STATIC:
            if params.get("globally_allocated", params.get("borrows_memory", "0")) != "1":
                usage.place(_STATIC[kind], params["size"])
        elif kind == "circular_buffer_deallocate_all":
            usage.clear()
        elif kind == "buffer_allocate" and params["type"] == "L1":
            usage.take(params["max_size_per_bank"])
        elif kind == "buffer_deallocate" and params["type"] == "L1":
            usage.give(params["max_size_per_bank"])
    return usage.peak


def extract_circular_buffers_peak_size_per_core(trace: list[Node]) -> int:
    return extract_resource_usage_per_core(trace).peak_cb


def extract_output_tensors(trace: list[Node]) -> set[int]:
    """The nodes of the tensors that the last function to return any has returned."""
    for node in reversed(trace):
        if node["node_type"] == "function_end":
            tensors = {c for c in node["connections"] if trace[c]["node_type"] == "tensor"}
            if tensors:
                return tensors
    raise CardError("No function_end node with tensor connections found in the trace")


def extract_output_info(trace: list[Node]) -> list[TensorInfo]:
    """Of the outputs that a buffer is known of: views have none in the graph."""
    tensors = extract_output_tensors(trace)
    infos = []
    for node in trace:
        if node["node_type"] == "buffer":
            params = node["params"]
            for counter in sorted(tensors.intersection(node["connections"])):
                dims = [int(d) for d in re.findall(r"\d+", trace[counter]["params"]["shape"])]
                kind = BufferType.L1 if params["type"] == "L1" else BufferType.DRAM
                infos.append(TensorInfo(Shape(dims), params["size"], kind))
    return infos


def count_intermediate_and_output_tensors(trace: list[Node]) -> tuple[int, int]:
    """Tensors that only top-level functions hand on, and outputs. TT-NN counts none of the former in Python calls."""
    return 0, len(extract_output_tensors(trace))


def extract_total_duration_from_graph(trace: list[Node]) -> float:
    return trace[-1]["duration_ns"] / 1e9 if trace and "duration_ns" in trace[-1] else 0.0


def extract_operation_durations(trace: list[Node]) -> dict[str, float]:
    """Seconds by function name; the last call of a name counts."""
    return {n["params"]["name"]: n["duration_ns"] / 1e9 for n in trace if n["node_type"] == "function_end"}
