# SPDX-License-Identifier: Apache-2.0
"""Two profiles side by side: what got faster or slower, what moved to other memory or cores, what changed precision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import SequenceMatcher

from tt_cnn.reports.records import Profile, Row, TensorRecord

NOTICEABLE = 0.02
"""A change of a step's time that is reported: predictions are not better than that."""
_NOTICEABLE_NS = 50.0


@dataclass(frozen=True)
class StepChange:
    """A step of both profiles, or of one of them alone."""

    name: str
    op: str
    before: Row | None
    after: Row | None

    @property
    def ns(self) -> float:
        """Time won is negative."""
        return (self.after.cost.ns if self.after else 0.0) - (self.before.cost.ns if self.before else 0.0)

    @property
    def is_timed(self) -> bool:
        """Its time changed by more than nothing."""
        if self.before is None or self.after is None:
            return False
        return abs(self.ns) > max(_NOTICEABLE_NS, NOTICEABLE * self.before.cost.ns)

    @property
    def moved(self) -> tuple[str, ...]:
        """Changes of memory and cores, in words."""
        if self.before is None or self.after is None:
            return ()
        found = [_change("cores", str(self.before.cores), str(self.after.cores))]
        found += _tensor_changes(self.before, self.after, _where)
        return tuple(filter(None, found))

    @property
    def precision(self) -> tuple[str, ...]:
        """Changes of dtypes and fidelity, in words."""
        if self.before is None or self.after is None:
            return ()
        found = [_change("fidelity", self.before.fidelity or "none", self.after.fidelity or "none")]
        found += _tensor_changes(self.before, self.after, lambda tensor: tensor.dtype)
        return tuple(filter(None, found))


@dataclass(frozen=True)
class Difference:
    before: Profile
    after: Profile
    steps: tuple[StepChange, ...]

    @property
    def faster(self) -> list[StepChange]:
        """The greatest gain first."""
        return sorted((s for s in self.steps if s.is_timed and s.ns < 0), key=lambda step: step.ns)

    @property
    def slower(self) -> list[StepChange]:
        return sorted((s for s in self.steps if s.is_timed and s.ns > 0), key=lambda step: -step.ns)

    @property
    def moved(self) -> list[StepChange]:
        return [step for step in self.steps if step.moved]

    @property
    def changed_precision(self) -> list[StepChange]:
        return [step for step in self.steps if step.precision]

    @property
    def added(self) -> list[StepChange]:
        return [step for step in self.steps if step.before is None]

    @property
    def removed(self) -> list[StepChange]:
        return [step for step in self.steps if step.after is None]

    @property
    def is_same(self) -> bool:
        """Nothing to tell of any step."""
        groups = (self.faster, self.slower, self.moved, self.changed_precision, self.added, self.removed)
        return not any(groups)


def compare_profiles(before: Profile, after: Profile) -> Difference:
    """Steps are matched by their layer and op, in order; what has no partner was added or removed."""
    old, new = _keys(before.rows), _keys(after.rows)
    steps: list[StepChange] = []
    matcher = SequenceMatcher(a=old, b=new, autojunk=False)
    for tag, a1, a2, b1, b2 in matcher.get_opcodes():
        if tag == "equal":
            pairs = zip(before.rows[a1:a2], after.rows[b1:b2], strict=True)
            steps += [StepChange(new_row.name, new_row.op, row, new_row) for row, new_row in pairs]
        else:
            steps += [StepChange(row.name, row.op, row, None) for row in before.rows[a1:a2]]
            steps += [StepChange(row.name, row.op, None, row) for row in after.rows[b1:b2]]
    return Difference(before, after, tuple(steps))


def _keys(rows: Iterable[Row]) -> list[tuple[str, str, int]]:
    """The layer (or call), the op, and which of several alike it is."""
    seen: Counter[tuple[str, str]] = Counter()
    keys = []
    for row in rows:
        key = (row.name, row.op)
        keys.append((*key, seen[key]))
        seen[key] += 1
    return keys


def _tensor_changes(before: Row, after: Row, said: Callable[[TensorRecord], str]) -> list[str]:
    found = []
    for kind, old, new in (("input", before.inputs, after.inputs), ("output", before.outputs, after.outputs)):
        for i, (one, other) in enumerate(zip(old, new, strict=False)):
            found.append(_change(f"{kind} {i}", said(one), said(other)))
    return found


def _where(tensor: TensorRecord) -> str:
    shards = ""
    if tensor.shard_shape is not None:
        shards = f" {tensor.shard_shape[0]}x{tensor.shard_shape[1]} on {tensor.shard_cores} cores"
    return f"{tensor.memory}{shards}"


def _change(what: str, before: str, after: str) -> str:
    return "" if before == after else f"{what}: {before} -> {after}"
