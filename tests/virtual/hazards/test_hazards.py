# SPDX-License-Identifier: Apache-2.0
"""Hazards: silent on every correct program, and loud as soon as one ordering event is taken out."""

from __future__ import annotations

import warnings

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tt_cnn.virtual import ttnn
from tt_cnn.virtual.errors.card_error import HazardError
from tt_cnn.virtual.hazards.hazards import HazardWarning
from tt_cnn.virtual.types.enums import BufferType

ROUNDS = 4


class Waits:
    """Hands out waits for events, except the one that is left out."""

    def __init__(self, device, left_out: int | None = None) -> None:
        self.device = device
        self.left_out = left_out
        self.count = 0

    def mark(self, queue: int):
        return ttnn.record_event(self.device, queue)

    def wait(self, queue: int, event) -> None:
        if event is None:
            return
        if self.count != self.left_out:
            ttnn.wait_for_event(queue, event)
        self.count += 1


class Program:
    """The verbs of an executor on persistent tensors."""

    def __init__(self, device, toys, tensor, traced: bool) -> None:
        self.device, self.toys, self.tensor = device, toys, tensor
        self.dram_in, self.l1_in = tensor(device), tensor(device, memory_config=ttnn.L1_MEMORY_CONFIG)
        self.output, self.dram_out = tensor(device, memory_config=ttnn.L1_MEMORY_CONFIG), tensor(device)
        self.model()
        self.trace = None
        if traced:
            self.trace = ttnn.begin_trace_capture(device, cq_id=0)
            self.model()
            ttnn.end_trace_capture(device, self.trace, cq_id=0)
        ttnn.synchronize_device(device)
        self.results: list[object] = []

    def model(self) -> None:
        self.toys.into(self.toys.plus(self.l1_in), self.output)

    def write(self, n: int, queue: int) -> None:
        ttnn.copy_host_to_device_tensor(self.tensor(None, float(n)), self.dram_in, cq_id=queue)

    def stage(self) -> None:
        self.toys.into(self.dram_in, self.l1_in)

    def run(self) -> None:
        if self.trace is None:
            self.model()
        else:
            ttnn.execute_trace(self.device, self.trace, cq_id=0, blocking=False)

    def spill(self) -> None:
        self.toys.into(self.output, self.dram_out)

    def read(self, source, queue: int) -> None:
        self.results.append(source.cpu(blocking=False, cq_id=queue))

    def values(self) -> list[float]:
        ttnn.synchronize_device(self.device)
        return [r.to_torch().float().unique().item() for r in self.results]


def one_queue(program: Program, waits: Waits) -> None:
    for n in range(ROUNDS):
        program.write(n, 0)
        program.stage()
        program.run()
        program.read(program.output, 0)


def overlapped_input(program: Program, waits: Waits) -> None:
    """Queue 1 writes while queue 0 computes."""
    staged = None
    for n in range(ROUNDS):
        waits.wait(1, staged)
        program.write(n, 1)
        written = waits.mark(1)
        waits.wait(0, written)
        program.stage()
        staged = waits.mark(0)
        program.run()
        program.read(program.output, 0)


def pipelined_io(program: Program, waits: Waits) -> None:
    """Queue 1 writes the next input and reads the last output while queue 0 computes."""
    program.write(0, 1)
    written, read = waits.mark(1), None
    for n in range(ROUNDS):
        waits.wait(0, written)
        program.stage()
        staged = waits.mark(0)
        if n + 1 < ROUNDS:
            waits.wait(1, staged)
            program.write(n + 1, 1)
            written = waits.mark(1)
        program.run()
        waits.wait(0, read)
        program.spill()
        spilled = waits.mark(0)
        waits.wait(1, spilled)
        program.read(program.dram_out, 1)
        read = waits.mark(1)


SCHEDULES = [
    (one_queue, False, 0),
    (one_queue, True, 0),
    (overlapped_input, False, 2 * ROUNDS - 1),
    (overlapped_input, True, 2 * ROUNDS - 1),
    (pipelined_io, True, 4 * ROUNDS - 2),
]


