# SPDX-License-Identifier: Apache-2.0
"""One queue, no trace: every input is written to L1, the model is called, its outputs are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tt_cnn import ttnn
from tt_cnn.pipeline.executors.base import COMPUTE, Executor

# queue 0   write n ─▶ run ─▶ read n ─▶ write n+1 ─▶ run ─▶ read n+1


class ModelExecutor(Executor):
    """For a first run and for debugging: nothing persists between inputs."""

    def __init__(
        self,
        model: Callable[[Any], Any],
        device: Any,
        l1_input_memory_config: Any,
        cq_id: int = COMPUTE,
    ) -> None:
        super().__init__(model, device, None, l1_input_memory_config)
        self.cq_id = self.compute_queue = self.input_queue = self.read_queue = cq_id

    def submit(self, host_input: Any) -> Any:
        self.write(host_input, self.input_queue)
        return self.run()

    def write(self, host_input: Any, queue: int) -> None:
        """Straight to L1: without another queue or a trace there is nothing that needs a persistent input."""
        self.l1_input = ttnn.to_device(host_input, self.device, self.l1_input_memory_config, queue_id=queue)

    def stage(self) -> None:
        """It is in L1 already."""

    def _allocate_input(self, host_input: Any) -> None:
        """None is kept."""
