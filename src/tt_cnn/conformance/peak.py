# SPDX-License-Identifier: Apache-2.0
"""The peak of a call: bytes per core of circular buffers, of staging buffers and of L1 tensors of its own.

Recorded peaks come from dry runs of the real library, read with its graph tools (`graphs/core_usage.py` counts as they
do). `peak_of` works them out from what a call did that really ran, so that one call gives addresses and peaks;
`dry_peak` makes the call in a dry run and asks the graph, as a user would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tt_cnn.conformance.planning_card import Began, PlanningCard
from tt_cnn.virtual.graphs.capture import Capture, RunMode
from tt_cnn.virtual.graphs.core_usage import CoreUsage, PeakMemoryUsagePerCore
from tt_cnn.virtual.graphs.queries import extract_resource_usage_per_core
from tt_cnn.virtual.planning.happenings import Given, Happening, Ran, Taken
from tt_cnn.virtual.planning.slots import CircularBuffer
from tt_cnn.virtual.types.enums import BufferType

_ON_CORES = (BufferType.L1, BufferType.L1_SMALL)


def peak_of(happenings: Iterable[Happening | Began]) -> dict[str, int]:
    """Of a call that really ran, as if it had been a dry run."""
    usage = CoreUsage()
    l1_in_use: bool | None = None
    for one in happenings:
        if isinstance(one, Taken) and one.place.buffer_type in _ON_CORES:
            usage.take(one.place.bank_bytes)
        elif isinstance(one, Given) and one.place.buffer_type in _ON_CORES:
            usage.give(one.place.bank_bytes)
        elif isinstance(one, Began):
            l1_in_use = one.l1_in_use if l1_in_use is None else l1_in_use
        elif isinstance(one, Ran):
            step = one.placed.step
            if l1_in_use and step.program.dry_run_refusal(step) is not None:
                break
            if step.moves:
                continue  # addresses of a dry run are all the same: nothing has to move
            usage.clear()
            for buffer in step.buffers:
                if buffer.alias is None:
                    usage.place(_kind(buffer), buffer.bytes)
    return _recorded(usage.peak)


def dry_peak(card: PlanningCard, call: Callable[[], Any]) -> dict[str, int]:
    """What the graph of a dry run says of a call, whether the card takes or refuses it. The card stays as it is."""
    with card.rehearsal():
        capture = Capture(RunMode.NO_DISPATCH, [card])
        try:
            call()
        except Exception:
            pass  # the call itself tells what is wrong with it, the graph how far it came
        finally:
            graph = capture.end()
    return _recorded(extract_resource_usage_per_core(graph))


def _kind(buffer: CircularBuffer) -> str:
    return "scratchpad" if buffer.scratch else "dataflow_buffer" if buffer.dataflow else "cb"


def _recorded(peak: PeakMemoryUsagePerCore) -> dict[str, int]:
    """By the names of the recordings; scratchpads count in the total alone."""
    return {
        "cb": peak.peak_cb,
        "l1": peak.peak_l1,
        "staging": peak.peak_dataflow_buffer,
        "total": peak.peak_total,
    }