@pytest.mark.parametrize(("schedule", "traced", "waits"), SCHEDULES)
def test_correct_executors_are_silent_and_right(two_queues, toys, tensor, schedule, traced, waits):
    program = Program(two_queues, toys, tensor, traced)
    counter = Waits(two_queues)
    schedule(program, counter)
    assert program.values() == [n + 1.0 for n in range(ROUNDS)]
    assert counter.count == waits


@pytest.mark.parametrize(
    ("schedule", "traced", "left_out"), [(s, t, i) for s, t, count in SCHEDULES for i in range(count)]
)
def test_every_wait_that_is_taken_out_is_named(open_card, toys, tensor, schedule, traced, left_out):
    device = open_card(num_command_queues=2)
    program = Program(device, toys, tensor, traced)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HazardWarning)
        schedule(program, Waits(device, left_out))
        ttnn.synchronize_device(device)
    found = device.hazards.found[0]
    assert "and nothing orders the two" in found
    assert found.count("on queue 0") >= 1 and found.count("on queue 1") >= 1
    assert "missing: event = ttnn.record_event(device, " in found and "ttnn.wait_for_event(" in found


def test_a_hazard_names_both_commands_and_the_event(two_queues, toys, tensor):
    x, y = tensor(two_queues), tensor(two_queues)
    ttnn.synchronize_device(two_queues)
    toys.into(x, y, queue_id=0)
    with pytest.raises(HazardError) as caught:
        y.cpu(cq_id=1)
    assert str(caught.value) == (
        f"ttnn.from_device on queue 1 reads to_device at DRAM address {y.buffer_address()} that ttnn.test_into on "
        "queue 0 wrote, and nothing orders the two.\n  missing: event = ttnn.record_event(device, 0) after "
        "ttnn.test_into on queue 0, and ttnn.wait_for_event(1, event) before ttnn.from_device on queue 1"
    )


@pytest.mark.parametrize("order", ["event", "event_synchronize", "synchronize_device", "synchronize_queue", "read"])
def test_every_kind_of_order_counts(two_queues, toys, tensor, order):
    x, y = tensor(two_queues), tensor(two_queues)
    ttnn.synchronize_device(two_queues)
    toys.into(x, y, queue_id=0)
    if order == "event":
        ttnn.wait_for_event(1, ttnn.record_event(two_queues, 0))
    elif order == "event_synchronize":
        ttnn.event_synchronize(ttnn.record_event(two_queues, 0))
    elif order == "synchronize_device":
        ttnn.synchronize_device(two_queues)
    elif order == "synchronize_queue":
        ttnn.synchronize_device(two_queues, 0)
    else:
        y.cpu(cq_id=0)
    y.cpu(cq_id=1)


def test_order_is_transitive_through_the_other_queue_and_the_host(two_queues, toys, tensor):
    x, y = tensor(two_queues), tensor(two_queues)
    ttnn.synchronize_device(two_queues)
    toys.into(x, y, queue_id=0)
    ttnn.wait_for_event(1, ttnn.record_event(two_queues, 0))
    late = ttnn.record_event(two_queues, 1)
    ttnn.event_synchronize(late)  # the host has seen queue 1, and through it queue 0
    ttnn.copy_host_to_device_tensor(tensor(None), x, cq_id=1)
    y.cpu(cq_id=1)


def test_memory_freed_by_the_host_while_the_other_queue_uses_it(two_queues, toys, tensor):
    x, y = tensor(two_queues), tensor(two_queues)
    ttnn.synchronize_device(two_queues)
    toys.into(x, y, queue_id=0)
    address = x.buffer_address()
    ttnn.deallocate(x)
    again = ttnn.allocate_tensor_on_device(y.spec, two_queues)
    assert again.buffer_address() == address
    with pytest.raises(HazardError, match=r"that ttnn.test_into on queue 0 reads, and nothing orders the two"):
        ttnn.copy_host_to_device_tensor(tensor(None), again, cq_id=1)


def test_two_readers_are_no_hazard(two_queues, tensor):
    x = tensor(two_queues)
    ttnn.synchronize_device(two_queues)
    for queue in (0, 1, 0, 1):
        x.cpu(blocking=False, cq_id=queue)


def test_one_queue_is_never_followed(open_card, toys, tensor):
    card = open_card(hazards="raise")
    x = tensor(card)
    for _ in range(10):
        x = toys.plus(x)
    assert card.hazards.size == 0


