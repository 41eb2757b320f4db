# SPDX-License-Identifier: Apache-2.0
"""The cores that work on a sharded tensor: those that hold it, or those next to its DRAM banks."""

from __future__ import annotations

from functools import lru_cache

from tt_cnn.virtual.arch import Card
from tt_cnn.virtual.types.enums import Arch
from tt_cnn.virtual.types.geometry import CoreCoord, CoreRangeSet, cores_to_ranges
from tt_cnn.virtual.types.tensor_spec import Spec

_NEXT_TO_BANK: dict[Arch, tuple[tuple[int, int], ...]] = {
    Arch.WORMHOLE_B0: (
        *((3, 7), (0, 0), (0, 4), (0, 5), (4, 0), (7, 7)),
        *((4, 1), (4, 6), (6, 3), (4, 2), (4, 4), (4, 5)),
    ),
    Arch.BLACKHOLE: ((0, 9), (0, 0), (0, 7), (0, 3), (6, 9), (6, 1), (6, 6), (6, 4)),
}
"""The worker of each DRAM bank, by its number (TT-NN 0.81.1: `get_optimal_dram_bank_to_logical_worker_assignment`)."""


@lru_cache(maxsize=1024)
def workers_of(card: Card, spec: Spec) -> CoreRangeSet:
    """The workers of the shards that hold data (TT-NN's `get_optimal_worker_cores_for_sharded_tensor`)."""
    holders = spec.cores_with_data
    if spec.memory_config.is_dram():
        near = _NEXT_TO_BANK[card.arch]
        return cores_to_ranges(CoreCoord(*near[bank.x]) for bank in holders.cores())
    return holders if holders.size() == 1 else _joined(holders)


@lru_cache(maxsize=1024)
def _joined(cores: CoreRangeSet) -> CoreRangeSet:
    return cores_to_ranges(cores.cores())
