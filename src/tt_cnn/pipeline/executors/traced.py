"""One queue and a trace: the host only writes, replays and reads."""

from __future__ import annotations

from typing import Any

from tt_cnn.pipeline.executors.base import COMPUTE, Executor, Reading

# queue 0   write n ─▶ stage ─▶ replay ─▶ read n ─▶ write n+1 ─▶ stage ─▶ replay ─▶ read n+1


class TracedModelExecutor(Executor):
    """For models whose host is the bottleneck and whose transfers are small."""

    traced = True

    def push(self, host_input: Any, slot: Any = None) -> list[Reading]:
        self.write(host_input, COMPUTE)
        self.stage()
        return [self.read(self.run(), slot)]