def test_switched_off(open_card, toys, tensor):
    card = open_card(num_command_queues=2, hazards="off")
    x, y = tensor(card), tensor(card)
    toys.into(x, y, queue_id=1)
    y.cpu(cq_id=0)
    assert card.hazards.size == 0 and not card.hazards.found


def test_reading_what_nothing_has_written(open_card, toys, tensor):
    card = open_card(hazards="raise")
    x = ttnn.allocate_tensor_on_device(tensor(None).spec, card)
    with pytest.raises(HazardError, match=r"ttnn.from_device reads a tensor of shape .* which nothing has written"):
        x.cpu()
    before = card.memory_view(BufferType.DRAM)
    with pytest.raises(HazardError, match=r"ttnn.test_plus reads"):
        toys.plus(x)
    assert card.memory_view(BufferType.DRAM) == before
    toys.into(tensor(card), x)
    x.cpu()


def test_using_a_non_blocking_read_too_early(open_card, toys, tensor):
    card = open_card()
    host = tensor(card, 3.0).cpu(blocking=False)
    with pytest.warns(HazardWarning, match=r"before it has waited for it"):
        assert host.to_torch().float().unique().tolist() == [3.0]
    host = tensor(card, 4.0).cpu(blocking=False)
    ttnn.synchronize_device(card)
    assert host.to_torch().float().unique().tolist() == [4.0]
    host = tensor(card, 5.0).cpu(blocking=False)
    ttnn.event_synchronize(ttnn.record_event(card, 0))
    assert host.to_torch().float().unique().tolist() == [5.0]
    assert len(card.hazards.found) == 1


def test_a_hazard_that_raises_leaves_the_card_consistent(two_queues, toys, tensor):
    x = tensor(two_queues)
    before = two_queues.memory_view(BufferType.DRAM).total_bytes_allocated_per_bank
    with pytest.raises(HazardError):
        toys.move(x, queue_id=1)
    assert two_queues.memory_view(BufferType.DRAM).total_bytes_allocated_per_bank == before
    assert x.is_allocated()
    del x
    assert two_queues.memory_view(BufferType.DRAM).total_bytes_allocated_per_bank == 0


# --- random correct programs ------------------------------------------------------------------------------------

ORDERS = st.sampled_from(["event", "event_synchronize", "synchronize_device", "synchronize_queue"])
ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["copy", "write", "read", "renew", "replay"]),
        st.integers(0, 1),
        st.integers(0, 3),
        st.integers(0, 3),
        ORDERS,
    ),
    max_size=40,
)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(actions=ACTIONS)
def test_random_correct_programs_are_silent(toys, tensor, actions):
    """A buffer belongs to the queue that used it last; another queue orders itself after that one before it uses it."""
    device = ttnn.open_device(device_id=0, num_command_queues=2, hazards="raise")
    try:
        buffers = [tensor(device, float(i)) for i in range(4)]
        toys.into(buffers[0], buffers[1])
        trace = ttnn.begin_trace_capture(device, cq_id=0)
        toys.into(buffers[2], buffers[3])
        ttnn.end_trace_capture(device, trace, cq_id=0)
        ttnn.synchronize_device(device)
        expected = [0.0, 0.0, 2.0, 3.0]
        owner: list[int | None] = [None] * 4

        def claim(queue: int, order: str, *used: int) -> None:
            for i in used:
                if owner[i] not in (None, queue):
                    if order == "event":
                        ttnn.wait_for_event(queue, ttnn.record_event(device, owner[i]))
                    elif order == "event_synchronize":
                        ttnn.event_synchronize(ttnn.record_event(device, owner[i]))
                    else:
                        ttnn.synchronize_device(device, None if order == "synchronize_device" else owner[i])
                owner[i] = queue

        for action, queue, i, j, order in actions:
            if action == "copy" and i != j:
                claim(queue, order, i, j)
                toys.into(buffers[i], buffers[j], queue_id=queue)
                expected[j] = expected[i]
            elif action == "write":
                claim(queue, order, i)
                ttnn.copy_host_to_device_tensor(tensor(None, float(j + 10)), buffers[i], cq_id=queue)
                expected[i] = j + 10.0
            elif action == "read":
                claim(queue, order, i)
                assert ttnn.to_torch(buffers[i], cq_id=queue).float().unique().tolist() == [expected[i]]
            elif action == "renew" and i < 2:  # the traced tensors stay
                claim(queue, order, i)
                address = buffers[i].buffer_address()
                ttnn.deallocate(buffers[i])
                buffers[i] = ttnn.allocate_tensor_on_device(buffers[2].spec, device)
                assert buffers[i].buffer_address() == address
                ttnn.copy_host_to_device_tensor(tensor(None, 7.0), buffers[i], cq_id=queue)
                expected[i] = 7.0
            elif action == "replay":
                claim(queue, order, 2, 3)
                ttnn.execute_trace(device, trace, cq_id=queue, blocking=False)
                expected[3] = expected[2]
        ttnn.synchronize_device(device)
        assert [ttnn.to_torch(b).float().unique().item() for b in buffers] == expected
    finally:
        ttnn.close_device(device)


