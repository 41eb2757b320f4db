# SPDX-License-Identifier: Apache-2.0
"""The cheapest way through all calls: dynamic programming over the tensors that are alive between two calls.

Of two ways that leave the same tensors in the same memories behind, only the cheaper one is followed, unless the other
has left more L1 free. That is exact along chains. Where branches wait for each other there are as many states as
combinations of them: the cheapest are followed then (a beam), and always the recorded way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tt_cnn.builder.overrides import LayerSettings
from tt_cnn.optimizer.graph.calls import CallGraph
from tt_cnn.optimizer.graph.options import Option
from tt_cnn.optimizer.graph.plans import Plans
from tt_cnn.optimizer.graph.state import Choice, State, first_state
from tt_cnn.optimizer.graph.walking import Walker
from tt_cnn.virtual.memory.memory import Memory
from tt_cnn.virtual.types.tensor_spec import Spec

BEAM = 24
"""States that are followed from call to call."""


@dataclass(frozen=True)
class Segment:
    """Layers between two calls where all is as in the recording: they can be changed without the others."""

    changes: Mapping[str, LayerSettings]
    saves_ns: float


@dataclass(frozen=True)
class Proposal:
    """What was found."""

    ns: float
    recorded_ns: float
    """Of the recorded way, by the same reckoning."""
    segments: tuple[Segment, ...]

    @property
    def changes(self) -> dict[str, LayerSettings]:
        return {layer: settings for segment in self.segments for layer, settings in segment.changes.items()}


class Solver:
    def __init__(
        self, graph: CallGraph, plans: Plans, options: Mapping[int, list[Option]], memory: Memory, beam: int = BEAM
    ) -> None:
        self.graph, self.plans, self.options, self.beam = graph, plans, options, beam
        self.walker = Walker(graph, plans)
        self.start = first_state(graph, plans.card, memory)
        self._groups: dict[tuple[int, tuple[Spec, ...]], list[list[tuple[float, Option]]]] = {}

    def solve(self) -> Proposal | None:
        """None where the recorded way itself cannot be followed."""
        recorded = self._recorded()
        if recorded is None:
            return None
        states = [self.start]
        for index in range(len(self.graph.calls)):
            states = self._pruned(self._after(states, index))
            if not states:
                return None
        best = min(states, key=lambda state: state.ns)
        segments = self._segments(best, recorded)
        return Proposal(best.ns, recorded[-1].ns, segments)

    def _recorded(self) -> list[State] | None:
        """The states of the recorded way after each call."""
        states = []
        state: State | None = self.start
        for index, call in enumerate(self.graph.calls):
            assert state is not None
            state = self.walker.ready(state, index)
            if state is not None:
                request = self.plans.request(call.operation, call.numbering, call.attributes)
                state = self.walker.make(state, index, call, request)
            if state is None:
                return None
            states.append(state)
        return states

    def _after(self, states: list[State], index: int) -> list[State]:
        """The states after a call, without those that another one outdoes."""
        found: dict[object, list[State]] = {}
        for state in states:
            ready = self.walker.ready(state, index)
            if ready is None:
                continue
            for after in self._steps(ready, index):
                alike = found.setdefault(after.key, [])
                if not any(_outdoes(other, after) for other in alike):
                    found[after.key] = [other for other in alike if not _outdoes(after, other)] + [after]
        return [state for alike in found.values() for state in alike]

    def _steps(self, state: State, index: int) -> Iterator[State]:
        if index not in self.options:
            after = self.walker.follow(state, index)
            if after is not None:
                yield after
            return
        call = self.graph.calls[index]
        for group in self._grouped(state, index):
            best: State | None = None
            for least_ns, option in group:
                if best is not None and state.ns + least_ns >= best.ns and (option.settings or not state.as_recorded):
                    continue
                after = self.walker.make(state, index, call, option.request)
                if after is None:
                    continue
                after.choices = Choice(index, call.layer, option.settings, state.choices)
                after.as_recorded = state.as_recorded and not option.settings
                if best is None or after.ns < best.ns or after.as_recorded:
                    yield after
                if best is None or after.ns < best.ns:
                    best = after

    def _grouped(self, state: State, index: int) -> list[list[tuple[float, Option]]]:
        """The options by what they leave behind, with what they take at least, the cheapest of each first."""
        call = self.graph.calls[index]
        specs = self.walker.specs(state, call)
        key = index, specs
        if key not in self._groups:
            groups: dict[object, list[tuple[float, int, Option]]] = {}
            for number, option in enumerate(self.options[index]):
                plan = self.plans.plan(option.request, specs, state.memory)
                if plan is not None:
                    left = plan.outputs[0].spec, bool(plan.consumed)
                    groups.setdefault(left, []).append((self.plans.least_ns(plan), number, option))
            self._groups[key] = [
                [(ns, option) for ns, _, option in sorted(group, key=_cost)] for group in groups.values()
            ]
        return self._groups[key]

    def _pruned(self, found: list[State]) -> list[State]:
        states = sorted(found, key=lambda state: state.ns)
        kept = states[: self.beam]
        kept += [state for state in states[self.beam :] if state.as_recorded]
        return kept

    # --- what to change -------------------------------------------------------------------------------------------

    def _segments(self, best: State, recorded: list[State]) -> tuple[Segment, ...]:
        """The best way again, cut where it leaves the same behind as the recorded one."""
        chosen = {choice.call: choice for choice in _choices(best)}
        segments: list[Segment] = []
        changes: dict[str, LayerSettings] = {}
        behind = 0.0
        state: State | None = self.start
        for index, call in enumerate(self.graph.calls):
            assert state is not None
            state = self.walker.ready(state, index)
            assert state is not None
            choice = chosen.get(index)
            if choice is None:
                state = self.walker.follow(state, index)
            else:
                option = next(one for one in self.options[index] if one.settings is choice.settings)
                state = self.walker.make(state, index, call, option.request)
                if choice.settings:
                    changes[choice.layer] = choice.settings
            assert state is not None, "the way was followed before"
            if changes and state.key == recorded[index].key:
                segments.append(Segment(changes, (recorded[index].ns - state.ns) - behind))
                changes, behind = {}, recorded[index].ns - state.ns
        if changes:
            assert state is not None
            segments.append(Segment(changes, (recorded[-1].ns - state.ns) - behind))
        return tuple(segments)


def _outdoes(one: State, other: State) -> bool:
    """Of two with the same tensors: it took no longer, and leaves as much L1 free in one piece below the tensors."""
    if other.as_recorded and not one.as_recorded:
        return False
    return one.ns <= other.ns and one.room >= other.room


def _cost(item: tuple[float, int, Option]) -> tuple[float, int]:
    return item[0], item[1]


def _choices(state: State) -> Iterator[Choice]:
    choice = state.choices
    while choice is not None:
        yield choice
        choice = choice.before
