# SPDX-License-Identifier: Apache-2.0
"""Equal findings of several layers become one, and nothing of them is lost."""

from __future__ import annotations

from tt_cnn.reports.equal_findings import group_equal
from tt_cnn.reports.records import Finding

WEIGHTS = ("weights", "reads its weights as bfloat16", "let it read them as bfloat8_b")
CORES = ("few cores", "runs on 7 of 64 cores", "block sharding would use 42")


def finding(what: tuple[str, str, str], layer: str, us: float, caution: str = "") -> Finding:
    kind, problem, advice = what
    return Finding(kind, layer, problem, advice, 1e3 * us, (3,), caution=caution)


def test_the_same_advice_for_several_layers_is_one() -> None:
    found = [
        finding(WEIGHTS, "a", 23),
        finding(CORES, "b", 20),
        finding(WEIGHTS, "c", 16),
        finding(WEIGHTS, "d", 5.8),
        finding(WEIGHTS, "e", 5.8),
    ]
    groups = group_equal(found)
    assert [[one.layer for one in group.members] for group in groups] == [["a", "c", "d", "e"], ["b"]]
    assert str(groups[0]) == (
        "4 layers (a, c, d and 1 more): each reads its weights as bfloat16; let it read them as bfloat8_b and save "
        "about 5.8 µs to 23 µs each."
    )
    assert str(groups[1]) == str(found[1]), "one of its kind reads as before"


def test_equal_savings_are_one_number() -> None:
    (group,) = group_equal([finding(WEIGHTS, "a", 23), finding(WEIGHTS, "b", 23)])
    assert str(group).startswith("2 layers (a and b): each reads") and str(group).endswith("save about 23 µs each.")


def test_what_differs_in_a_word_stays_apart() -> None:
    groups = group_equal(
        [finding(WEIGHTS, "a", 9), finding(WEIGHTS, "b", 9, "PCC may fall."), finding(CORES, "a", 9)],
    )
    assert len(groups) == 3 and str(groups[1]).endswith("µs. PCC may fall.")
