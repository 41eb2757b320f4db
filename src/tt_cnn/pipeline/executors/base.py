# SPDX-License-Identifier: Apache-2.0
"""The verbs that all executors share, what they keep on the card, and how they give it back.

write    host tensor to the persistent input in DRAM
stage    persistent input to L1, where the model takes it
run      call the model, or replay its trace
spill    outputs to persistent tensors in DRAM
read     outputs to the host, without waiting
record   mark what a queue has so far, under a name; `wait` makes the other queue wait for the last mark of a name
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

from tt_cnn import ttnn
from tt_cnn.pipeline.inputs import check_host_tensor
from tt_cnn.pipeline.outputs import leaves_of, map_outputs, one_for_each, schema_of
from tt_cnn.runtime import is_virtual

COMPUTE = 0
"""The queue that models run on."""
TRANSFERS = 1
"""The second queue, of executors that have one."""


class Reading(NamedTuple):
    """Outputs on their way to the host: they are there once `done` is reached."""

    outputs: Any
    done: Any


class Executor(ABC):
    """One schedule over the verbs. `push` takes an input in, `flush` brings out what is still inside.

    One's own needs `submit`, or `execute` as TT-CNN has it: then its inputs come to it one at a time.
    """

    traced: ClassVar[bool] = False
    """The model is captured once and replayed."""
    spills: ClassVar[bool] = False
    """Outputs go to persistent DRAM tensors before they are read."""
    compute_queue: int = COMPUTE
    input_queue: int = COMPUTE
    read_queue: int = COMPUTE
    fewest_inputs: ClassVar[int] = 0
    """Inputs that `Pipeline.enqueue` needs."""
    device: Any
    output_schema: Any = None
    marks: dict[str, Any]
    again: Any = None
    """Makes the calls of one input as those before, where the virtual card has that: verbs use it while it is open."""
    _open: Any = None

    def __init__(
        self,
        model: Callable[[Any], Any],
        device: Any,
        dram_input_memory_config: Any = None,
        l1_input_memory_config: Any = None,
        dram_output_memory_config: Any = None,
    ) -> None:
        self.model = model
        self.device = device
        self.l1_input_memory_config = l1_input_memory_config
        self.dram_input_memory_config = dram_input_memory_config
        self.dram_output_memory_config = dram_output_memory_config
        self._forget()

    def __new__(cls, *_: Any, **__: Any) -> Executor:
        """Marks are there also where a user's `__init__` does not call ours."""
        executor = super().__new__(cls)
        executor.marks = {}
        return executor

    def _forget(self) -> None:
        self.dram_input: Any = None
        self.l1_input: Any = None
        self.traced_outputs: Any = None
        self.dram_outputs: Any = None
        self.trace_id: Any = None
        self.output_schema: Any = None
        self.marks: dict[str, Any] = {}
        self.again = None

    # --- the schedule -------------------------------------------------------------------------------------------

    def submit(self, host_input: Any) -> Any:
        """Enqueue one input; its outputs, on the device, before any read of them."""
        if type(self).execute is Executor.execute:
            raise NotImplementedError(f"{type(self).__name__} has neither submit nor execute")
        (outputs,) = self.execute([host_input])
        return outputs

    def push(self, host_input: Any, slot: Any = None) -> list[Reading]:
        """Enqueue one input. Returns the outputs whose reads were enqueued with it, of this input or of earlier ones.

        Outputs go to `slot`, host tensors in the structure of the outputs, or to new host tensors.
        """
        return [self.read(self.submit(host_input), slot)]

    def push_again(self, host_input: Any, slot: Any = None) -> list[Reading]:
        """`push` of an input like the one compiled with."""
        again = self.again
        if again is None or not again.usable:
            with ttnn.command_queue(self.compute_queue):
                return self.push(host_input, slot)
        self._open = again
        try:
            with again:
                return self.push(host_input, slot)
        finally:
            self._open = None

    def execute(self, host_inputs: Sequence[Any]) -> Iterator[Any]:
        """The outputs of each input on the device, in order, for callers that read them themselves.

        What a caller enqueues on `get_read_cq()` before it asks for the next outputs reads these; afterwards they may
        be overwritten. `Pipeline` reads on its own.
        """
        for host_input in host_inputs:
            with ttnn.command_queue(self.compute_queue):
                outputs = self.submit(self._checked(host_input))
            yield outputs
            self.signal_read_complete()

    def _checked(self, host_input: Any) -> Any:
        self.get_output_schema()
        check_host_tensor(host_input, "Input tensor must be on host", "the input")
        return host_input

    def flush(self) -> list[Reading]:
        """Enqueue the reads of what was pushed and not yet read."""
        return []

    # --- the verbs ----------------------------------------------------------------------------------------------

    def write(self, host_input: Any, queue: int) -> None:
        if self._open is not None:
            return self._open.write(host_input, self.dram_input, queue)
        ttnn.copy_host_to_device_tensor(host_input, self.dram_input, cq_id=queue)

    def stage(self) -> None:
        """Into the tensor that the trace reads; without a trace into a new one, which the model may give back."""
        config = self.l1_input_memory_config
        if self._open is not None and self.l1_input is not None and config == self.l1_input.spec.memory_config:
            self._open.stage(self.dram_input, self.l1_input, self.compute_queue)
        elif self.l1_input is None:
            self.l1_input = ttnn.to_memory_config(self.dram_input, config)
        else:
            ttnn.to_memory_config(self.dram_input, config, output_tensor=self.l1_input)

    def run(self) -> Any:
        if self.trace_id is not None and self._open is not None:
            self._open.replay(self.trace_id, self.compute_queue)
            return self.traced_outputs
        if self.trace_id is not None:
            ttnn.execute_trace(self.device, self.trace_id, cq_id=self.compute_queue, blocking=False)
            return self.traced_outputs
        l1_input, self.l1_input = self.l1_input, None  # gone with the call, unless the model keeps it
        return self.model(l1_input)

    def spill(self, outputs: Any) -> None:
        map_outputs(
            lambda output, kept: ttnn.to_memory_config(output, kept.memory_config(), output_tensor=kept),
            outputs,
            self.dram_outputs,
        )

    def read(self, outputs: Any, slot: Any = None) -> Reading:
        """Enqueue the read and say so: what comes after `signal_read_complete` may overwrite the outputs."""
        queue = self.get_read_cq()
        if slot is None and self._open is not None:
            host = map_outputs(lambda output: self._open.read(output, queue), outputs)
        elif slot is None:
            host = map_outputs(lambda output: output.cpu(blocking=False, cq_id=queue), outputs)
        else:
            host = slot
            map_outputs(
                lambda output, into: ttnn.copy_device_to_host_tensor(output, into, blocking=False, cq_id=queue),
                outputs,
                slot,
            )
        self.signal_read_complete()
        return Reading(host, self.marks["read"])

    def signal_read_complete(self) -> None:
        """Called once for each input, after the reads of all its outputs were enqueued."""
        self.record(self.get_read_cq(), "read")

    def record(self, queue: int, name: str) -> None:
        again = self._open
        self.marks[name] = ttnn.record_event(self.device, queue) if again is None else again.record(queue)

    def wait(self, queue: int, name: str) -> None:
        """A name without a mark, as before the first input, is nothing to wait for."""
        if name in self.marks:
            wait = ttnn.wait_for_event if self._open is None else self._open.wait
            wait(queue, self.marks[name])

    def finish(self, mark: Any) -> None:
        """Make the host wait for a mark."""
        if self.again is None:
            ttnn.event_synchronize(mark)
        else:
            self.again.finish(mark)

    # --- compiling ----------------------------------------------------------------------------------------------

    def compile(self, host_input: Any) -> None:
        """Run once so that every program is built, and capture the trace. All or nothing."""
        check_host_tensor(host_input, "Input tensor must be on host", "the input")
        try:
            with ttnn.command_queue(self.compute_queue):
                self._allocate_input(host_input)
                self._warm_up(host_input)
                if self.traced:
                    self._capture(host_input)
                    self.again = calls_again(self.device, self.compute_queue)
        except BaseException:
            self.cleanup()
            raise

    def _allocate_input(self, host_input: Any) -> None:
        self.dram_input = ttnn.allocate_tensor_on_device(
            host_input.shape, host_input.dtype, host_input.layout, self.device, self.dram_input_memory_config
        )

    def prepare(self, host_input: Any) -> None:
        """The input in L1, all on the queue that computes."""
        self.write(host_input, self.compute_queue)
        self.stage()

    def _warm_up(self, host_input: Any) -> None:
        self.prepare(host_input)
        outputs = self.run()
        self.output_schema = schema_of(outputs)
        if self.spills:
            configs = one_for_each(self.dram_output_memory_config, self.output_schema, "dram_output_memory_config")
            self.dram_outputs = map_outputs(
                lambda spec, config: ttnn.allocate_tensor_on_device(*spec, self.device, config),
                self.output_schema,
                configs,
            )
            self.spill(outputs)
        ttnn.synchronize_device(self.device)

    def _capture(self, host_input: Any) -> None:
        """Capture the model on an input that stays in L1, at the address that every replay will read.

        A model may give its input back. Then it is allocated again, before the capture ends, and has to come to lie
        where it was: the trace has its address.
        """
        self.prepare(host_input)
        l1_input, self.l1_input = self.l1_input, None
        spec, address = l1_input.spec, l1_input.buffer_address()
        ttnn.synchronize_device(self.device)
        trace_id = ttnn.begin_trace_capture(self.device, cq_id=self.compute_queue)
        try:
            self.traced_outputs = self.model(l1_input)
            if not l1_input.is_allocated():
                l1_input = ttnn.allocate_tensor_on_device(spec, self.device)
            self.l1_input = l1_input
        finally:
            ttnn.end_trace_capture(self.device, trace_id, cq_id=self.compute_queue)
            self.trace_id = trace_id
        actual = l1_input.buffer_address()
        if actual != address:
            raise RuntimeError(
                f"L1 input tensor address mismatch: trace captured {address}, but persistent tensor allocated at "
                f"{actual}\n  the model gave its input's memory back and an output took the place; let it keep its "
                f"input, or move its outputs to DRAM"
            )

    def get_output_schema(self) -> Any:
        """Shape, dtype and layout of each output, in the structure that the model returns."""
        if self.output_schema is None:
            raise RuntimeError("Executor must be compiled before getting the output schema.")
        return self.output_schema

    def get_read_cq(self) -> int:
        return self.read_queue

    # --- the end ------------------------------------------------------------------------------------------------

    def cleanup(self) -> None:
        """Wait for the device and give back trace and tensors; harmless when there is nothing (left) to give back."""
        trace_id, kept = self.trace_id, [self.dram_input, self.l1_input, *leaves_of(self.dram_outputs)]
        if trace_id is None and all(tensor is None for tensor in kept):
            self._forget()
            return
        try:
            ttnn.synchronize_device(self.device)
        finally:
            self._forget()
            if trace_id is not None:
                ttnn.release_trace(self.device, trace_id)
            for tensor in kept:
                if tensor is not None and tensor.is_allocated():
                    ttnn.deallocate(tensor, force=True)


def calls_again(device: Any, queue: int) -> Any:
    """What makes a pipeline's calls again on a card whose queues only launch work; None for other devices."""
    if not is_virtual():
        return None
    from tt_cnn.virtual.ops.layout.again import CallsAgain

    return CallsAgain(device, queue)


def wait_for_all(executor: Executor) -> None:
    """Wait until the device has done all that an executor has enqueued. Failures are left to those who read."""
    for queue in sorted({executor.compute_queue, executor.input_queue, executor.get_read_cq()}):
        ttnn.event_synchronize(ttnn.record_event(executor.device, queue))
