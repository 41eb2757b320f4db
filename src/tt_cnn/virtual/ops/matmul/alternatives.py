# SPDX-License-Identifier: Apache-2.0
"""Other forms of a product that may take less time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tt_cnn.virtual.ops.matmul.program import MatmulProgram
from tt_cnn.virtual.planning.alternatives import MEASURE, TIME, Alternative, CallSite
from tt_cnn.virtual.types.compute_config import WormholeComputeKernelConfig
from tt_cnn.virtual.types.enums import DataType, MathFidelity
from tt_cnn.virtual.types.tensor_spec import Spec


def alternatives(site: CallSite) -> Iterator[Alternative]:
    """Of a call that begins with the product and makes its output itself.

    The compute configuration is always given: the default would follow what is changed.
    """
    program = site.steps[0].program if site.steps else None
    if not isinstance(program, MatmulProgram) or "output" in site.attributes["has"]:
        return
    now = program.compute
    compute = WormholeComputeKernelConfig(
        math_fidelity=now.fidelity,
        math_approx_mode=now.approx,
        fp32_dest_acc_en=now.fp32,
        packer_l1_acc=now.packer_l1,
        dst_full_sync_en=now.full_sync,
    )
    kept = {"compute": compute}
    grid = site.card.grid
    yield Alternative(
        "core grid",
        f"core_grid=ttnn.CoreGrid(x={grid[0]}, y={grid[1]})",
        {**kept, "program": None, "core_grid": grid},
        {"core_grid": grid},
        TIME,
    )
    right = site.specs[1]
    if right.dtype in (DataType.BFLOAT16, DataType.FLOAT32) and 1 in site.constants:
        smaller = Spec(right.shape, DataType.BFLOAT8_B, right.layout, right.memory_config)
        words, change = "weights_dtype=ttnn.bfloat8_b", {"weights_dtype": DataType.BFLOAT8_B}
        yield Alternative("weights", words, kept, change, TIME, {1: smaller}, MEASURE)
    if now.fidelity is not MathFidelity.LoFi:
        quicker = replace(compute, math_fidelity=MathFidelity.LoFi)
        yield Alternative(
            "fidelity",
            "math_fidelity=ttnn.MathFidelity.LoFi",
            {"compute": quicker},
            {"math_fidelity": MathFidelity.LoFi},
            TIME,
            caution=MEASURE,
        )
