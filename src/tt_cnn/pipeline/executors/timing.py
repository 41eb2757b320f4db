# SPDX-License-Identifier: Apache-2.0
"""How long the verbs of an executor take alone, one after the other."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from tt_cnn import ttnn
from tt_cnn.pipeline.outputs import leaves_of

if TYPE_CHECKING:
    from tt_cnn.pipeline.executors.base import Executor


class Timing(NamedTuple):
    """Seconds of one input when nothing overlaps."""

    write: float = 0.0
    compute: float = 0.0
    """Staging, the model, spilling."""
    read: float = 0.0

    @property
    def transfer(self) -> float:
        return self.write + self.read


def time_verbs(executor: Executor, host_input: Any) -> Timing:
    """One input through the verbs with the device synchronized after each, so that no two overlap."""
    stamps = [time.perf_counter()]

    def done() -> None:
        ttnn.synchronize_device(executor.device)
        stamps.append(time.perf_counter())

    executor.write(host_input, executor.compute_queue)
    done()
    executor.stage()
    outputs = executor.run()
    if executor.spills:
        executor.spill(outputs)
        outputs = executor.dram_outputs
    done()
    for output in leaves_of(outputs):
        output.cpu(blocking=False, cq_id=executor.read_queue)
    done()
    return Timing(*(after - before for before, after in pairwise(stamps)))
