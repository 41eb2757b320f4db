# SPDX-License-Identifier: Apache-2.0
"""One queue and a trace: the host only writes, replays and reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tt_cnn.pipeline.executors.base import COMPUTE, Executor

# queue 0   write n ─▶ stage ─▶ replay ─▶ read n ─▶ write n+1 ─▶ stage ─▶ replay ─▶ read n+1


class TracedModelExecutor(Executor):
    """For models whose host is the bottleneck and whose transfers are small."""

    traced = True

    def __init__(
        self,
        model: Callable[[Any], Any],
        device: Any,
        dram_input_memory_config: Any,
        l1_input_memory_config: Any,
        cq_id: int = COMPUTE,
    ) -> None:
        super().__init__(model, device, dram_input_memory_config, l1_input_memory_config)
        self.cq_id = self.compute_queue = self.input_queue = self.read_queue = cq_id

    def submit(self, host_input: Any) -> Any:
        self.write(host_input, self.input_queue)
        self.stage()
        return self.run()
