# SPDX-License-Identifier: Apache-2.0
"""Timelines of both queues, against small cases worked out by hand."""

from __future__ import annotations

import pytest

from tests.virtual.cost.layers import conv_steps, only
from tt_cnn.virtual.arch import card_by_name
from tt_cnn.virtual.cost.between import gap_ns, transfer_ns
from tt_cnn.virtual.cost.executors import Pass, input_ns
from tt_cnn.virtual.cost.figures import figures_of
from tt_cnn.virtual.cost.kernel import kernel_cost
from tt_cnn.virtual.cost.schedule import Enqueued, Transfer, schedule

N150 = card_by_name("n150")
STEP = only(conv_steps(), "Conv2d")
KERNEL = kernel_cost(STEP, N150).ns
GAP = gap_ns(N150, traced=True)
WRITE = Transfer("write", 100_000, 2048)
READ = Transfer("read", 100_000, 2048)
WRITING = transfer_ns(N150, "write", 100_000, 2048)
READING = transfer_ns(N150, "read", 100_000, 2048)


def test_a_queue_is_in_order_with_gaps_between_steps() -> None:
    times = schedule([Enqueued(0, WRITE), Enqueued(0, [STEP, STEP]), Enqueued(0, READ)], N150, traced=True)
    assert [t.start_ns for t in times] == pytest.approx(
        [0, WRITING + GAP, WRITING + 2 * GAP + KERNEL, WRITING + 2 * (GAP + KERNEL)]
    )
    assert times[-1].end_ns == pytest.approx(WRITING + 2 * (GAP + KERNEL) + READING)
    assert [t.transfer for t in times] == [True, False, False, True]


def test_queues_overlap_unless_an_event_orders_them() -> None:
    free = schedule([Enqueued(0, [STEP]), Enqueued(1, WRITE)], N150, traced=True)
    assert free[1].start_ns == 0
    ordered = schedule([Enqueued(0, [STEP]), Enqueued(1, WRITE, after=(0,))], N150, traced=True)
    assert ordered[1].start_ns == pytest.approx(GAP + KERNEL)


def test_steps_of_both_queues_share_the_cores() -> None:
    times = schedule([Enqueued(0, [STEP]), Enqueued(1, [STEP])], N150, traced=True)
    assert times[1].start_ns == pytest.approx(times[0].end_ns + GAP)


def test_transfers_of_one_direction_share_the_link() -> None:
    times = schedule([Enqueued(0, WRITE), Enqueued(1, WRITE), Enqueued(1, READ)], N150, traced=True)
    assert times[1].start_ns == pytest.approx(WRITING)
    both = schedule([Enqueued(0, WRITE), Enqueued(1, READ)], N150, traced=True)
    assert both[1].start_ns == 0


def test_without_a_trace_the_host_sets_the_pace() -> None:
    host = figures_of(N150).host_step_ns
    assert host > KERNEL
    times = schedule([Enqueued(0, [STEP] * 3)], N150, traced=False)
    assert [t.start_ns for t in times] == pytest.approx([host, 2 * host, 3 * host])


ONE = Pass(write=WRITE, stage=[STEP], run=[STEP] * 4, reads=[READ], spill=[STEP])
STEPS = 5 * (GAP + KERNEL)


@pytest.mark.parametrize(
    ("executor", "period"),
    [
        ("plain", figures_of(N150).host_step_ns * 4),
        ("trace", WRITING + STEPS + READING),
        ("2cq", figures_of(N150).host_step_ns * 5),
        ("trace+2cq", STEPS + READING),
        ("trace+2cq+io", STEPS + GAP + KERNEL),
    ],
)
def test_executors_hide_what_they_can(executor: str, period: float) -> None:
    assert input_ns(executor, ONE, N150) == pytest.approx(period, rel=1e-6)


def test_an_unknown_executor_is_refused() -> None:
    with pytest.raises(ValueError, match="it must be one of plain, trace"):
        input_ns("fast", ONE, N150)
