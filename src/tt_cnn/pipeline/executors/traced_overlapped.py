# SPDX-License-Identifier: Apache-2.0
"""Two queues and a trace: the next input is written while the trace replays."""

from __future__ import annotations

from typing import Any

from tt_cnn.pipeline.executors.base import COMPUTE, TRANSFERS, Executor

# queue 1   write n ──▶ record(written)          wait(staged) ──▶ write n+1 ──▶ record(written)
# queue 0   wait(written) ─▶ stage ─▶ record(staged) ─▶ replay ─▶ read n ─▶ wait(written) ─▶ stage ─▶ ...


class MultiCQTracedModelOverlappedInputExecutor(Executor):
    """The one to start with: inputs are large, outputs are small."""

    traced = True
    CQ_OPS_AND_OUTPUT_READ = COMPUTE
    CQ_INPUT_WRITE = TRANSFERS
    input_queue = TRANSFERS

    def submit(self, host_input: Any) -> Any:
        self.wait(self.input_queue, "staged")
        self.write(host_input, self.input_queue)
        self.record(self.input_queue, "written")
        self.wait(COMPUTE, "written")
        self.stage()
        self.record(COMPUTE, "staged")
        return self.run()
