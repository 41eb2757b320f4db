"""What a captured graph tells: calls, outputs, peaks. The rules are those of TT-NN 0.81.1, found by asking it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from tt_cnn.virtual.errors.card_error import CardError
from tt_cnn.virtual.types.enums import BufferType
from tt_cnn.virtual.types.geometry import Shape

Node = dict[str, Any]
_STATIC = ("circular_buffer_allocate", "dataflow_buffer_allocate", "scratchpad_allocate")


@dataclass(frozen=True)
class TensorInfo:
    shape: Shape
    size: int
    type: BufferType

    def __repr__(self) -> str:
        return f"TensorInfo(shape={self.shape}, size={self.size}, type={self.type.name})"


@dataclass
class PeakMemoryUsagePerCore:
    """Bytes a core, each kind at its own peak and all of them together at theirs."""

    peak_cb: int = 0
    peak_l1: int = 0
    peak_dataflow_buffer: int = 0
    peak_scratchpad: int = 0
    peak_total: int = 0

    def __repr__(self) -> str:
        return (
            f"Peak Memory Usage Per Core:\n  CB:         {self.peak_cb} bytes\n  L1:         {self.peak_l1} bytes\n"
            f"  DFB:        {self.peak_dataflow_buffer} bytes\n  Scratchpad: {self.peak_scratchpad} bytes\n"
            f"  Total:      {self.peak_total} bytes"
        )


def extract_calltrace(trace: list[Node]) -> list[str]:
    """The functions in the order in which they were entered."""
    return [n["params"]["name"] for n in trace if n["node_type"] == "function_start"]


def extract_peak_L1_memory_usage(trace: list[Node]) -> int:
    """Whole L1 buffers, and every static buffer of a program once (borrowed ones too), at their highest."""
    buffers = static = peak = depth = 0
    for node in trace:
        kind, params = node["node_type"], node["params"]
        if kind == "function_start":
            if not depth:
                buffers += sum(_l1_size(trace[t]["params"]) for t in node["input_tensors"])
            depth += 1
        elif kind == "function_end":
            depth -= 1
        elif kind in _STATIC:
            static += params["size"]
        elif kind == "circular_buffer_deallocate_all":
            static = 0
        elif kind == "buffer_allocate":
            buffers += _l1_size(params)
        elif kind == "buffer_deallocate":
            buffers -= _l1_size(params)
        peak = max(peak, buffers + static)
    return peak


def _l1_size(params: dict[str, Any]) -> int:
    return params["size"] if params.get("buffer_type") == BufferType.L1.value else 0


def extract_resource_usage_per_core(
    trace: list[Node], interleaved_storage_cores: int | None = None
) -> PeakMemoryUsagePerCore:
    """What one core holds: a bank's share of each L1 buffer, and the static buffers that borrow no tensor's memory."""
    now = dict.fromkeys(_STATIC, 0)
    l1 = 0
    peak = PeakMemoryUsagePerCore()
    for node in trace:
        kind, params = node["node_type"], node["params"]
        if kind in _STATIC:
            borrowed = params.get("globally_allocated", params.get("borrows_memory", "0"))
            now[kind] += 0 if borrowed == "1" else params["size"]
        elif kind == "circular_buffer_deallocate_all":
            now = dict.fromkeys(_STATIC, 0)
        elif kind in ("buffer_allocate", "buffer_deallocate") and params["buffer_type"] == BufferType.L1.value:
            l1 += params["max_size_per_bank"] * (1 if kind == "buffer_allocate" else -1)
        peak.peak_cb = max(peak.peak_cb, now["circular_buffer_allocate"])
        peak.peak_dataflow_buffer = max(peak.peak_dataflow_buffer, now["dataflow_buffer_allocate"])
        peak.peak_scratchpad = max(peak.peak_scratchpad, now["scratchpad_allocate"])
        peak.peak_l1 = max(peak.peak_l1, l1)
        peak.peak_total = max(peak.peak_total, l1 + sum(now.values()))
    return peak


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
    infos = []
    for counter in sorted(extract_output_tensors(trace)):
        params = trace[counter]["params"]
        if "address" in params:
            dims = [int(d) for d in re.findall(r"\d+", params["shape"])]
            infos.append(TensorInfo(Shape(dims), params["size"], BufferType(params["buffer_type"])))
    return infos


def count_intermediate_and_output_tensors(trace: list[Node]) -> tuple[int, int]:
    """Tensors that only top-level functions hand on, and outputs. TT-NN counts none of the former in Python calls."""
    return 0, len(extract_output_tensors(trace))


def extract_total_duration_from_graph(trace: list[Node]) -> float:
    return trace[-1]["duration_ns"] / 1e9 if trace and "duration_ns" in trace[-1] else 0.0


def extract_operation_durations(trace: list[Node]) -> dict[str, float]:
    """Seconds by function name; the last call of a name counts."""
    return {n["params"]["name"]: n["duration_ns"] / 1e9 for n in trace if n["node_type"] == "function_end"}
