# SPDX-License-Identifier: Apache-2.0
"""The end of a search: the result is rebuilt with all its settings, as from its file, and must be what was seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from tt_cnn.builder.overrides import Assignment
from tt_cnn.optimizer.journal import State
from tt_cnn.optimizer.networks import NetworkSource, Rebuilt
from tt_cnn.optimizer.prediction import Refusal
from tt_cnn.optimizer.result import Standing, Verification, goal_value
from tt_cnn.optimizer.search import Goal, Guard, Verdict
from tt_cnn.optimizer.settings import settings_in_force


@runtime_checkable
class FinalGuard(Protocol):
    """A guard that looks at a result on inputs that no choice was made on."""

    def verify(self, assignment: Assignment) -> Verdict: ...


def verified(
    path: list[State], networks: NetworkSource, goal: Goal, guard: Guard | None
) -> tuple[Standing, Verification, Mapping[str, float] | None]:
    """The last state of the path that holds when it is rebuilt; the start holds, or there is nothing to return."""
    doubts: list[str] = []
    for state in reversed(path):
        own = networks.network(state.deployment.batch_size, state.deployment.chips).configurations
        rebuilt = networks.rebuilt(settings_in_force(own, state.assignment), state.deployment)
        doubt = _doubt(state, rebuilt, networks.tolerance, goal)
        pcc = None
        if not doubt and state.assignment != path[0].assignment and isinstance(guard, FinalGuard):
            verdict = guard.verify(state.assignment)
            pcc = verdict.pcc
            doubt = "" if verdict.accepted else f"{verdict.failed}, on inputs that no choice was made on"
        if not doubt and isinstance(rebuilt, Rebuilt):
            standing = Standing(state.assignment, state.deployment, rebuilt.prediction, rebuilt.input_ns)
            return standing, _verification(doubts, state is path[-1]), pcc
        doubts.append(doubt)
    raise ValueError(f"the configuration to start from cannot be rebuilt: {doubts[-1]}")


def _doubt(state: State, rebuilt: Rebuilt | Refusal, tolerance: float, goal: Goal) -> str:
    """Why a state is not what the search saw; empty where it is."""
    if isinstance(rebuilt, Refusal):
        where = f"{rebuilt.layer}: " if rebuilt.layer else ""
        return f"rebuilt it is refused: {where}{rebuilt.reason}"
    value = goal_value(goal, rebuilt.prediction)
    if abs(value - state.value) > tolerance * max(abs(state.value), 1.0):
        return f"rebuilt it takes {value:.1f}, where the search saw {state.value:.1f}"
    return ""


def _verification(doubts: list[str], is_last: bool) -> Verification:
    if is_last:
        return Verification(True, "rebuilt it takes what the search saw")
    said = f"the result did not hold ({doubts[0]}): {len(doubts)} kept attempts are taken back"
    return Verification(False, said, given_up=len(doubts))
