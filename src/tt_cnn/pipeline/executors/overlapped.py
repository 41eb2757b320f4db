# SPDX-License-Identifier: Apache-2.0
"""Two queues, no trace: the next input is written while the model runs."""

from __future__ import annotations

from typing import Any

from tt_cnn.pipeline.executors.base import COMPUTE, TRANSFERS, Executor

# queue 1   write n ──▶ record(written)          wait(staged) ──▶ write n+1 ──▶ record(written)
# queue 0   wait(written) ─▶ stage ─▶ record(staged) ─▶ run ─▶ read n ─▶ wait(written) ─▶ stage ─▶ ...


class MultiCQModelOverlappedInputExecutor(Executor):
    """For models that cannot be traced and whose inputs are large."""

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
