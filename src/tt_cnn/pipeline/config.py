# SPDX-License-Identifier: Apache-2.0
"""What a pipeline is asked to do."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PipelineConfig:
    """Trace or not, one queue or two, and whether reads leave the queue that computes."""

    use_trace: bool = True
    num_command_queues: int = 1
    all_transfers_on_separate_command_queue: bool = False

    def __post_init__(self) -> None:
        for name in ("use_trace", "all_transfers_on_separate_command_queue"):
            value = getattr(self, name)
            if not isinstance(value, bool):
                raise ValueError(f"{name} is {value!r}; it must be True or False")
        queues = self.num_command_queues
        if isinstance(queues, bool) or queues not in (1, 2):
            raise ValueError(f"num_command_queues is {queues!r}; it must be 1 or 2")
