# SPDX-License-Identifier: Apache-2.0
"""The profiler's sheet as a corpus of times: cells in tt-metal's form, joined with recorded steps."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tt_cnn.conformance.live.kernel_times import SheetError, main, read_sheet, time_rows
from tt_cnn.conformance.live.recording import CardFacts, LiveCall, LiveStep, Recording
from tt_cnn.conformance.live.sheet_attributes import attributes_of, structure

SHARDED = (
    "MemoryConfig(memory_layout=TensorMemoryLayout::HEIGHT_SHARDED;buffer_type=BufferType::L1;shard_spec=ShardSpec("
    "grid={[(x=0;y=0) - (x=7;y=7)]};shape={64; 32};orientation=ShardOrientation::ROW_MAJOR);nd_shard_spec=std::nullopt)"
)
WINDOW = (
    "SlidingWindowConfig(batch_size=1; input_hw=(64;64); window_hw=(3;3); stride_hw=(1;1); padding=((1; 1); (1; 0)); "
    "output_padding = (0; 0); dilation_hw=(1;1); num_cores_nhw=64; num_cores_c=1; "
    "core_range_set_={[(x=0;y=0) - (x=7;y=7)]}; is_transpose=false)"
)
CONVOLUTION = {
    "activation": "BasicUnaryWithParam<float>(op_type=UnaryOpType::RELU;param={})",
    "block_config": "Conv2dBlockConfig(act_block_h_ntiles=2;act_block_w_ntiles=3;out_subblock_h_ntiles=1;"
    "out_subblock_w_ntiles=1)",
    "compute_kernel_config": "WormholeComputeKernelConfig(math_fidelity=LoFi;math_approx_mode=1;fp32_dest_acc_en=1;"
    "packer_l1_acc=0;dst_full_sync_en=0;throttle_level=ThrottleLevel::NO_THROTTLE)",
    "enable_act_double_buffer": "true",
    "force_split_reader": "std::nullopt",
    "groups": "1",
    "has_bias": "true",
    "input_tensor_shape": "{1; 64; 64; 32}",
    "memory_config": SHARDED,
    "output_channels": "32",
    "parallelization_config": "Conv2dParallelizationConfig(grid_size=(x=8;y=8);num_cores_nhw=64;num_cores_c_in=1;"
    "num_cores_c_out=1;per_core_out_matrix_height_ntile=2;per_core_out_matrix_width_ntile=1)",
    "sliding_window_config": WINDOW,
    "untilize_out": "false",
}
BINARY = {
    "binary_op_type": "BinaryOpType::ADD",
    "is_sfpu": "false",
    "lhs_activations": "SmallVector([])",
    "memory_config": SHARDED,
    "worker_grid": "{[(x=0;y=0) - (x=7;y=7)]}",
}


def tensor(name: str, shape: str, dtype: str = "BFLOAT16") -> dict[str, str]:
    dims = dict(zip("WZYX", shape.split(), strict=True))
    cells = {f"{name}_{d}_PAD[LOGICAL]": cell for d, cell in dims.items()}
    return cells | {f"{name}_LAYOUT": "TILE", f"{name}_DATATYPE": dtype, f"{name}_MEMORY": "DEV_0_L1_HEIGHT_SHARDED"}


def line(code: str, number: int, ns: float, attributes: dict[str, str], *tensors: dict[str, str]) -> dict[str, str]:
    text = "; ".join(f"'{name}': '{value}'" for name, value in attributes.items())
    cells = {"OP CODE": code, "OP TYPE": "tt_dnn_device", "GLOBAL CALL COUNT": str(number * 1024)}
    cells |= {"ATTRIBUTES": f"{{{text}}}", "MATH FIDELITY": "LoFi", "CORE COUNT": "64"}
    cells["DEVICE KERNEL DURATION [ns]"] = str(ns)
    for one in tensors:
        cells |= one
    return cells


ROWS = "1[1] 1[1] 4096[4096] 32[32]"
LINES = [
    line(
        "Conv2dDeviceOperation",
        2,
        38341,
        CONVOLUTION,
        tensor("INPUT_0", ROWS),
        tensor("INPUT_1", "1[1] 1[1] 288[288] 32[32]", "BFLOAT8_B"),
        tensor("OUTPUT_0", ROWS),
    ),
    line("BinaryNgDeviceOperation", 3, 900, BINARY, tensor("INPUT_0", ROWS), tensor("OUTPUT_0", ROWS)),
    line("BinaryNgDeviceOperation", 4, 1000, BINARY, tensor("INPUT_0", ROWS), tensor("OUTPUT_0", ROWS)),
    line("UnaryDeviceOperation", 1, 500, {}, tensor("INPUT_0", "1[1] 1[1] 32[1] 32[10]"), tensor("OUTPUT_0", ROWS)),
    {"OP CODE": "a mark", "OP TYPE": "signpost"},
]


@pytest.fixture
def sheet(tmp_path: Path) -> Path:
    path = tmp_path / "ops_perf_results.csv"
    columns = list(dict.fromkeys(name for one in LINES for name in one))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(LINES)
    return path


def recording(ops: list[str]) -> Recording:
    spec: dict[str, Any] = {"shape": [1, 1, 4096, 32], "dtype": "BFLOAT16", "layout": "TILE", "address": 0}
    spec |= {"memory_layout": "HEIGHT_SHARDED", "buffer_type": "L1", "shard_shape": [64, 32]}
    spec |= {"orientation": "ROW_MAJOR", "grid": [[[0, 0], [7, 7]]]}
    steps = [LiveStep(op, f"{op}ProgramFactory", inputs=[spec], outputs=[spec]) for op in ops]
    return Recording("ttnn 0.81.1", CardFacts("WORMHOLE_B0", (8, 8)), steps, [LiveCall("ttnn.net", len(ops))])


def rows_of(sheet: Path, ops: list[str]) -> list[dict[str, Any]]:
    return time_rows(read_sheet(sheet), recording(ops), program="net", card="n150", source="a sheet", day="2026-11-16")


def test_rows_have_the_fields_of_a_corpus_of_times(sheet: Path) -> None:
    unary, conv, binary = rows_of(sheet, ["Unary", "Conv2d", "BinaryNg", "BinaryNg"])
    assert [row["op"] for row in (unary, conv, binary)] == ["unary", "conv2d", "binary"]
    assert {"id", "card", "args", "measure", "date", "source", "confidence", "set", "notes"} <= conv.keys()
    assert (binary["ns"], binary["n"], binary["min_ns"], binary["max_ns"]) == (950, 2, 900, 1000)
    assert binary["virtual"] == {"card": "n150", "grid": [8, 8], "dram_banks": 12}
    assert binary["planned"]["factory"] == "BinaryNgProgramFactory" and binary["planned"]["cores"] == 64
    assert binary["planned"]["inputs"][0]["shard"] == {
        "shape": [64, 32],
        "grid": "{[0-0 - 7-7]}",
        "orientation": "ROW_MAJOR",
    }


def test_attributes_are_taken_apart(sheet: Path) -> None:
    _, conv, binary = rows_of(sheet, ["Unary", "Conv2d", "BinaryNg", "BinaryNg"])
    sharded = {"layout": "HEIGHT_SHARDED", "buffer": "L1", "grid": "{[(x=0;y=0)-(x=7;y=7)]}"}
    assert binary["args"]["attrs"] == {
        "binary_op_type": "BinaryOpType::ADD",
        "memory_config": {**sharded, "shard": [64, 32], "orient": "ROW_MAJOR"},
        "worker_grid": "{[(x=0;y=0)-(x=7;y=7)]}",
    }
    told = conv["args"]["conv"]
    assert (told["kernel"], told["padding_tblr"], told["in_channels"]) == ([3, 3], [1, 1, 1, 0], 32)
    assert (told["weights_dtype"], told["fidelity"], told["fp32_dest_acc"]) == ("BFLOAT8_B", "LoFi", True)
    assert (told["act_block_h_ntiles"], told["grid"], told["activation"]) == (2, [8, 8], "RELU")
    assert told["act_double_buffer"] and not told["weights_double_buffer"] and told["split_reader"] == "auto"


def test_structures_without_names_of_fields() -> None:
    """As TT-NN 0.81.1 prints them in its graphs."""
    window = (
        "SlidingWindowConfig(1; 0; {32; 16}; {3; 3}; {1; 2}; array(1; 1; 0; 0); {0; 0}; {1; 1}; std::nullopt; 1; 1; 32"
    )
    memory = (
        "MemoryConfig(memory_layout=TensorMemoryLayout::HEIGHT_SHARDED;buffer_type=BufferType::L1;shard_spec=ShardSpec{"
        'grid=[{"start":{"x":0;"y":0};"end":{"x":7;"y":3}]; shape=[32; 16]; orientation=ShardOrientation::ROW_MAJOR})'
    )
    told = attributes_of(f"{{'config': '{window}; 32; 1; <CoreRangeSet>; 1)'; 'memory_config': '{memory}'}}")
    assert (told["config"]["batch"], told["config"]["input_hw"], told["config"]["stride_hw"]) == (1, [32, 16], [1, 2])
    assert (told["config"]["padding_tblr"], told["config"]["num_cores_nhw"]) == ([1, 1, 0, 0], 32)
    assert told["memory_config"] == {
        "layout": "HEIGHT_SHARDED",
        "buffer": "L1",
        "grid": "{[0-0-7-3]}",
        "shard": [32, 16],
        "orient": "ROW_MAJOR",
    }
    assert structure("Conv2dBlockConfig(1; 2)", ("height", "width")) == {"height": "1", "width": "2"}


def test_a_convolution_in_another_form_keeps_its_attributes(tmp_path: Path) -> None:
    path = tmp_path / "sheet.csv"
    cells = line("Conv2dDeviceOperation", 1, 10, {"groups": "1"}, tensor("INPUT_0", ROWS))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(cells))
        writer.writeheader()
        writer.writerow(cells)
    (timed,) = read_sheet(path)
    assert timed.args["attrs"] == {"groups": "1"} and "conv" not in timed.args


def test_padded_shapes_stand_where_they_differ(sheet: Path) -> None:
    unary = rows_of(sheet, ["Unary", "Conv2d", "BinaryNg", "BinaryNg"])[0]
    assert unary["args"]["inputs"][0] == {
        "shape": [1, 1, 1, 10],
        "padded": [1, 1, 32, 32],
        "layout": "TILE",
        "dtype": "BFLOAT16",
        "mem": "L1_HEIGHT_SHARDED",
    }


def test_other_steps_than_recorded_are_not_replayable(sheet: Path) -> None:
    rows = rows_of(sheet, ["Unary", "Conv2d"])
    assert not any(row["replayable"] or "planned" in row for row in rows)
    assert "are not those that were recorded" in rows[0]["reason"]


def test_the_command_writes_a_corpus(sheet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps, out = tmp_path / "steps_my_net_n150.json.gz", tmp_path / "times.jsonl.gz"
    recording(["Unary", "Conv2d", "BinaryNg", "BinaryNg"]).save(steps)
    assert main(str(sheet), str(steps), str(out)) == 0
    assert "3 different kernel calls" in capsys.readouterr().out
    rows = [json.loads(one) for one in gzip.decompress(out.read_bytes()).splitlines()]
    assert rows[0]["id"].startswith("my_net-unary-") and rows[0]["card"] == "n150"


def test_other_files_are_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text("a,b\n1,2\n")
    with pytest.raises(SheetError, match="no sheet of the profiler, the columns OP CODE"):
        read_sheet(other)
    with pytest.raises(SheetError, match="cannot be read"):
        read_sheet(tmp_path / "missing.csv")
