# SPDX-License-Identifier: Apache-2.0
"""Replaying corpora on the virtual card, record by record, each on a clean card."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

from tt_cnn.conformance.agreement import compare
from tt_cnn.conformance.answer import Answer, Call, NotThere, attempt
from tt_cnn.conformance.chain_calls import replay_chain
from tt_cnn.conformance.convolution_calls import conv2d_plan
from tt_cnn.conformance.corpus import Corpus, CorpusError, Record
from tt_cnn.conformance.networks import replay_network
from tt_cnn.conformance.numerics import replay_numerics
from tt_cnn.conformance.operation_calls import prepare_operation
from tt_cnn.conformance.planning_card import PlanningCard
from tt_cnn.conformance.tally import Tally
from tt_cnn.conformance.values import replay_values
from tt_cnn.conformance.written_calls import prepare_call, replay_written_chain
from tt_cnn.virtual.arch import CARDS


def ops_of(corpus: Corpus, record: Record) -> set[str]:
    """The names by which `--op` finds a record."""
    case = record.case
    if "steps" in case:
        return {step["op"] for step in case["steps"]}
    if corpus.kind == "conv2d":
        return {"conv2d"}
    names = {case["op"]}
    if corpus.kind == "values" and "name" in case["args"]:
        names.add(case["args"]["name"])
    return names


def select(corpus: Corpus, ops: Collection[str]) -> list[Record]:
    return [record for record in corpus.records if not ops or ops_of(corpus, record) & set(ops)]


def replay(corpus: Corpus, tally: Tally, ops: Collection[str] = ()) -> Iterator[Record]:
    """Replay a corpus into a tally; yields each record after it was counted, so that a caller can show progress."""
    one = _REPLAYS[corpus.kind]
    for record in select(corpus, ops):
        tally.records += 1
        if record.card not in CARDS:
            raise CorpusError(f"{record.place}: card is {record.card!r}; the virtual cards are {', '.join(CARDS)}")
        try:
            one(corpus, record, tally, ops)
        except NotThere as missing:
            tally.add_missing(str(missing))
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise CorpusError(f"{record.place}: the record cannot be understood ({error!r})") from error
        yield record


def _replay_operation(corpus: Corpus, record: Record, tally: Tally, ops: Collection[str]) -> None:
    card = PlanningCard(record.card)
    prepare = _PREPARES[corpus.kind]
    try:
        found = attempt(card, lambda: prepare(card, record.case))
    except NotThere as missing:
        found = Answer("missing", str(missing))
        tally.add_missing(str(missing))
    tally.add(record.case.get("op", corpus.kind), record, compare(record.result, found))


def _replay_chain(corpus: Corpus, record: Record, tally: Tally, ops: Collection[str]) -> None:
    """Step by step until the first difference in status."""
    card = PlanningCard(record.card)
    answers = replay_chain if corpus.kind == "chains" else replay_written_chain
    steps = zip(record.case["steps"], record.result["steps"], answers(card, record.case), strict=False)
    for number, (step, recorded, found) in enumerate(steps):
        verdicts = compare(recorded, found)
        if not ops or step["op"] in ops:
            tally.add(step["op"], record, verdicts, number)
        if not verdicts["status"].agrees:
            break


_PREPARES: dict[str, Callable[[PlanningCard, dict[str, Any]], Call]] = {
    "ops": prepare_operation,
    "conv2d": conv2d_plan,
    "calls": prepare_call,
}
_REPLAYS: dict[str, Callable[[Corpus, Record, Tally, Collection[str]], None]] = {
    "ops": _replay_operation,
    "conv2d": _replay_operation,
    "calls": _replay_operation,
    "chains": _replay_chain,
    "call chains": _replay_chain,
    "numerics": replay_numerics,
    "values": replay_values,
    "networks": replay_network,
}
