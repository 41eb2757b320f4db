# SPDX-License-Identifier: Apache-2.0
"""Matmul and linear are planned as TT-NN 0.81.1 plans them: every recorded call, every field.

The recordings were made with the real library on mocked cards (n150, p150): shapes of vision networks, dtypes,
memories, biases, activations, core grids and program configs, and calls that it refuses.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.virtual.ops.recorded_calls import read, replay

RECORDS = read(Path(__file__).parents[2] / "golden" / "data" / "plans_matmul.jsonl.gz")
GROUPS = sorted({(record["card"], record["case"]["op"]) for record in RECORDS})


@pytest.mark.parametrize(("card", "op"), GROUPS, ids=lambda value: value)
def test_recorded_calls_are_planned_alike(card: str, op: str) -> None:
    differences = []
    for number, record in enumerate(RECORDS):
        if (record["card"], record["case"]["op"]) != (card, op):
            continue
        for field, verdict in replay(record).items():
            if not verdict.agrees:
                differences.append(f"{number} {field}: {verdict.recorded} became {verdict.found}")
    assert not differences, "\n".join(differences[:5])


def test_the_recordings_cover_every_program() -> None:
    factories = {step["factory"] for record in RECORDS for step in record["result"].get("ops", [])}
    assert {
        "MatmulMultiCoreProgramFactory",
        "MatmulMultiCoreReuseOptimizedProgramFactory",
        "MatmulMultiCoreReuseMcast1DProgramFactory",
        "MatmulMultiCoreReuseMcast2DProgramFactory",
    } <= factories
    assert sum(record["result"]["status"] == "error" for record in RECORDS) > 80
