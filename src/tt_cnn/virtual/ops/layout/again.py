# SPDX-License-Identifier: Apache-2.0
"""The calls that a pipeline makes again for every input, without looking at the same arguments again.

On a GPU they only launch work, and a small model takes it no longer than Python takes to make them. Here each does what
the call of TT-NN's name does behind its arguments, in the same order: what is refused, hazards between the queues, what
replays write over, failures and events. Only what nobody would see is left out, so whoever listens to commands, or
follows calls, gets the calls themselves (`usable`).
"""

from __future__ import annotations

from typing import Any

import torch

from tt_cnn.virtual.devices.device import MeshDevice, values_on
from tt_cnn.virtual.devices.repeats import Repeat
from tt_cnn.virtual.devices.synchronization import MeshEvent
from tt_cnn.virtual.engines import used_here
from tt_cnn.virtual.ops.layout.transfers import fit
from tt_cnn.virtual.ops.operation import OPERATIONS, Operation
from tt_cnn.virtual.queues.accesses import accesses_of
from tt_cnn.virtual.queues.queue import Command, Job, current_queue
from tt_cnn.virtual.tensors.storage import HostStorage, PendingRead
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.threads.calls import followers
from tt_cnn.virtual.threads.latch import OPENED
from tt_cnn.virtual.tracing.trace import MeshTraceId

WRITE, READ = "copy_host_to_device_tensor", "from_device"


class CallsAgain:
    """As a context: the card's books are open, its queues' work goes to their streams, and calls without a queue of
    their own go to the one that computes."""

    def __init__(self, device: MeshDevice, queue: int) -> None:
        self._device, self._queue = device, queue
        self._scope = device.engine.scope_of_all()
        self._writes: dict[tuple[int, int], _Write] = {}
        self._stages: dict[tuple[int, int, int], _Stage] = {}

    @property
    def usable(self) -> bool:
        """Whether nobody looks at single calls or commands, now."""
        device = self._device
        unseen = self._scope is not None and not device.watched and not device.timers and not device.closed
        return unseen and not followers() and Operation.runner is None

    def __enter__(self) -> None:
        self._device.lock.__enter__()
        assert self._scope is not None
        self._scope.__enter__()
        self._outside = current_queue.set(self._queue)

    def __exit__(self, *error: Any) -> None:
        try:
            current_queue.reset(self._outside)
            assert self._scope is not None
            self._scope.__exit__(*error)
        finally:
            self._device.lock.__exit__(*error)

    def write(self, host: Tensor, target: Tensor, queue: int) -> None:
        """`ttnn.copy_host_to_device_tensor` of a tensor that is like the target."""
        buffer = target.buffer(WRITE)
        key = queue, buffer.serial
        known = self._writes.get(key)
        if known is None:
            known = self._writes[key] = _Write(self._device, target, queue)
        known.values = values_on(self._device, host.host_values(WRITE))
        self._launch(known.command)
        buffer.will_be_written(queue)

    def stage(self, source: Tensor, target: Tensor, queue: int) -> None:
        """`ttnn.to_memory_config` into a tensor that is there, with the memory config that it has."""
        key = queue, source.tensor_id, target.tensor_id
        known = self._stages.get(key)
        if known is None:
            known = self._stages[key] = _Stage(self._device, source, target, queue)
        command = known.command()
        if command is None:
            known.operation.run(known.call)
            return
        self._launch(command, known.run)
        for cell in command.writes:
            cell.will_be_written()

    def replay(self, trace_id: MeshTraceId, queue: int) -> None:
        """`ttnn.execute_trace` without waiting."""
        device = self._device
        trace = device.traces.get(int(trace_id))
        if trace is None:
            return device.execute_trace(trace_id, queue, blocking=False)  # which says so
        trace.memory.check(device, trace)
        command = trace.command_on(queue)
        device.hazards.enqueue(queue, command, command.accesses)
        trace.memory.replayed(device, trace)
        self._submit(command)

    def read(self, tensor: Tensor, queue: int) -> Tensor:
        """`ttnn.from_device` without waiting, into a new host tensor."""
        buffer = tensor.buffer(READ)
        if not buffer.written:
            buffer.check_readable(f"ttnn.{READ}", f"a tensor of shape {tensor.shape}")
        device, cell, spec = self._device, buffer.cell, tensor.spec
        engine, host = device.engine, HostStorage(None)
        pending = PendingRead(device, OPENED)  # jobs that only launch have run when they were handed over

        def job() -> None:
            host.values = [engine.download(v) for v in cell.read(spec, device.chips, engine.device)]
            pending.mark = engine.mark_of_reads(queue)

        accesses = accesses_of([buffer], write=False)
        command = Command(f"ttnn.{READ}", queue, job, accesses, reads=[cell], fills=host)
        pending.enqueued(queue, self._launch(command))
        host.pending = pending
        return Tensor.on_host(spec, host)

    def record(self, queue: int) -> MeshEvent:
        """`ttnn.record_event`."""
        device = self._device
        return MeshEvent(device, *device.mark(device.queues[queue]))

    def wait(self, queue: int, mark: MeshEvent) -> None:
        """`ttnn.wait_for_event`."""
        device = self._device
        device.follow(device.queues[queue], mark.event)

    def finish(self, mark: MeshEvent) -> None:
        """`ttnn.event_synchronize`, outside of the context."""
        self._device.event_synchronize(mark.event)

    def _launch(self, command: Command, job: Job | None = None) -> int:
        """As `MeshDevice.enqueue` does it; the job is the command's."""
        device = self._device
        tick = device.hazards.enqueue(command.queue, command, command.accesses)
        if device.loose.cells:
            device.loose.written_over(command)
        self._submit(command, job)
        return tick

    def _submit(self, command: Command, job: Job | None = None) -> None:
        assert self._scope is not None
        self._scope.on(command.queue)
        self._device.queues[command.queue].launch(command.execute if job is None else job)


