# SPDX-License-Identifier: Apache-2.0
"""Published kernel times of single TT-NN calls beside what the cost model predicts for them.

    python benchmarks/op_times.py FILE... [--op NAME] [--card n150|p150] [--set NAME] [--by KEYS] [--show N] [--check]
        [--write-bands [FILE]]

Every row that says enough is planned on a virtual card like the one measured (nothing is computed), and the step of its
op is timed. Rows whose plan is not the recorded one (cores, shards, blocks) are counted apart: their times show the
planning and not the cost model. Ratios are predicted over published. Ends with one line that sums up.

`--check` exits 1 where an op's errors, the ranking of configurations or the sums of whole models miss what
`docs/cost-model.md` promises. Rows of the set `conv-sweep` look throttled and count for the ranking alone.
`--write-bands` writes the bands around predicted times that reports show (`op_time_bands.py`).
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import exp, log
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from op_time_bands import FILE as BANDS
from op_time_bands import Error, coverage_line, covered, write_bands
from op_time_calls import replayed
from op_time_rows import NotReplayed, Row, read_rows

from tt_cnn.virtual.cost.figures import figures_of
from tt_cnn.virtual.cost.kernel import cost_with

TOGETHER = ("binary_pair",)
"""Ops whose rows are the time of several steps; of others several steps are repeats of one."""
THROTTLED = ("conv-sweep",)
"""Sets whose matrix unit took three times as long a phase as it can, as under tt-metal's TT_MM_THROTTLE_PERF=5."""
THROTTLE = 3
MATH_THREAD = "trisc1_kernel"
LEAST_ROWS = 5
MANY_ROWS = 100
"""From which on bands can be judged."""

TARGETS: dict[tuple[str, ...], tuple[float, float, float]] = {
    ("conv2d", "matmul"): (10, 0.80, 0.97),
    (
        "halo", "pool2d", "interleaved_to_sharded", "sharded_to_interleaved", "reshard", "move", "copy",
    ): (15, 0.65, 0.95),
    (
        "tilize", "tilize_with_val_padding", "untilize", "untilize_with_unpadding", "binary", "unary", "typecast",
    ): (20, 0.55, 0.90),
    (
        "slice", "padded_slice", "slice_write", "concat", "reshape", "transpose", "permute", "softmax", "layer_norm",
        "rms_norm", "group_norm", "upsample",
    ): (30, 0.40, 0.80),
}  # fmt: skip
"""Of each op: the largest median error in %, and the least shares within 20 and 50 %."""


@dataclass
class Outcome:
    """A row with its prediction, or why there is none."""

    row: Row
    predicted_ns: float = 0.0
    bound: str = ""
    factory: str = ""
    program: str = ""
    differences: list[str] = field(default_factory=list)
    reason: str = ""

    @property
    def ratio(self) -> float:
        return self.predicted_ns / self.row.published_ns

    def value(self, key: str) -> str:
        """What a table is grouped by: a field of the row, of its convolution or arguments, or of the prediction."""
        if key == "card":
            return self.row.family
        if key in ("factory", "bound"):
            return str(getattr(self, key))
        if key in ("op", "set", "measure", "id"):
            return str(getattr(self.row, key))
        conv = self.row.args.get("conv", {})
        return str(conv.get(key, self.row.args.get(key, "-")))


def outcome_of(row: Row) -> Outcome:
    try:
        bench, steps, differences = replayed(row)
    except NotReplayed as error:
        return Outcome(row, reason=str(error))
    card, figures = bench.lab.card, figures_of(bench.lab.card)
    if row.set in THROTTLED:
        figures = replace(figures, product_cycles=THROTTLE * figures.product_cycles)
    costs = [cost_with(step, card, figures) for step in steps]
    times = [cost.compute_ns if row.measure == MATH_THREAD else cost.ns for cost in costs]
    predicted = sum(times) if row.op in TOGETHER else statistics.fmean(times)
    return Outcome(row, predicted, costs[0].bound, steps[0].program.factory, steps[0].program.op, differences)


