# SPDX-License-Identifier: Apache-2.0
"""The checklists of the optimisation guides, ticked by what was done and found, and by nothing else.

An item is ticked where the result has it: kept by the search, or so before. What was tried and brought nothing, was not
tried, or cannot be known is not ticked, and its words say which.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from tt_cnn.builder.codec import encode
from tt_cnn.optimizer.journal import Attempt
from tt_cnn.optimizer.result import OptimizationResult
from tt_cnn.optimizer.settings import settings_in_force
from tt_cnn.reports.records import Profile

PROGRESS = "Optimization progress"
CONV2D = "Conv2d optimization"
_MOVES = ("Reshard", "InterleavedToSharded", "ShardedToInterleaved")
_DTYPES = ("activation_dtype", "weights_dtype", "output_dtype", "dtype", "math_fidelity", "fp32_dest_acc_en")


@dataclass(frozen=True)
class Item:
    """One line of a checklist."""

    list: str
    title: str
    """As the guides word it."""
    ticked: bool
    evidence: str


class _Facts:
    """What the items ask."""

    def __init__(self, result: OptimizationResult, before: Profile | None, after: Profile | None) -> None:
        self.result = result
        self.after = settings_in_force(result.configurations, result.after.assignment).to_dict()
        self.ops = {which: Counter(row.op for row in p.rows) if p else None for which, p in ((0, before), (1, after))}
        self.kept = {attempt.number for attempt in result.kept}

    def attempts(self, *settings: str) -> list[Attempt]:
        """Those that changed one of these settings of a layer."""
        return [
            attempt
            for attempt in self.result.journal.attempts
            if attempt.deployment is None and any(name in own for own in attempt.changes.values() for name in settings)
        ]

    def tried(self, attempts: Iterable[Attempt]) -> tuple[bool, str]:
        """Whether one was kept, and how many were tried."""
        listed = list(attempts)
        kept = sum(attempt.number in self.kept for attempt in listed)
        if not listed:
            return False, "not tried"
        return kept > 0, f"{len(listed)} tried, {kept} kept"

    def step(self, name: str) -> list[Attempt]:
        return [attempt for attempt in self.result.journal.attempts if attempt.step == name]

    def layers_with(self, setting: str) -> list[object]:
        return [own[setting] for own in self.after.values() if setting in own]


def checklist(result: OptimizationResult, before: Profile | None = None, after: Profile | None = None) -> list[Item]:
    """Both lists. `before`, `after`: profiles of the start and of the result, where there are any."""
    facts = _Facts(result, before, after)
    return [
        *(Item(PROGRESS, title, *found) for title, found in _progress(facts).items()),
        *(Item(CONV2D, title, *found) for title, found in _conv2d(facts).items()),
    ]


def _progress(facts: _Facts) -> dict[str, tuple[bool, str]]:
    result = facts.result
    measured = "measured" if result.task.measured else "predicted, not measured on a card"
    return {
        "Baseline performance measured": (
            True,
            f"{result.before.prediction.device_ns / 1e3:.1f} µs on the device ({measured})",
        ),
        "Step 1: Data formats optimized (bfloat8_b for weights)": _either(
            _share(facts, "weights_dtype", "DataType.BFLOAT8_B", "weights in bfloat8_b"),
            facts.tried(facts.attempts(*_DTYPES)),
        ),
        "Step 2: Tile layout configured": _either(
            _share(facts, "output_layout", "Layout.TILE", "outputs in tiles"),
            facts.tried(facts.attempts("output_layout")),
        ),
        "Step 3: Sharding strategy applied": _sharding(facts),
        "Step 4: Metal Trace enabled": _executor(facts, "trace"),
        "Step 5: Multi-CQ configured (if applicable)": _executor(facts, "2cq"),
        "Step 6: Conv2d tuned (if CNN)": facts.tried(
            facts.attempts("sharding_strategy", "enable_act_double_buffer", "enable_weights_double_buffer")
        ),
        "Step 7: Multi-device scaling (if applicable)": _devices(facts),
        "Final PCC verified ≥ 0.99": _accuracy(facts),
    }


def _conv2d(facts: _Facts) -> dict[str, tuple[bool, str]]:
    return {
        "Sharding strategy selected (height/width/block)": _sharding(facts),
        "act_block_h_override tuned for L1 utilization": _blocks(facts),
        "Double buffering enabled where beneficial": _either(
            _share(facts, "enable_act_double_buffer", True, "convolutions with double-buffered activations"),
            facts.tried(facts.attempts("enable_act_double_buffer", "enable_weights_double_buffer")),
        ),
        "Batch normalization folded into convolutions": _batch_norm(facts),
        "Weight dtype set to bfloat8_b": _share(facts, "weights_dtype", "DataType.BFLOAT8_B", "weights in bfloat8_b"),
        "Activation dtype optimized per layer": facts.tried(facts.attempts("activation_dtype", "output_dtype")),
        "Reshard operations minimized": _reshards(facts),
        "Input/output format conversions handled": _conversions(facts),
    }


def _either(found: tuple[bool, str], tried: tuple[bool, str]) -> tuple[bool, str]:
    return found[0] or tried[0], f"{found[1]}; {tried[1]}"


def _share(facts: _Facts, setting: str, wanted: object, words: str) -> tuple[bool, str]:
    """Ticked where all layers that have the setting have it so."""
    values = facts.layers_with(setting)
    have = sum(value == wanted for value in values)
    return bool(values) and have == len(values), f"{have} of {len(values)} {words}"


def _sharding(facts: _Facts) -> tuple[bool, str]:
    strategies = [one for one in facts.layers_with("sharding_strategy") if isinstance(one, dict)]
    kinds = Counter(str(one["kind"]).removesuffix("ShardedStrategyConfiguration").lower() for one in strategies)
    chosen = sum(count for kind, count in kinds.items() if kind != "auto")
    said = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common()) or "no layer has one"
    return _either((chosen > 0, said), facts.tried(facts.attempts("sharding_strategy", "memory_config")))


def _blocks(facts: _Facts) -> tuple[bool, str]:
    """Attempts where the height of a block differs from the one before the search."""
    before = settings_in_force(facts.result.before_configurations, facts.result.before.assignment).to_dict()

    def height(strategy: object) -> object:
        return strategy.get("act_block_h_override") if isinstance(strategy, dict) else None

    tried = [
        attempt
        for attempt in facts.attempts("sharding_strategy")
        if any(
            "sharding_strategy" in own
            and height(encode(own["sharding_strategy"])) != height(before.get(name, {}).get("sharding_strategy"))
            for name, own in attempt.changes.items()
        )
    ]
    return facts.tried(tried)


def _executor(facts: _Facts, part: str) -> tuple[bool, str]:
    executor = facts.result.after.deployment.executor
    compared = len(facts.step("pipeline"))
    how = f"the best of {compared} that were compared" if compared else "not compared with others"
    return part in executor.split("+") and compared > 0, f"executor {executor}, {how}"


def _devices(facts: _Facts) -> tuple[bool, str]:
    chips, compared = facts.result.after.deployment.chips, facts.step("devices")
    if not compared:
        return False, f"{chips} chips, not compared with one" if chips > 1 else "not applicable: one chip"
    return chips > 1, "; ".join(attempt.words for attempt in compared)


def _accuracy(facts: _Facts) -> tuple[bool, str]:
    pcc = facts.result.pcc
    if not pcc:
        values = [a for a in facts.attempts(*_DTYPES, "packer_l1_acc") if a.number in facts.kept]
        why = "" if values else "; no kept change changes values"
        return False, f"PCC was not measured in this search{why}"
    lowest = min(pcc, key=lambda output: pcc[output])
    return pcc[lowest] >= 0.99, f"the lowest is {pcc[lowest]:.5f}, of {lowest}"


def _batch_norm(facts: _Facts) -> tuple[bool, str]:
    ops = facts.ops[1]
    if ops is None:
        return False, "not known: nothing was planned"
    left = sum(count for op, count in ops.items() if "BatchNorm" in op)
    return left == 0, f"{left} batch norms are run" if left else "the model runs no batch norm"


def _reshards(facts: _Facts) -> tuple[bool, str]:
    before, after = facts.ops[0], facts.ops[1]
    if before is None or after is None:
        return False, "not known: nothing was planned"
    counts = [sum(ops[op] for op in _MOVES) for ops in (before, after)]
    _, said = facts.tried(facts.attempts("sharding_strategy", "memory_config"))
    return counts[1] < counts[0] or counts[1] == 0, f"{counts[0]} before, {counts[1]} now; shardings: {said}"


def _conversions(facts: _Facts) -> tuple[bool, str]:
    ops = facts.ops[1]
    if ops is None:
        return False, "not known: nothing was planned"
    found = {op: ops[op] for op in ("ConvertToHWC", "ConvertToCHW", "Fold") if ops[op]}
    if not found:
        return False, "the model calls no op that converts them on the card; whether the host does is not known here"
    return True, ", ".join(f"{count} {op}" for op, count in found.items())