class _Write:
    """A command that puts `values` into a tensor, the same for all inputs: it has run when the next one comes."""

    def __init__(self, device: MeshDevice, target: Tensor, queue: int) -> None:
        buffer = target.buffer(WRITE)
        cell, engine, logical, shape = buffer.cell, device.engine, target.shape, tuple(target.padded_shape)
        self.values: list[torch.Tensor] = []

        def job() -> None:
            values, self.values = self.values, []
            cell.values = [engine.upload(fit(one, logical, shape)) for one in values]

        self.command = Command(f"ttnn.{WRITE}", queue, job, accesses_of([buffer], write=True), writes=[cell])


class _Stage:
    """A call that moves a tensor into another one. Where that hands values on as they are, later ones are too."""

    def __init__(self, device: MeshDevice, source: Tensor, target: Tensor, queue: int) -> None:
        self._device = device
        self.operation = OPERATIONS["to_memory_config"]
        self.call = self.operation.bind((source, target.memory_config()), {"output_tensor": target})
        self.call.queue = queue
        self._source, self._target = source.buffer(WRITE).cell, target.buffer(WRITE).cell
        self._repeat: Repeat | None = None
        self._handed_on: list[torch.Size] | None = None
        """Shapes of values that the command has handed on."""

    def command(self) -> Command | None:
        """What an earlier call has left for this one, where it is still right."""
        device, call, known = self._device, self.call, self._repeat
        for i, tensor in enumerate(call.tensors):
            tensor.buffer(self.operation.name, self.operation.freed_input(call, i))
        if known is None or not device.repeats.is_right(known, call.tensors, device.memory, device.programs_cached):
            self._repeat, self._handed_on = self.operation.repeat_of(call), None
        return None if self._repeat is None else self._repeat.command

    def run(self) -> None:
        assert self._repeat is not None
        values = self._source.values
        if self._handed_on is not None and isinstance(values, list) and _shapes(values) == self._handed_on:
            for one in values:
                used_here(one)
            self._target.values = list(values)
            return
        self._repeat.command.execute()
        after = self._target.values
        if isinstance(values, list) and isinstance(after, list) and len(values) == len(after):
            same = all(a is b for a, b in zip(values, after, strict=True))
            self._handed_on = _shapes(values) if same else None


def _shapes(values: list[torch.Tensor]) -> list[torch.Size]:
    return [one.shape for one in values]