# --- errors ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Errors:
    """Of a group of rows, predicted against published."""

    rows: int
    mean: float
    """Geometric, of predicted over published."""
    median: float
    """|ln ratio| in %."""
    within_20: float
    within_50: float

    @classmethod
    def of(cls, outcomes: Sequence[Outcome]) -> Errors:
        logs = [log(one.ratio) for one in outcomes]
        return cls(
            len(logs),
            exp(statistics.fmean(logs)),
            100 * statistics.median(abs(value) for value in logs),
            statistics.fmean(abs(one.ratio - 1) <= 0.2 for one in outcomes),
            statistics.fmean(abs(one.ratio - 1) <= 0.5 for one in outcomes),
        )

    def __str__(self) -> str:
        return f"{self.rows:5d} {self.mean:7.2f} {self.median:8.0f} {self.within_20:7.0%} {self.within_50:7.0%}"


def grouped(outcomes: Iterable[Outcome], keys: Sequence[str]) -> dict[tuple[str, ...], list[Outcome]]:
    groups: dict[tuple[str, ...], list[Outcome]] = defaultdict(list)
    for one in outcomes:
        groups[tuple(one.value(key) for key in keys)].append(one)
    return dict(sorted(groups.items()))


def error_table(outcomes: Sequence[Outcome], keys: Sequence[str]) -> list[str]:
    def name(parts: Sequence[str]) -> str:
        return " ".join(f"{part:26.26s}" if i == 0 else f"{part:14.14s}" for i, part in enumerate(parts))

    lines = [f"{name(keys)}  rows   gmean   median  +-20 %  +-50 %   other plan: rows, gmean"]
    for group, members in grouped(outcomes, keys).items():
        same = [one for one in members if not one.differences]
        other = [one for one in members if one.differences]
        apart = f"{len(other):4d} {Errors.of(other).mean:6.2f}" if other else ""
        lines.append(f"{name(group)} {Errors.of(same) if same else '    0' + ' ' * 33}   {apart}".rstrip())
    return lines


def worst_rows(outcomes: Sequence[Outcome], count: int) -> list[str]:
    worst = sorted(outcomes, key=lambda one: -abs(log(one.ratio)))[:count]
    return [
        f"{one.ratio:7.2f}  {one.predicted_ns / 1e3:10.1f} us predicted {one.row.published_ns / 1e3:10.1f} published  "
        f"{one.row.id}  [{one.factory}, {one.bound}]"
        for one in worst
    ]


def plan_differences(outcomes: Sequence[Outcome]) -> list[str]:
    counts = Counter(
        (one.row.op, one.row.family, difference.split(":")[0]) for one in outcomes for difference in one.differences
    )
    return [f"{n:5d}  {op}, {card}: {what}" for (op, card, what), n in counts.most_common()]


def not_replayed(outcomes: Sequence[Outcome]) -> list[str]:
    counts = Counter((one.row.op, one.row.set, one.reason) for one in outcomes if one.reason)
    return [f"{n:5d}  {op}, {of}: {why}" for (op, of, why), n in counts.most_common()]


# --- ranking --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ranking:
    """How a sweep's configurations are ranked: the same work, done otherwise."""

    name: str
    rows: int
    spearman: float
    loss: float
    """Published time of the configuration that the model prefers, over the published best, less 1."""


def sweep_of(row: Row) -> str | None:
    if row.set == "conv-sweep":
        _, shape, label = row.id.split("-", 2)
        kind = "force" if label.startswith("force") else label.split("_")[0]
        return f"conv 512->512 k5 {shape}: {kind}"
    if row.set == "matmul-sweep":
        a = row.args
        return f"matmul {a['grid'][0]}x{a['grid'][1]} {a['M']}x{a['K']}x{a['N']}"
    return None