@pytest.fixture
def strict(open_card):
    return open_card(num_command_queues=2, l1_small_size=65536, hazards="raise")


def books(card):
    return (
        {kind: region.snapshot() for kind, region in card.memory.regions.items()},
        dict(card.live),
        dict(card.program_cache.programs),
        [card.hazards.order.at(queue) for queue in (0, 1)],
        list(card.hazards.order.host),
    )


def test_a_refused_call_changes_no_state(strict, tensor, toys):
    x = tensor(strict, 1.0)
    before = books(strict)
    for call in (
        lambda: toys.plus(x, queue_id=1),
        lambda: toys.move(x, queue_id=1),
        lambda: x.cpu(cq_id=1),
        lambda: ttnn.copy_host_to_device_tensor(tensor(None, 3.0), x, cq_id=1),
    ):
        with pytest.raises(HazardError):
            call()
        assert books(strict) == before
        assert x.is_allocated()
    assert float(ttnn.to_torch(x).flatten()[0]) == 1.0


def test_a_refused_call_causes_no_alarm_later(strict, tensor, toys):
    x = tensor(strict, 1.0)
    with pytest.raises(HazardError):
        toys.move(x, queue_id=1)
    y = toys.plus(x)  # on the queue that wrote it
    ttnn.wait_for_event(1, ttnn.record_event(strict, 0))
    z = toys.move(x, queue_id=1)
    assert float(ttnn.to_torch(z.cpu(cq_id=1)).flatten()[0]) == 2.0
    assert float(ttnn.to_torch(y).flatten()[0]) == 2.0


def test_a_repeated_call_that_is_refused_leaves_its_output_as_it_was(strict, tensor, toys):
    x, y = tensor(strict, 1.0), tensor(strict, 5.0)
    ttnn.synchronize_device(strict)
    toys.into(x, y)
    ttnn.synchronize_device(strict)
    toys.into(x, y, queue_id=1)
    ttnn.synchronize_device(strict)
    ttnn.copy_host_to_device_tensor(tensor(None, 7.0), x, cq_id=0)
    before = books(strict)
    with pytest.raises(HazardError):
        toys.into(x, y, queue_id=1)
    assert books(strict) == before
    assert float(ttnn.to_torch(y).flatten()[0]) == 1.0


def test_a_refused_replay_changes_no_state(open_card, tensor):
    card = open_card(num_command_queues=2, trace_region_size=65536, hazards="raise")
    x = tensor(card, 1.0)
    ttnn.add(x, x)
    trace = ttnn.begin_trace_capture(card, cq_id=0)
    y = ttnn.add(x, x)
    ttnn.end_trace_capture(card, trace, cq_id=0)
    ttnn.synchronize_device(card)
    ttnn.copy_host_to_device_tensor(tensor(None, 2.0), x, cq_id=1)
    before = books(card)
    with pytest.raises(HazardError):
        ttnn.execute_trace(card, trace, cq_id=0)
    assert books(card) == before and not y._buffer.written
    ttnn.wait_for_event(0, ttnn.record_event(card, 1))
    ttnn.execute_trace(card, trace, cq_id=0)
    assert float(ttnn.to_torch(y).flatten()[0]) == 4.0
