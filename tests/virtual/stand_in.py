# SPDX-License-Identifier: Apache-2.0
"""A program for ops that tests make up."""

from __future__ import annotations

from dataclasses import dataclass

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.planning.program import Program, Step


@dataclass(frozen=True, kw_only=True)
class StandIn(Program):
    factory: str = "Factory"

    def time(self, step: Step, figures: Figures) -> Cycles:
        return Cycles(1000.0)
