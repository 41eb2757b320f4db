# SPDX-License-Identifier: Apache-2.0
"""Driving an executor: batches, streams, outputs, the end, from any thread."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, NamedTuple

from tt_cnn import ttnn
from tt_cnn.interrupts import uninterrupted
from tt_cnn.pipeline.executors import Executor
from tt_cnn.pipeline.executors.base import Reading, wait_for_all
from tt_cnn.pipeline.inputs import InputSpec, check_host_tensor
from tt_cnn.pipeline.outputs import as_specs, map_outputs
from tt_cnn.pipeline.progress import track
from tt_cnn.pipeline.statistics import PipelineStats, StatsBook
from tt_cnn.pipeline.work import Watch, watch

_LOOK_AGAIN_SECONDS = 0.5
"""Whoever waits for another thread's stream looks whether that is still there."""


class _Turn:
    """One stream's turn in the pipeline. It goes with the stream's frame, whatever ended it."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()


class _Pending(NamedTuple):
    """An input in the pipeline, and the reading that will bring its outputs."""

    reading: Reading
    handed_over: float
    thread: int


class Pipeline:
    """Inputs in, outputs out, in order. `with` cleans up at the end, whatever happens.

    Threads may share it: each gets from `pop_all` the outputs of its own `enqueue`s; a thread that enqueued none gets
    those of all. While one thread streams, the inputs of others wait.
    """

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self.output_tensors: list[Any] = []
        """The preallocated host tensors, or what the last `pop_all` returned."""
        self.preallocated_output_tensors = False
        self.output_schema: Any = None
        """Shape, dtype and layout of each output, in the structure that the model returns; once it is compiled."""
        self._input: InputSpec | None = None
        self._cleaned_up = False
        self._pending: list[_Pending] = []
        self._handed_over: deque[float] = deque()
        """When inputs were handed over whose reads are not enqueued yet."""
        self._slots_used = 0
        self._stats = StatsBook()
        self._watch: Watch | None = None
        self._lock = threading.RLock()
        self._turn = threading.Condition(self._lock)
        self._streaming: weakref.ref[_Turn] | None = None
        """The thread whose stream has the executor."""

    # --- compiling ----------------------------------------------------------------------------------------------

    def compile(self, host_input: Any) -> Pipeline:
        """Build all programs and capture the trace, with an input like those to come."""
        with self._lock:
            self._refuse_after_cleanup("compile")
            if self._input is not None:
                raise RuntimeError("The pipeline is compiled already; create another one for another input.")
            check_host_tensor(host_input, "Input tensor must be on host", "the input")
            with ttnn.command_queue(self.executor.compute_queue):
                self.executor.compile(host_input)
                try:
                    self._watch = watch(self.executor, host_input)
                except BaseException:
                    self.executor.cleanup()
                    raise
            self.output_schema = self.executor.get_output_schema()
            self._input = InputSpec.of(host_input)
            self._stats = StatsBook()
        return self

    def preallocate_output_tensors_on_host(self, number_of_tensors_to_allocate: int) -> Pipeline:
        """Host tensors for the outputs of so many inputs. From now on `enqueue` fills them, from the first one on."""
        number = number_of_tensors_to_allocate
        with self._lock:
            self._refuse_after_cleanup("preallocate_output_tensors_on_host")
            if self._input is None:
                raise RuntimeError("Pipeline must be compiled before pre-allocating output tensors.")
            if isinstance(number, bool) or not isinstance(number, int) or number < 1:
                raise ValueError(f"number_of_tensors_to_allocate is {number!r}; it must be 1 or more")
            if self._pending:
                raise RuntimeError("Outputs are pending; take them with pop_all before pre-allocating output tensors.")
            schema, device = as_specs(self.output_schema), self.executor.device
            self.output_tensors = [
                map_outputs(lambda spec: ttnn.allocate_tensor_on_host(*spec, device), schema) for _ in range(number)
            ]
            self.preallocated_output_tensors = True
            self._slots_used = 0
        return self

    # --- batches ------------------------------------------------------------------------------------------------

    def enqueue(self, host_inputs: Sequence[Any]) -> Pipeline:
        """Hand over host tensors; the device works on them while the host goes on. `pop_all` brings the outputs.

        All inputs are checked before the first one is handed over. All are handed over or, where that fails, none.
        """
        if isinstance(host_inputs, ttnn.Tensor):
            raise TypeError("enqueue takes a list of host tensors; it was given one tensor: put it into a list")
        inputs = list(host_inputs)
        with self._lock:
            self._take_turn("enqueue")
            self._check_batch(inputs)
            batch: list[_Pending] = []
            slots_used = self._slots_used
            try:
                with ttnn.command_queue(self.executor.compute_queue):
                    for host_input in inputs:
                        with uninterrupted:
                            batch += self._paired(self._push(host_input, self._next_slot()))
                    with uninterrupted:
                        batch += self._paired(self.executor.flush())
                        self._pending += batch
            except BaseException:
                with uninterrupted:
                    self._pending = [one for one in self._pending if not any(one is mine for mine in batch)]
                    self._slots_used = slots_used
                    self._drop_unread(len(batch))
                raise
        return self

    def _check_batch(self, inputs: list[Any]) -> None:
        expected = self._compiled_for("enqueue")
        for index, host_input in enumerate(inputs):
            check_host_tensor(host_input, "All input tensors must be on host", f"input {index}")
            expected.check(host_input, index)
        if len(inputs) < self.executor.fewest_inputs:
            raise ValueError(
                f"Pipelined I/O executor requires at least {self.executor.fewest_inputs} inputs for pipelining "
                f"(got {len(inputs)})"
            )
        if self.preallocated_output_tensors and self._slots_used + len(inputs) > len(self.output_tensors):
            waiting = f" {self._slots_used} of them wait for pop_all." if self._slots_used else ""
            raise ValueError(
                f"Number of inputs ({len(inputs)}) exceeds the number of pre-allocated output slots "
                f"({len(self.output_tensors)}).{waiting}"
            )

    def _next_slot(self) -> Any:
        if not self.preallocated_output_tensors:
            return None
        self._slots_used += 1
        return self.output_tensors[self._slots_used - 1]

    def _push(self, host_input: Any, slot: Any = None) -> list[Reading]:
        self._handed_over.append(self._stats.handed_over())
        return self.executor.push_again(host_input, slot)

    def _flush(self) -> list[Reading]:
        with ttnn.command_queue(self.executor.compute_queue):
            return self.executor.flush()

    def _paired(self, readings: list[Reading]) -> list[_Pending]:
        thread = threading.get_ident()
        return [_Pending(reading, self._handed_over.popleft(), thread) for reading in readings]

    def pop_all(self, *, progress: bool = False) -> list[Any]:
        """Wait for the outputs of what was enqueued and return them in order.

        With preallocated outputs these are the preallocated tensors, and the next `enqueue` fills them again.
        """
        with self._lock:
            self._compiled_for("pop_all")
            thread = threading.get_ident()
            mine = [one for one in self._pending if one.thread == thread] or list(self._pending)
            for one in track(mine, "reading outputs", len(mine), progress):
                ttnn.event_synchronize(one.reading.done)
            for one in mine:
                self._stats.has_finished(one.handed_over)
            with uninterrupted:
                self._pending = [one for one in self._pending if not any(one is taken for taken in mine)]
                outputs = [one.reading.outputs for one in mine]
                if not self.preallocated_output_tensors:
                    self.output_tensors = outputs
                    return outputs
                if not self._pending:
                    self._slots_used = 0
            return self.output_tensors if len(outputs) == len(self.output_tensors) else outputs

    # --- streams ------------------------------------------------------------------------------------------------

    def stream(self, host_inputs: Iterable[Any], *, in_flight: int = 3, progress: bool = False) -> Iterator[Any]:
        """Outputs in order, while inputs are still arriving.

        At most `in_flight` inputs are in the pipeline, so memory does not grow with the stream; 1 waits for each
        output before the next input is taken. Stopping early is fine: what is in the pipeline is dropped.
        """
        if isinstance(host_inputs, ttnn.Tensor):
            raise TypeError("stream takes an iterable of host tensors; it was given one tensor: put it into a list")
        if isinstance(in_flight, bool) or not isinstance(in_flight, int) or in_flight < 1:
            raise ValueError(f"in_flight is {in_flight!r}; it must be 1 or more")
        with self._lock:
            self._compiled_for("stream")
        total = len(host_inputs) if isinstance(host_inputs, Sequence) else None
        return self._stream(track(host_inputs, "streaming", total, progress), in_flight)

    def _stream(self, host_inputs: Iterable[Any], in_flight: int) -> Iterator[Any]:
        inside: deque[_Pending] = deque()
        turn = _Turn()
        try:
            with self._lock:
                self._take_turn("stream")
                self._streaming = weakref.ref(turn)
            for index, host_input in enumerate(host_inputs):
                with self._lock, uninterrupted:
                    expected = self._compiled_for("stream")
                    check_host_tensor(host_input, "Input tensor must be on host", f"input {index}")
                    expected.check(host_input, index)
                    inside += self._paired(self._push(host_input))
                    if in_flight == 1:
                        inside += self._paired(self._flush())
                while len(inside) + len(self._handed_over) >= in_flight and inside:
                    yield self._finish(inside.popleft())
            with self._lock, uninterrupted:
                self._compiled_for("stream")
                inside += self._paired(self._flush())
            while inside:
                yield self._finish(inside.popleft())
        finally:
            self._end_stream(turn, len(inside))

    def _finish(self, one: _Pending) -> Any:
        self.executor.finish(one.reading.done)
        with self._lock:
            self._compiled_for("stream")
            self._stats.has_finished(one.handed_over)
        return one.reading.outputs

    def _end_stream(self, turn: _Turn | None, unread: int) -> None:
        """Leave the executor as it was found: nothing half done, nothing running on tensors that are gone.

        Only for the stream whose turn it is; None stands for one that is gone without having ended.
        """
        with self._lock, uninterrupted:
            if self._streaming is None or self._streaming() is not turn:
                return
            self._streaming = None
            self._turn.notify_all()
            if not self._cleaned_up:
                self._drop_unread(unread)

    def _drop_unread(self, reads: int) -> None:
        """Inputs that were handed over and whose outputs nobody will ask for; of some the reads are enqueued."""
        try:
            self.executor.flush()
        finally:
            self._stats.were_dropped(reads + len(self._handed_over))
            self._handed_over.clear()
            wait_for_all(self.executor)

    # --- order between threads ----------------------------------------------------------------------------------

    def _take_turn(self, verb: str) -> None:
        """Wait until no other thread streams; the lock is held. One's own stream would never end."""
        self._compiled_for(verb)
        while (thread := self._thread_that_streams()) is not None:
            if thread == threading.get_ident():
                raise RuntimeError(f"{verb} was called inside a stream; finish the stream or close it first.")
            self._turn.wait(_LOOK_AGAIN_SECONDS)
            self._compiled_for(verb)

    def _thread_that_streams(self) -> int | None:
        """None where no stream goes on. One that Ctrl-C ended before it could say so is ended here."""
        turn = None if self._streaming is None else self._streaming()
        if turn is None:
            self._end_stream(None, 0)
            return None
        return turn.thread

    def _compiled_for(self, verb: str) -> InputSpec:
        self._refuse_after_cleanup(verb)
        if self._input is None:
            raise RuntimeError(f"The pipeline must be compiled before {verb}.")
        return self._input

    def _refuse_after_cleanup(self, verb: str) -> None:
        if self._cleaned_up:
            raise RuntimeError(f"The pipeline was cleaned up; {verb} needs a new one.")

    # --- numbers, and the end -----------------------------------------------------------------------------------

    def stats(self) -> PipelineStats:
        """What went through since compiling; also after cleanup."""
        with self._lock:
            return self._stats.summary(self._watch)

    def cleanup(self) -> None:
        """Wait for the device and give back the trace and all persistent tensors. Doing it twice is harmless."""
        with self._lock:
            if self._cleaned_up:
                return
            self._cleaned_up = True
            self._stats.all_were_dropped()
            self._pending.clear()
            self._handed_over.clear()
            self._turn.notify_all()
            try:
                self.executor.cleanup()
            finally:
                if self._watch is not None:
                    self._watch.stop()

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is None:
            self.cleanup()
        else:
            with suppress(Exception):  # the block's own exception is reported, not what follows from it here
                self.cleanup()


def pipeline(executor: Executor) -> Pipeline:
    """A pipeline that drives this executor."""
    return Pipeline(executor)
