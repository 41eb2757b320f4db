# SPDX-License-Identifier: Apache-2.0
"""One record of a call that is written as data, replayed."""

from __future__ import annotations

from typing import Any

from tt_cnn.conformance.agreement import compare
from tt_cnn.conformance.answer import Answer, NotThere, attempt
from tt_cnn.conformance.planning_card import PlanningCard
from tt_cnn.conformance.verdict import Verdict
from tt_cnn.conformance.written_calls import prepare_call


def replay(record: dict[str, Any]) -> dict[str, Verdict]:
    card = PlanningCard(record.get("card", "n150"))
    try:
        found = attempt(card, lambda: prepare_call(card, record["case"]))
    except NotThere as missing:
        found = Answer("missing", str(missing))
    return compare(record["result"], found)
