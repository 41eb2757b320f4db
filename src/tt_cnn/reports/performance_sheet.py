# SPDX-License-Identifier: Apache-2.0
"""The performance sheet that tt-metal's profiler writes (ops_perf_results_*.csv), for tt-perf-report and spreadsheets.

Columns are those of tt-metal's `tools/tracy/process_ops_logs.py`, in its order. What only a real run can tell (cycles
of single processors, host times, kernel sources) is left empty, as the profiler leaves what it did not measure.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from tt_cnn.reports.csv_cells import cell
from tt_cnn.reports.records import Profile, Row, Signpost, TensorRecord
from tt_cnn.virtual.ops.conv2d.program import ConvProgram
from tt_cnn.virtual.ops.matmul.program import MatmulProgram
from tt_cnn.virtual.ops.sliding_window.halo import HaloProgram
from tt_cnn.virtual.ops.upsample.bilinear import BilinearProgram
from tt_cnn.virtual.planning.program import Program

_DIMENSIONS = ("W", "Z", "Y", "X")
_RISCS = ("BRISC", "NCRISC", "TRISC0", "TRISC1", "TRISC2", "ERISC")

_BEFORE_TENSORS = (
    *("OP CODE", "OP TYPE", "GLOBAL CALL COUNT", "DEVICE ID", "DEVICE ARCH", "ATTRIBUTES", "MATH FIDELITY"),
    *("CORE COUNT", "AVAILABLE WORKER CORE COUNT", "SUB DEVICE ID", "PARALLELIZATION STRATEGY"),
    *("HOST START TS", "HOST END TS", "HOST DURATION [ns]", "DEVICE FW START CYCLE", "DEVICE FW END CYCLE"),
    *("OP TO OP LATENCY [ns]", "OP TO OP LATENCY BR/NRISC START [ns]", "DEVICE FW DURATION [ns]"),
    *("DEVICE KERNEL DURATION [ns]", "DEVICE KERNEL DURATION DM START [ns]"),
    *(f"DEVICE KERNEL DURATION PER CORE {each} [ns]" for each in ("MIN", "MAX", "AVG")),
    "DEVICE KERNEL FIRST TO LAST START [ns]",
    *(f"DEVICE {risc} KERNEL DURATION [ns]" for risc in _RISCS),
    *("DEVICE COMPUTE CB WAIT FRONT [ns]", "DEVICE COMPUTE CB RESERVE BACK [ns]"),
    *("DISPATCH TOTAL CQ CMD OP TIME [ns]", "DISPATCH GO SEND WAIT TIME [ns]"),
)
_AFTER_TENSORS = (
    *("METAL TRACE ID", "METAL TRACE REPLAY SESSION ID", "COMPUTE KERNEL SOURCE", "COMPUTE KERNEL HASH"),
    *("DATA MOVEMENT KERNEL SOURCE", "DATA MOVEMENT KERNEL HASH", "PROGRAM HASH", "PROGRAM CACHE HIT"),
    *(f"{risc} MAX KERNEL SIZE [B]" for risc in ("BRISC", "NCRISC", "TRISC 0", "TRISC 1", "TRISC 2", "ERISC")),
    *("PM IDEAL [ns]", "PM COMPUTE [ns]", "PM BANDWIDTH [ns]", "PM REQ I BW", "PM REQ O BW", "PM FPU UTIL (%)"),
    *("NOC UTIL (%)", "MULTICAST NOC UTIL (%)", "DRAM BW UTIL (%)", "DRAM BW UTIL PER CTRL (%)"),
    *("ETH BW UTIL (%)", "NPE CONG IMPACT (%)"),
)


def sheet_name(profile: Profile) -> str:
    """`ops_perf_results_2026_01_31_12_00_00.csv`, dated as the profiler dates its own."""
    return f"ops_perf_results_{profile.created.replace('-', '_').replace('T', '_').replace(':', '_')}.csv"


def write_sheet(profile: Profile, path: Path) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        _write(profile, file)
    return path


def header(profile: Profile) -> list[str]:
    """All columns; as many tensors as the step with the most of them."""
    columns = list(_BEFORE_TENSORS)
    for kind, count in _tensor_counts(profile).items():
        for i in range(count):
            columns += [f"{kind}_{i}_{d}_PAD[LOGICAL]" for d in _DIMENSIONS]
            columns += [f"{kind}_{i}_{what}" for what in ("LAYOUT", "DATATYPE", "MEMORY")]
    return [*columns, *_AFTER_TENSORS]


def _tensor_counts(profile: Profile) -> dict[str, int]:
    """At least what tt-perf-report asks of every sheet: two inputs and an output."""
    return {
        "INPUT": max((len(row.inputs) for row in profile.rows), default=2),
        "OUTPUT": max((len(row.outputs) for row in profile.rows), default=1),
    }


def _write(profile: Profile, file: TextIO) -> None:
    writer = csv.DictWriter(file, header(profile), restval="", lineterminator="\n")
    writer.writeheader()
    for row in _rows(profile):
        writer.writerow({name: cell(value) for name, value in row.items()})


def _rows(profile: Profile) -> Iterator[dict[str, Any]]:
    """Signposts stand before the step that follows them. Time starts at 0 with the first kernel."""
    card = profile.card_data
    now = 0.0
    for index in range(len(profile.rows) + 1):
        for mark in (mark for mark in profile.signposts if mark.before_row == index):
            yield _signpost(mark, now)
        if index < len(profile.rows):
            row = profile.rows[index]
            start = now + row.gap_ns
            now = start + row.cost.ns
            yield _step(row, card.arch_name, start, now, card.clock_ghz)


def _signpost(mark: Signpost, now: float) -> dict[str, Any]:
    return {"OP CODE": " ".join(mark.header.split()), "OP TYPE": "signpost", "HOST START TS": round(now)}


def _step(row: Row, arch: str, start: float, end: float, clock_ghz: float) -> dict[str, Any]:
    duration = round(row.cost.ns)
    bytes_in, bytes_out = (sum(t.total_bytes for t in tensors) for tensors in (row.inputs, row.outputs))
    ideal = row.cost.pm_ideal_ns
    cells: dict[str, Any] = {
        "OP CODE": row.device_operation,
        "OP TYPE": "tt_dnn_device",
        "GLOBAL CALL COUNT": (row.index + 1) * 1024,  # the profiler keeps the lower bits for the device
        "DEVICE ID": 0,
        "DEVICE ARCH": arch,
        "ATTRIBUTES": attributes_text(row),
        "MATH FIDELITY": row.fidelity,
        "CORE COUNT": row.cores,
        "AVAILABLE WORKER CORE COUNT": row.available_cores,
        "HOST START TS": round(start),
        "HOST END TS": round(end),
        "HOST DURATION [ns]": round(end - start),
        "DEVICE FW START CYCLE": round(start * clock_ghz),
        "DEVICE FW END CYCLE": round(end * clock_ghz),
        "OP TO OP LATENCY [ns]": round(row.gap_ns),
        "DEVICE FW DURATION [ns]": duration,
        "DEVICE KERNEL DURATION [ns]": duration,
        "METAL TRACE ID": 1 if row.traced else "",
        "METAL TRACE REPLAY SESSION ID": 1 if row.traced else "",
        "PROGRAM HASH": row.program_hash,
        "PROGRAM CACHE HIT": "True",
        "PM IDEAL [ns]": round(ideal),
        "PM COMPUTE [ns]": round(row.cost.pm_compute_ns),
        "PM BANDWIDTH [ns]": round(row.cost.pm_bandwidth_ns),
        "PM REQ I BW": round(bytes_in / ideal, 3) if ideal else "",
        "PM REQ O BW": round(bytes_out / ideal, 3) if ideal else "",
        "PM FPU UTIL (%)": round(100 * row.fpu_utilization, 3),
    }
    for kind, tensors in (("INPUT", row.inputs), ("OUTPUT", row.outputs)):
        for i, tensor in enumerate(tensors):
            cells |= _tensor(f"{kind}_{i}", tensor)
    return cells


def _tensor(name: str, tensor: TensorRecord) -> dict[str, Any]:
    sizes = zip(_four(tensor.padded_shape), _four(tensor.shape), strict=True)
    dims = {f"{name}_{d}_PAD[LOGICAL]": f"{p}[{s}]" for d, (p, s) in zip(_DIMENSIONS, sizes, strict=True)}
    return dims | {
        f"{name}_LAYOUT": tensor.layout,
        f"{name}_DATATYPE": tensor.dtype,
        f"{name}_MEMORY": f"DEV_0_{tensor.memory}",
    }


def _four(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The last three sizes, and the product of those before them."""
    dims = (1,) * (4 - len(shape)) + shape
    first = 1
    for size in dims[:-3]:
        first *= size
    return (first, *dims[-3:])