def rankings(outcomes: Sequence[Outcome]) -> list[Ranking]:
    sweeps: dict[str, list[Outcome]] = defaultdict(list)
    for one in outcomes:
        name = sweep_of(one.row)
        if name is not None:
            sweeps[name].append(one)
    return [
        Ranking(name, len(members), _spearman(members), _loss(members))
        for name, members in sorted(sweeps.items())
        if len(members) >= LEAST_ROWS
    ]


def _spearman(members: Sequence[Outcome]) -> float:
    def ranks(values: Sequence[float]) -> list[float]:
        places: dict[float, list[int]] = defaultdict(list)
        for place, value in enumerate(sorted(values)):
            places[value].append(place)
        return [statistics.fmean(places[value]) for value in values]

    left, right = ranks([one.row.published_ns for one in members]), ranks([one.predicted_ns for one in members])
    if len(set(left)) < 2 or len(set(right)) < 2:
        return 0.0
    return statistics.correlation(left, right)


def _loss(members: Sequence[Outcome]) -> float:
    """Configurations that are predicted alike count alike."""
    lowest = min(one.predicted_ns for one in members)
    chosen = [one.row.published_ns for one in members if one.predicted_ns <= lowest * 1.0001]
    return statistics.fmean(chosen) / min(one.row.published_ns for one in members) - 1


def ranking_lines(found: Sequence[Ranking]) -> list[str]:
    if not found:
        return []
    lines = [
        f"{one.name:34.34s} rows {one.rows:4d}  Spearman {one.spearman:5.2f}  the model's choice {one.loss:+.0%}"
        for one in found
        if one.name.startswith("conv")
    ]
    near = sum(one.loss <= 0.1 for one in found) / len(found)
    median = statistics.median(one.spearman for one in found)
    return [*lines, f"{len(found)} sweeps: median Spearman {median:.2f}, choice within 10 % of the best in {near:.0%}"]


# --- whole models ---------------------------------------------------------------------------------------------------

MODELS = {"vision-model": "RT-DETR", "vision-model-20core": "OFT"}


