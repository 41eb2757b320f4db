# SPDX-License-Identifier: Apache-2.0
"""The checker by itself says what a list of all that happened says, and does not grow."""

from __future__ import annotations

import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tt_cnn.virtual.errors.card_error import HazardError
from tt_cnn.virtual.hazards.hazards import Access, Accesses, HazardChecker, Order
from tt_cnn.virtual.types.enums import BufferType


def _naive(history, order: Order, queue: int, access: Access, clock) -> bool:
    """Every earlier access to a common address that conflicts and is not in the past."""
    return any(
        q != queue
        and (access.write or past.write)
        and past.kind is access.kind
        and past.start < access.end
        and access.start < past.end
        and tick > clock[q]
        for q, tick, past in history
    )


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["access", "access", "access", "event", "host", "forget"]),
            st.integers(0, 1),
            st.integers(0, 12),
            st.integers(1, 6),
            st.booleans(),
        ),
        max_size=40,
    )
)
def test_the_checker_agrees_with_a_list_of_all_that_happened(actions):
    checker = HazardChecker("warn", 2)
    history: list[tuple[int, int, Access]] = []
    for what, queue, start, length, write in actions:
        if what == "event":
            checker.order.wait(1 - queue, checker.order.at(queue))
        elif what == "host":
            checker.order.host_waited(checker.order.at(queue))
        elif what == "forget":
            checker.forget()
        else:
            access = Access(BufferType.L1, start, start + length, write)
            clock = [max(a, b) for a, b in zip(checker.order.at(queue), checker.order.host, strict=True)]
            expected = _naive(history, checker.order, queue, access, clock)
            before = len(checker.found)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tick = checker.enqueue(queue, "a command", [access])
            # an access that was covered by a later conflicting one was reported then, so it may be silent now
            found = len(checker.found) > before
            assert not found or expected
            if expected and not any(
                q != queue or past.write
                for q, _, past in history
                if past.start < access.end and access.start < past.end
            ):
                assert found
            history.append((queue, tick, access))


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 12), st.integers(1, 6), st.booleans()), max_size=5), min_size=2, max_size=2
    ),
    st.lists(
        st.tuples(
            st.sampled_from(["replay", "replay", "replay", "access", "event", "host", "forget"]),
            st.integers(0, 1),
            st.integers(0, 1),
            st.integers(0, 12),
            st.integers(1, 6),
            st.booleans(),
        ),
        max_size=40,
    ),
)
@pytest.mark.parametrize("mode", ["warn", "raise"])
def test_replays_are_followed_as_any_command(mode, traces, actions):
    """What is noted for many spans together is what each of them would have noted."""
    ranges = [[Access(BufferType.L1, start, start + length, write) for start, length, write in one] for one in traces]
    replays = [[Accesses(one) for one in ranges], ranges]
    checkers = [HazardChecker(mode, 2), HazardChecker(mode, 2)]
    said: list[list[str]] = [[], []]
    for number, (what, queue, trace, start, length, write) in enumerate(actions):
        for checker, traced, words in zip(checkers, replays, said, strict=True):
            if what == "event":
                checker.order.wait(1 - queue, checker.order.at(queue))
            elif what == "host":
                checker.order.host_waited(checker.order.at(queue))
            elif what == "forget":
                checker.forget()
            else:
                access = [Access(BufferType.L1, start, start + length, write)]
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    try:
                        checker.enqueue(queue, f"command {number}", traced[trace] if what == "replay" else access)
                    except HazardError as error:
                        words.append(str(error))
    assert said[0] == said[1] and checkers[0].found == checkers[1].found
    assert checkers[0].size == checkers[1].size


def test_a_replay_that_nobody_comes_to_looks_at_nothing():
    checker = HazardChecker("raise", 2)
    replay = Accesses([Access(BufferType.L1, at, at + 48, at % 64 == 0) for at in range(0, 640, 32)])
    for _ in range(3):
        checker.enqueue(0, "replay", replay)
    assert replay.alone == [] and len(replay.by_span) > 20
    checker.enqueue(0, "stage", [Access(BufferType.L1, 0, 32, True)])
    assert len(replay.alone) == 1
    with pytest.raises(HazardError, match=r"that replay wrote"):
        checker.enqueue(1, "other queue", [Access(BufferType.L1, 600, 601, False)])


def test_accesses_of_a_replay_find_their_spans_again():
    checker = HazardChecker("raise", 2)
    replay = Accesses([Access(BufferType.L1, 0, 64, True), Access(BufferType.L1, 32, 96, False)])
    checker.enqueue(0, "replay", replay)
    spans = replay.spans
    checker.enqueue(0, "replay", replay)
    assert replay.spans is spans
    checker.enqueue(0, "other", [Access(BufferType.L1, 16, 48, True)])
    checker.enqueue(0, "replay", replay)
    assert replay.spans is not spans
    with pytest.raises(HazardError, match=r"other queue writes memory at L1 address 90 that replay reads"):
        checker.enqueue(1, "other queue", [Access(BufferType.L1, 90, 92, True)])


def test_only_what_all_are_ordered_after_is_forgotten():
    checker = HazardChecker("raise", 2)
    checker.enqueue(0, "a", [Access(BufferType.L1, 0, 32, True)])
    checker.forget()
    assert checker.size == 1
    checker.order.wait(1, checker.order.at(0))
    checker.enqueue(0, "b", [Access(BufferType.L1, 64, 96, True)])
    checker.forget()
    assert checker.size == 1
    with pytest.raises(HazardError, match=r"that b wrote"):
        checker.enqueue(1, "c", [Access(BufferType.L1, 80, 81, False)])


def test_a_host_that_never_waits_does_not_grow(monkeypatch):
    monkeypatch.setattr(HazardChecker, "LIMIT", 200)
    monkeypatch.setattr(HazardChecker, "FORGET_EVERY", 64)
    checker = HazardChecker("raise", 2)
    generator = torch.Generator().manual_seed(0)
    starts = torch.randint(0, 2**20, (5000,), generator=generator).tolist()
    most = 0
    for start in starts:
        checker.enqueue(0, "x", [Access(BufferType.DRAM, start, start + 64, True)])
        most = max(most, checker.size)
    assert most < 200 + 3 * 64


# --- refused commands --------------------------------------------------------------------------------------------