# --- attributes -----------------------------------------------------------------------------------------------------

_GROUPED = frozenset(
    (
        *(f"window.{name}" for name in ("input_hw", "window", "stride", "padding", "dilation")),
        *(f"blocks.{name}" for name in ("act_h", "act_w", "sub_h", "sub_w", "out_h", "out_w")),
        *(f"config.{name}" for name in ("grid", "block_k", "subblock_h", "subblock_w", "per_core_m", "per_core_n")),
        *("double_activations", "forced_split_reader"),
    )
)
"""Attributes of steps that stand in one of TT-NN's configurations."""


def attributes_text(row: Row) -> str:
    """The attributes as the profiler writes them: `{'name': 'value'; ...}`, semicolons for commas.

    A profile that was read from a file has no programs to tell TT-NN's configurations from: it gives them one by one.
    """
    cells = {}
    if row.program is not None:
        cells = _sliding_window(row, row.program) | _convolution(row.program) | _product(row.program)
    grouped = _GROUPED if cells else frozenset()
    cells |= {name: value for name, value in row.attributes if name not in grouped and name not in cells}
    if row.layer:
        cells["layer"] = row.layer
    return "{" + "; ".join(f"'{name}': '{_plain(value)}'" for name, value in cells.items()) + "}"


def _sliding_window(row: Row, program: Program) -> dict[str, str]:
    if not isinstance(program, HaloProgram | ConvProgram | BilinearProgram):
        return {}
    window = program.window
    layout = row.outputs[0].memory_layout if row.outputs else "INTERLEAVED"
    said = (
        f"input_hw={window.input_hw}; window_hw={window.window}; stride_hw={window.stride}; padding={window.padding}; "
        f"dilation_hw={window.dilation}; "
    )
    return {
        "sliding_window_config": f"SlidingWindowConfig({said})",
        "memory_config": f"MemoryConfig(memory_layout=TensorMemoryLayout::{layout};)",
    }


