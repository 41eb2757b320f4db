# SPDX-License-Identifier: Apache-2.0
"""The program of `moves` on the virtual card beside what the real library did in it."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.conformance.live.recorded import ROOT
from tt_cnn.conformance.live.comparison import compare
from tt_cnn.conformance.live.programs import ProgramOptions, find_program
from tt_cnn.conformance.live.recorder import Request, record
from tt_cnn.conformance.live.recording import load_recording

PROGRAM = "tests.conformance.live.moves:moves"
RECORDING = ROOT / "tests" / "golden" / "data" / "live_moves.json.gz"


@pytest.mark.filterwarnings("ignore:.*which nothing has written")
def test_moves_go_by_where_the_new_memory_lies() -> None:
    real = load_recording(RECORDING)
    find_program(PROGRAM, ProgramOptions())
    virtual = record(Request(PROGRAM, "", ProgramOptions()))[0]
    found = compare(real, virtual)
    assert [f"step {one.step}: {one.field}" for one in found.differences] == []
    assert found.equal == found.steps == 214
    factories = Counter(step.factory for step in real.steps if step.op == "Move")
    assert factories == {"MoveShardedProgramFactory": 43, "MoveProgramFactory": 18, "MoveOverlapProgramFactory": 15}
