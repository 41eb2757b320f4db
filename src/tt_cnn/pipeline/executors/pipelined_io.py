# SPDX-License-Identifier: Apache-2.0
"""Two queues and a trace, all transfers on their own queue: writes and reads both go on while the trace replays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tt_cnn import ttnn
from tt_cnn.pipeline.executors.base import COMPUTE, TRANSFERS, Executor, Reading

# queue 1   wait(staged) ─▶ write n ─▶ record(written) ─▶ wait(spilled) ─▶ read n-1 ─▶ record(read) ─▶ wait(staged) ...
# queue 0   wait(written) ─▶ stage ─▶ record(staged) ─▶ replay n ─▶ wait(read) ─▶ spill n ─▶ record(spilled) ─▶ ...


class MultiCQTracedModelPipelinedIOExecutor(Executor):
    """For models whose outputs are large as well.

    The outputs of an input are read behind the write of the next one, so that queue 1 does not wait for the model
    with a write that could go on; `flush` reads the last ones.
    """

    CQ_OPS = COMPUTE
    CQ_IO = TRANSFERS
    traced = True
    spills = True
    input_queue = TRANSFERS
    read_queue = TRANSFERS
    fewest_inputs = 2

    def _forget(self) -> None:
        super()._forget()
        self._unread: list[Any] = []
        """The slot of the input that was pushed last and is not read yet."""

    def push(self, host_input: Any, slot: Any = None) -> list[Reading]:
        self._take_in(host_input)
        readings = self.flush()
        self._compute()
        self._unread = [slot]
        return readings

    def execute(self, host_inputs: Sequence[Any]) -> Iterator[Any]:
        """As `push` does it, one input later: the next one is written before the outputs are the caller's."""
        if len(host_inputs) < self.fewest_inputs:
            raise ValueError(
                f"Pipelined I/O executor requires at least {self.fewest_inputs} inputs for pipelining "
                f"(got {len(host_inputs)})"
            )
        for index, host_input in enumerate(host_inputs):
            with ttnn.command_queue(self.compute_queue):
                if index:
                    self._compute()
                self._take_in(self._checked(host_input))
            if index:
                yield from self._handed_out()
        with ttnn.command_queue(self.compute_queue):
            self._compute()
        yield from self._handed_out()

    def _handed_out(self) -> Iterator[Any]:
        self.wait(self.read_queue, "spilled")
        yield self.dram_outputs
        self.signal_read_complete()

    def _take_in(self, host_input: Any) -> None:
        self.wait(self.input_queue, "staged")
        self.write(host_input, self.input_queue)
        self.record(self.input_queue, "written")

    def _compute(self) -> None:
        self.wait(COMPUTE, "written")
        self.stage()
        self.record(COMPUTE, "staged")
        outputs = self.run()
        self.wait(COMPUTE, "read")
        self.spill(outputs)
        self.record(COMPUTE, "spilled")

    def flush(self) -> list[Reading]:
        unread, self._unread = self._unread, []
        if not unread:
            return []
        self.wait(self.read_queue, "spilled")
        return [self.read(self.dram_outputs, slot) for slot in unread]
