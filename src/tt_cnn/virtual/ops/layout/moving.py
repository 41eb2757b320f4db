# SPDX-License-Identifier: Apache-2.0
"""Kinds of programs that move data: page after page, and those that upstream has a model for."""

from __future__ import annotations

from dataclasses import dataclass

from tt_cnn.virtual.arch import Card
from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.ideal_moves import IdealMove
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.ops.layout.time import pages_cycles
from tt_cnn.virtual.planning.program import Program, Step


@dataclass(frozen=True, kw_only=True)
class PagesProgram(Program):
    """Page after page, each read, waited for and written."""

    def time(self, step: Step, figures: Figures) -> Cycles:
        return pages_cycles(step, figures)


@dataclass(frozen=True, kw_only=True)
class MovingProgram(Program):
    """Its ideal cycles are those of `common_tm_bw_model`; what an op gives that model, `ideal_move` says."""

    def ideal_move(self, step: Step) -> IdealMove:
        return IdealMove.between(step.inputs[0].spec, step.outputs[0].spec)

    def ideal_cycles(self, step: Step, card: Card, figures: Figures) -> int:
        return self.ideal_move(step).cycles(card, figures)


@dataclass(frozen=True, kw_only=True)
class MovingPagesProgram(PagesProgram, MovingProgram):
    """Page after page, by an op that upstream has a model for."""