def model_sums(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Predicted over published time of all calls of a model that are replayed, each as often as it occurs."""
    sums = {}
    for name, model in MODELS.items():
        members = [one for one in outcomes if one.row.set == name]
        if members:
            published = sum(one.row.times * one.row.published_ns for one in members)
            sums[model] = sum(one.row.times * one.predicted_ns for one in members) / published
    return sums


# --- bands ----------------------------------------------------------------------------------------------------------


def errors_of(same: Sequence[Outcome]) -> list[Error]:
    """Of the rows that bands are made from: whole kernels, not throttled."""
    return [
        Error(one.row.id, one.row.set, one.program, one.row.family, -log(one.ratio))
        for one in same
        if one.row.set not in THROTTLED and one.row.op not in TOGETHER
    ]


# --- checks ---------------------------------------------------------------------------------------------------------


def missed(same: Sequence[Outcome], replayed_rows: Sequence[Outcome]) -> list[str]:
    """What does not hold."""
    judged = [one for one in same if one.row.set not in THROTTLED]
    lines = []
    for ops, (error, near, far) in TARGETS.items():
        for op in ops:
            for name, members in _judged_together(op, [one for one in judged if one.row.op == op]):
                found = Errors.of(members)
                if found.median > error or found.within_20 < near or found.within_50 < far:
                    wanted = f"{error:.0f} %, {near:.0%}, {far:.0%}"
                    has = f"{found.median:.0f} %, {found.within_20:.0%}, {found.within_50:.0%}"
                    lines.append(f"{name}: median, within 20 %, within 50 % are {has} of {found.rows}; wanted {wanted}")
    ranked = rankings(same)
    if ranked:
        spearman = statistics.median(one.spearman for one in ranked)
        near = statistics.fmean(one.loss <= 0.1 for one in ranked)
        if spearman < 0.9 or near < 0.9:
            lines.append(
                f"ranking: median Spearman {spearman:.2f}, choice within 10 % in {near:.0%}; wanted 0.90, 90 %"
            )
    errors = errors_of(same)
    if len(errors) > MANY_ROWS and not 0.75 <= covered(errors) <= 0.85:
        lines.append(f"bands: {covered(errors):.0%} of the rows lie in bands made without them; wanted 75 to 85 %")
    for model, ratio in model_sums(replayed_rows).items():
        if abs(ratio - 1) > 0.1:
            lines.append(f"{model}: the sum of its calls is {ratio:.2f} of the published; wanted within 10 %")
    return lines


def _judged_together(op: str, members: Sequence[Outcome]) -> list[tuple[str, list[Outcome]]]:
    """By card family where both have enough rows, else both together."""
    by_card = {name[0]: rows for name, rows in grouped(members, ("card",)).items()}
    if len(by_card) > 1 and all(len(rows) >= LEAST_ROWS for rows in by_card.values()):
        return [(f"{op}, {card}", rows) for card, rows in by_card.items()]
    return [(op, list(members))] if len(members) >= LEAST_ROWS else []


# --- command --------------------------------------------------------------------------------------------------------


def summary(outcomes: Sequence[Outcome], made: Sequence[Outcome], same: Sequence[Outcome]) -> str:
    counts = f"{len(outcomes)} rows, {len(made)} replayed, {len(made) - len(same)} with another plan"
    if not same:
        return counts
    total = Errors.of(same)
    return (
        f"{counts}; predicted/published {total.mean:.2f}, median error {total.median:.0f} %, "
        f"within 20 % {total.within_20:.0%}, within 50 % {total.within_50:.0%}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE", help="rows, .jsonl or .jsonl.gz")
    parser.add_argument("--op", nargs="+", help="only rows of these ops")
    parser.add_argument("--card", choices=("n150", "p150"), help="only this family: Wormhole or Blackhole")
    parser.add_argument("--set", nargs="+", help="only rows of these sets")
    parser.add_argument("--by", default="op,card", help="what the table is grouped by, such as op,shard,fidelity")
    parser.add_argument("--show", type=int, default=0, metavar="N", help="print the N worst rows of each op")
    parser.add_argument("--check", action="store_true", help="exit 1 where a promise is missed")
    parser.add_argument(
        "--write-bands", type=Path, nargs="?", const=BANDS, metavar="FILE", help="write the bands that reports show"
    )
    arguments = parser.parse_args()
    rows = [
        row
        for file in arguments.files
        for row in read_rows(file)
        if (not arguments.op or row.op in arguments.op)
        and (not arguments.card or row.family == arguments.card)
        and (not arguments.set or row.set in arguments.set)
    ]
    outcomes = [outcome_of(row) for row in rows]
    made = [one for one in outcomes if not one.reason]
    same = [one for one in made if not one.differences]
    print("\n".join(error_table(made, arguments.by.split(","))))
    sums = [f"{model}: {ratio:.2f} of the published sum" for model, ratio in model_sums(made).items()]
    for title, lines in (
        ("\nplans that are not the recorded ones", plan_differences(made)),
        ("\nnot replayed", not_replayed(outcomes)),
        ("\nranking within sweeps", ranking_lines(rankings(same))),
        ("\nwhole models", sums),
    ):
        if lines:
            print(title, *lines, sep="\n")
    if arguments.show:
        for (op, card), members in grouped(same, ("op", "card")).items():
            print(f"\nworst of {op}, {card}", *worst_rows(members, arguments.show), sep="\n")
    errors = errors_of(same)
    if len(errors) > MANY_ROWS:
        print(f"\nbands\n{coverage_line(errors)}")
    if arguments.write_bands:
        write_bands(errors, arguments.write_bands)
    failures = missed(same, made) if arguments.check else []
    if failures:
        print("\nmissed", *failures, sep="\n")
    print(f"\n{summary(outcomes, made, same)}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
