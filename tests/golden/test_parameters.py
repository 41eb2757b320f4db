# SPDX-License-Identifier: Apache-2.0
"""Recorded calls with parameters that used to be ignored: refused, placed and planned as by the real library.

The first of them are those of the second corpus' `drops`, the others were recorded in the same form.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from tests.golden.replaying import replay
from tests.virtual.ops.recorded_calls import read

RECORDS = read(Path(__file__).parent / "data" / "parameters.jsonl.gz")
OPS = sorted({record["case"]["op"] for record in RECORDS})

_PROGRAM = {"cores", "cbs", "peak"}
KNOWN: dict[str, tuple[str, set[str]]] = {
    "gather row major": (
        "rows are gathered by a program that is not modelled",
        {"steps", "factories", "allocations", "graph_peak", *_PROGRAM},
    ),
    "gather out wrong dtype": ("refused: the kernel writes values of another dtype as they are", {"status"}),
    "embedding output tile": ("refused: rows are written into tiles", {"status"}),
    "embedding output wrong dtype": ("refused: the kernel writes values of another dtype as they are", {"status"}),
    "batch_norm out wrong shape": ("refused: the output is written in part", {"status"}),
    "tilize tile": ("there are no tiles but those of 32x32", {"status"}),
    "addmm output_tile16": ("there are no tiles but those of 32x32", {"message"}),
    "transformer.scaled_dot_product_attention compute fp32": ("its float32 buffers are not modelled", {"cbs"}),
    "add sub_device_id": ("refused: a card has one sub-device", {"status"}),
    "add sub_device_id 1": ("refused, before its number is looked at", {"status"}),
}
"""Calls that differ from the recording, the reason, and the fields."""


@pytest.mark.filterwarnings("ignore:.*leaves the tensor that was given")
@pytest.mark.parametrize("op", OPS)
def test_calls_are_planned_as_recorded(op: str) -> None:
    differences = defaultdict(dict)
    for record in (r for r in RECORDS if r["case"]["op"] == op):
        name = f"{op} {record['case']['what']}"
        known = KNOWN.get(name, ("", set()))[1]
        for field, verdict in replay(record).items():
            if not verdict.agrees and field not in known:
                differences[name][field] = verdict.recorded, verdict.found
    assert not differences


def test_known_differences_are_still_there() -> None:
    for record in RECORDS:
        name = f"{record['case']['op']} {record['case']['what']}"
        if name in KNOWN:
            differing = {field for field, verdict in replay(record).items() if not verdict.agrees}
            assert differing == KNOWN[name][1], name
