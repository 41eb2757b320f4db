# SPDX-License-Identifier: Apache-2.0
"""The sheet is what tt-metal's profiler writes: the real tt-perf-report reads it and comes to our numbers."""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tt_cnn.reports.csv_cells import cell
from tt_cnn.reports.performance_sheet import attributes_text, header, sheet_name, write_sheet
from tt_cnn.reports.profile import Profile, Signpost

PERF_REPORT = Path(sys.executable).with_name("tt-perf-report")


def perf_report(sheet: Path, *options: str) -> str:
    done = subprocess.run(
        [PERF_REPORT, sheet, "--no-color", *options], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not done.stderr, done.stderr
    return done.stdout


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


CASES = [("vanilla_unet", "n150"), ("vanilla_unet", "p150"), ("resnet50", "n150"), ("yolov4", "n150")]


@pytest.mark.parametrize(("name", "card"), CASES)
def test_tt_perf_report_comes_to_our_totals(
    name: str, card: str, profile_of: Callable[..., Profile], tmp_path: Path
) -> None:
    profile = profile_of(name, card=card)
    sheet = write_sheet(profile, tmp_path / sheet_name(profile))
    theirs = tmp_path / "theirs.csv"
    text = perf_report(sheet, "--csv", str(theirs), "--no-summary")
    arch = {"n150": "wormhole", "p150": "blackhole"}[card]
    assert f"Architecture: {arch}, Worker cores: {profile.card_data.cores}" in text
    complaints = [line for line in text.splitlines() if "Warning" in line and "ConvertTo" not in line]
    assert complaints == []  # it knows no category of convert_to_hwc and convert_to_chw, whoever runs them
    told = [row for row in rows_of(theirs) if row["OP Code"]]
    assert len(told) == len(profile.rows)
    for row, their in zip(profile.rows, told, strict=True):
        assert their["OP Code"].split()[0] == row.device_operation
        assert float(their["Device Time"]) == pytest.approx(row.cost.ns / 1e3, abs=0.001)
        assert float(their["Cores"]) == row.cores and float(their["Available Cores"]) == row.available_cores
        if row.op == "Conv2d" and "window.window" in dict(row.attributes):
            height, width = map(int, dict(row.attributes)["window.window"].strip("()").split(","))
            # what it counts: pixels and channels as they are in memory, and no groups
            pixels, channels = row.outputs[0].padded_shape[-2], row.inputs[0].padded_shape[-1]
            flops = 2 * pixels * channels * height * width * row.inputs[1].padded_shape[-1]
            assert float(their["FLOPs"]) * 1e12 == pytest.approx(flops / round(row.cost.ns) * 1e9, rel=0.01)
    total = sum(float(row["Device Time"]) for row in told)
    assert total == pytest.approx(profile.device_ns / 1e3, rel=1e-4)


def test_attributes_are_tt_nns_configurations(profile_of: Callable[..., Profile]) -> None:
    profile = profile_of("resnet50")
    seen = set()
    for row in profile.rows:
        text, call = attributes_text(row), profile.calls[row.call]
        if row.op in ("Conv2d", "Halo") and call.operation == "conv2d":
            height, width = call.attributes["conv"].kernel
            assert f"window_hw=({height};{width});" in text and "memory_layout=TensorMemoryLayout::" in text
        if row.op == "Conv2d" and call.operation == "conv2d":
            settings = call.attributes["settings"]
            assert f"'enable_act_double_buffer': '{str(settings.enable_act_double_buffer).lower()}'" in text
            assert "Conv2dBlockConfig(act_block_h_ntiles=" in text and "per_core_out_matrix_height_ntile=" in text
            seen.add(f"double {settings.enable_act_double_buffer}")
        if row.op == "Matmul":
            assert re.search(r"MatmulProgramConfig\(compute_with_storage_grid_size=\(\d+;\d+\);in0_block_w=\d+;", text)
            assert "per_core_M=" in text and "per_core_N=" in text
            seen.add(call.operation)
    assert seen == {"double True", "double False", "conv2d", "linear"}
    bare = attributes_text(replace(profile.rows[-1], step=None))
    assert bare.startswith("{") and "program_config" not in bare  # as it is when it was read from a file


def test_the_stacked_report_has_our_sums(unet: Profile, tmp_path: Path) -> None:
    sheet = write_sheet(unet, tmp_path / sheet_name(unet))
    text = perf_report(sheet)
    (total,) = re.findall(r"(\d+) device ops, 0 host ops, 0 signposts\s+([\d,]+) μs", text)
    assert int(total[0]) == len(unet.rows)
    assert int(total[1].replace(",", "")) == pytest.approx(unet.device_ns / 1e3, abs=1)
    ours: dict[str, float] = defaultdict(float)
    theirs: dict[str, float] = defaultdict(float)
    for row in unet.rows:
        ours[row.device_operation] += row.cost.ns / 1e3
    for op, time in re.findall(r"% +(\w+) \(in0:\w+\) +([\d,.]+) μs", text):
        theirs[op] += float(time.replace(",", ""))
    assert theirs == pytest.approx(ours, abs=0.1)


def test_signposts_cut_the_sheet_as_users_of_tracy_know_it(unet: Profile, tmp_path: Path) -> None:
    marked = replace(
        unet, signposts=(Signpost(10, "begin, here"), Signpost(20, "end"), Signpost(len(unet.rows), "last"))
    )
    sheet = write_sheet(marked, tmp_path / sheet_name(marked))
    kinds = [row["OP TYPE"] for row in rows_of(sheet)]
    assert [i for i, kind in enumerate(kinds) if kind == "signpost"] == [10, 21, len(unet.rows) + 2]
    options = ("--start-signpost", "begin, here", "--end-signpost", "end", "--no-summary")
    text = perf_report(sheet, *options)
    (count,) = re.findall(r"(\d+) device ops", text)
    assert int(count) == 10


def test_columns_stand_in_the_profilers_order(unet: Profile, tmp_path: Path) -> None:
    columns = header(unet)
    order = [
        *("OP CODE", "OP TYPE", "GLOBAL CALL COUNT", "DEVICE ID", "DEVICE ARCH", "ATTRIBUTES", "MATH FIDELITY"),
        *("CORE COUNT", "AVAILABLE WORKER CORE COUNT", "SUB DEVICE ID", "PARALLELIZATION STRATEGY", "HOST START TS"),
        *("DEVICE FW START CYCLE", "OP TO OP LATENCY [ns]", "DEVICE KERNEL DURATION [ns]"),
        *("DEVICE ERISC KERNEL DURATION [ns]", "DISPATCH GO SEND WAIT TIME [ns]", "INPUT_0_W_PAD[LOGICAL]"),
        *("INPUT_0_MEMORY", "INPUT_1_W_PAD[LOGICAL]", "OUTPUT_0_W_PAD[LOGICAL]", "OUTPUT_0_MEMORY", "METAL TRACE ID"),
        *("PROGRAM CACHE HIT", "PM IDEAL [ns]", "PM COMPUTE [ns]", "PM BANDWIDTH [ns]", "PM REQ I BW", "PM REQ O BW"),
        *("PM FPU UTIL (%)", "NOC UTIL (%)", "NPE CONG IMPACT (%)"),
    ]
    places = [columns.index(name) for name in order]
    assert places == sorted(places) and len(set(columns)) == len(columns)
    (first,) = [row for row in rows_of(write_sheet(unet, tmp_path / "sheet.csv")) if row["GLOBAL CALL COUNT"] == "1024"]
    assert first["INPUT_0_X_PAD[LOGICAL]"] == "307200[307200]" and first["INPUT_0_MEMORY"] == "DEV_0_DRAM_WIDTH_SHARDED"
    assert first["INPUT_0_DATATYPE"] == "BFLOAT16" and first["DEVICE ARCH"] == "wormhole_b0"


def test_hostile_names_stay_in_their_cells(unet: Profile, tmp_path: Path) -> None:
    nasty = 'neck"\n;,=cmd()\r'
    rows = (replace(unet.rows[0], layer=nasty), *unet.rows[1:])
    marked = replace(unet, rows=rows, signposts=(Signpost(0, nasty),))
    sheet = write_sheet(marked, tmp_path / "sheet.csv")
    assert len(rows_of(sheet)) == len(unet.rows) + 1
    assert len(sheet.read_text().splitlines()) == len(unet.rows) + 2
    perf_report(sheet)


FORMULAS = ("=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(1)", "=HYPERLINK(1)", "＝1+1", "-", "--1", "=")


@pytest.mark.parametrize("text", FORMULAS)
def test_names_are_no_formulas(unet: Profile, tmp_path: Path, text: str) -> None:
    marked = replace(unet, signposts=(Signpost(0, text),))
    sheet = write_sheet(marked, tmp_path / "sheet.csv")
    (mark,) = [row for row in rows_of(sheet) if row["OP TYPE"] == "signpost"]
    assert mark["OP CODE"] == f"'{text}"


def test_tt_perf_report_reads_a_sheet_with_such_names(unet: Profile, tmp_path: Path) -> None:
    marked = replace(unet, signposts=(Signpost(10, "=begin"), Signpost(20, "-end")))
    sheet = write_sheet(marked, tmp_path / "sheet.csv")
    text = perf_report(sheet, "--start-signpost", "'=begin", "--end-signpost", "'-end", "--no-summary")
    assert re.findall(r"(\d+) device ops", text) == ["10"]


@pytest.mark.parametrize("value", [-5, -0.5, 3, "-5", "-0.5", "+3", "-1e9", "-inf", "", "plain", "1=2", None])
def test_numbers_and_other_texts_stay_as_they_are(value: object) -> None:
    assert cell(value) is value


@pytest.mark.parametrize("text", ["\t=1", "\r=1", "\n=1", "\t-5", "-5 "])
def test_blanks_do_not_hide_formulas(text: str) -> None:
    assert cell(text) == f"'{text}"
