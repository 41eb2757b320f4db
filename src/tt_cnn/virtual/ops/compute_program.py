# SPDX-License-Identifier: Apache-2.0
"""Programs that take a compute kernel config."""

from __future__ import annotations

from dataclasses import dataclass

from tt_cnn.virtual.ops.matmul.problem import Compute
from tt_cnn.virtual.planning.program import Program
from tt_cnn.virtual.types.enums import MathFidelity


@dataclass(frozen=True, kw_only=True)
class ComputeProgram(Program):
    compute: Compute | None
    """As the caller gave it, if so."""

    @property
    def fidelity(self) -> MathFidelity | None:
        return None if self.compute is None else self.compute.fidelity
