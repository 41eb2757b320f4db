"""The peak of a call: bytes a core of circular buffers, of staging buffers and of L1 tensors that it allocates itself.

As the real library's graph tools count: buffers that borrow a tensor's memory are not counted twice; the circular
buffers of a program stay until the next program brings its own; tables of the sliding window (L1_SMALL) count while
their program runs; what the call was given does not count; scratchpads of kernels count in the total alone. Buffers
count together, whichever cores they stand on.
"""

from __future__ import annotations

from collections.abc import Iterable

from tt_cnn.conformance.planning_card import Began, Given, Happening, Taken
from tt_cnn.virtual.planning.placement import Place
from tt_cnn.virtual.planning.plan import Step
from tt_cnn.virtual.types.enums import BufferType

_ON_CORES = (BufferType.L1, BufferType.L1_SMALL)

_UNSIGNED = 2**64
"""The library counts in `size_t` and takes off what is freed, though it did not see it allocated
(`extract_resource_usage_per_core`, ttnn/core/graph/graph_trace_utils.cpp): a call that frees more of its inputs than it
has allocated so far wraps around at the next allocation. tt-mlir repairs such peaks (TTNNOpConstraints.h, its issue
9069). No call of the corpora gets there."""
_FAILS_WITH_TENSORS_IN_L1 = "Pool2D"
"""Its factory compares the allocator's bytes with those that it works out, and takes only an empty L1 for a dry run
(pool_multi_core_program_factory.cpp): with tensors in L1 a dry run fails there, and what comes after is not counted."""


def peak_of(happenings: Iterable[Happening]) -> dict[str, int]:
    own: dict[tuple[BufferType, int], int] = {}
    peak = {"cb": 0, "l1": 0, "staging": 0, "total": 0}
    now = dict.fromkeys(peak, 0)
    scratch = given_back = 0
    l1_in_use: bool | None = None

    def count(extra_l1: int = 0) -> None:
        now["l1"] = (sum(own.values()) + extra_l1 - given_back) % _UNSIGNED
        now["total"] = (now["cb"] + now["l1"] + now["staging"] + scratch) % _UNSIGNED
        for name, value in now.items():
            peak[name] = max(peak[name], value)

    for happening in happenings:
        if isinstance(happening, Taken):
            if happening.place.buffer_type in _ON_CORES:
                own[_key(happening.place)] = happening.place.bank_bytes
                count()
        elif isinstance(happening, Given):
            if own.pop(_key(happening.place), None) is None and happening.place.buffer_type in _ON_CORES:
                given_back += happening.place.bank_bytes
        elif isinstance(happening, Began):
            l1_in_use = happening.l1_in_use if l1_in_use is None else l1_in_use
        elif l1_in_use and happening.step.op == _FAILS_WITH_TENSORS_IN_L1:
            count(_tables(happening.step))
            break
        elif not happening.step.moves:  # addresses of a dry run are all the same: nothing has to move
            step = happening.step
            count(_tables(step))  # taken while the buffers of the program before are still there
            now["cb"] = sum(b.bytes for b in step.buffers if not b.dataflow and b.alias is None)
            now["staging"] = sum(b.bytes for b in step.buffers if b.dataflow and not b.scratch and b.alias is None)
            scratch = sum(b.bytes for b in step.buffers if b.scratch)
            count(_tables(step))
    return peak


def _key(place: Place) -> tuple[BufferType, int]:
    return place.buffer_type, place.address


def _tables(step: Step) -> int:
    return sum(config.bank_bytes for config in step.configs if config.buffer_type is BufferType.L1_SMALL)
