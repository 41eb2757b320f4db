# SPDX-License-Identifier: Apache-2.0
"""What data-movement programs are built from: how work is distributed to cores, and the buffers a program asks for."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from tt_cnn.virtual.arch import Card
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.layout.relayout import alignment
from tt_cnn.virtual.ops.layout.work_split import cores_among, cores_and_share, grid_cores, split_work
from tt_cnn.virtual.planning.plan import CircularBuffer, Planner, Slot
from tt_cnn.virtual.types.geometry import CoreRange, CoreRangeSet, round_up
from tt_cnn.virtual.types.tensor_spec import Spec

CoresAndBuffers = tuple[CoreRangeSet, list[CircularBuffer]]
MAX_CIRCULAR_BUFFER_PAGES = 65535


@lru_cache(maxsize=4096)
def cores_for(card: Card, units: int) -> CoreRangeSet:
    """The cores that get at least one unit of work, columns first."""
    return split_work(card, units)[0]


def workers_for(planner: Planner, units: int) -> CoreRangeSet:
    """The same among the cores that the call leaves to the op."""
    return cores_for(planner.card, units) if planner.workers is None else cores_among(planner.workers, units)


@lru_cache(maxsize=1024)
def band_cores(card: Card, bands: int) -> CoreRangeSet:
    """The cores that get a share of bands of tiles, all shares equal but the last; listed one by one."""
    used, _ = cores_and_share(card.cores, bands)
    return CoreRangeSet([CoreRange(core) for core in grid_cores(card, None)[:used]])


def aligned_page(card: Card, spec: Spec) -> int:
    return round_up(spec.page_bytes, alignment(card, spec))


def borrowed(
    planner: Planner, name: str, entry: int, count: int, cores: CoreRangeSet, tensor: Slot, parameter: str
) -> CircularBuffer:
    """A dataflow buffer over a tensor's shard; it must fit into what a bank holds of it.

    `name` and `parameter` are TT-NN's; the program knows the buffer by the parameter.
    """
    spec = tensor.spec
    held = spec.shard_pages * aligned_page(planner.card, spec)
    fatal(
        entry * count <= held,
        f"DFB '{name}' (entry_size {entry} * num_entries {count} = {entry * count} bytes) is larger than the per-bank "
        f"allocation of its borrowed TensorParameter '{parameter}' ({held} bytes).",
    )
    return CircularBuffer(entry * count, cores, alias=tensor, dataflow=True, name=parameter.replace("_", " "))


def circular(name: str, index: int, page: int, pages: int, cores: CoreRangeSet, tensor: Slot) -> CircularBuffer:
    """A circular buffer of the older kind, over a tensor's shard."""
    fatal(
        pages <= MAX_CIRCULAR_BUFFER_PAGES,
        f"For buffer index {index}, number of CB pages {pages} is greater than {MAX_CIRCULAR_BUFFER_PAGES}. Would "
        "cause wraparound in the CB calculations.",
    )
    return CircularBuffer(page * pages, cores, alias=tensor, name=name)


class Temporaries:
    """Tensors that a composite op makes on its way; the real library frees them when the call returns."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self._first = planner.next_buffer
        self._made: dict[int, Slot] = {}

    def add(self, slot: Slot) -> Slot:
        """Note a tensor that a step returned; what was there before (and views of it) is not ours to free."""
        if slot.buffer >= self._first:
            self._made.setdefault(slot.buffer, slot)
        return slot

    def replace(self, old: Slot, new: Slot) -> Slot:
        """The variable that held a tensor is given another: the old one goes at once."""
        if old.buffer in self._made and new.buffer != old.buffer:
            self._planner.free(self._made.pop(old.buffer))
        return self.add(new)

    def leave(self, *results: Slot) -> None:
        """Free all but the results."""
        stay = {slot.buffer for slot in results}
        for buffer, slot in self._made.items():
            if buffer not in stay:
                self._planner.free(slot)
        self._made.clear()


def normalized(dim: int, rank: int) -> int:
    """A dimension counted from the front."""
    fatal(
        -rank <= dim < rank,
        f"ShapeBase[] index out of range. {dim} not in [{-rank}, {rank})",
    )
    return dim + rank if dim < 0 else dim


def as_ints(values: Iterable[int]) -> tuple[int, ...]:
    return tuple(int(v) for v in values)
