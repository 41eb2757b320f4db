# SPDX-License-Identifier: Apache-2.0
"""What the real library did in `recorded_program`, and the same program on the virtual card."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

from tt_cnn.conformance.live.graph_reading import read_steps, with_dry_run
from tt_cnn.conformance.live.programs import ProgramOptions, find_program
from tt_cnn.conformance.live.recorder import Request, record
from tt_cnn.conformance.live.recording import CardFacts, Recording

ROOT = Path(__file__).parents[3]
PROGRAM = "tests.conformance.live.recorded_program:small_network"
_GRAPHS = ROOT / "tests" / "golden" / "data" / "live_graph.json.gz"


@cache
def graphs() -> dict[str, Any]:
    """`NORMAL` and `NO_DISPATCH` are graphs of the real library, `peaks` what it says of the calls of the second."""
    return json.loads(gzip.decompress(_GRAPHS.read_bytes()))


def real_recording() -> Recording:
    steps, calls = read_steps(graphs()["NORMAL"])
    assert with_dry_run(steps, calls, read_steps(graphs()["NO_DISPATCH"])[0], graphs()["peaks"]) == ""
    return Recording("ttnn 0.81.1", CardFacts("WORMHOLE_B0", (8, 8)), steps, calls, mocked=True)


def virtual_recording(**options: Any) -> Recording:
    """In this process; `record` of `launching` would start another."""
    find_program(PROGRAM, ProgramOptions())
    return record(Request(PROGRAM, "", ProgramOptions(**options)))[0]