def _convolution(program: Program) -> dict[str, str]:
    if not isinstance(program, ConvProgram):
        return {}
    blocks = program.blocks
    return {
        "block_config": _group(
            "Conv2dBlockConfig",
            act_block_h_ntiles=blocks.act_h,
            act_block_w_ntiles=blocks.act_w,
            out_subblock_h_ntiles=blocks.sub_h,
            out_subblock_w_ntiles=blocks.sub_w,
        ),
        "parallelization_config": _group(
            "Conv2dParallelizationConfig",
            per_core_out_matrix_height_ntile=blocks.out_h,
            per_core_out_matrix_width_ntile=blocks.out_w,
        ),
        "enable_act_double_buffer": _flag(program.double_activations),
        "enable_split_reader": _flag(bool(program.forced_split_reader)),
    }


def _product(program: Program) -> dict[str, str]:
    if not isinstance(program, MatmulProgram):
        return {}
    config = program.config
    said = _group(
        "MatmulProgramConfig",
        compute_with_storage_grid_size=config.grid,
        in0_block_w=config.block_k,
        out_subblock_h=config.subblock_h,
        out_subblock_w=config.subblock_w,
        per_core_M=config.per_core_m,
        per_core_N=config.per_core_n,
    )
    return {"program_config": said}


def _group(kind: str, **values: Any) -> str:
    return f"{kind}({''.join(f'{name}={value};' for name, value in values.items())})"


def _flag(value: bool) -> str:
    return str(value).lower()


def _plain(text: str) -> str:
    """On one line, without the comma that separates cells."""
    return " ".join(text.split()).replace(", ", ";").replace(",", ";")
