# SPDX-License-Identifier: Apache-2.0
"""`ttnn.cluster`: which board the machine has."""

from __future__ import annotations

from tt_cnn.virtual.devices.opening import default_card
from tt_cnn.virtual.ttnn.missing import resolver
from tt_cnn.virtual.types.enums import NativeEnum


class ClusterType(NativeEnum):
    """Boards and machines; N150, N300, T3K, TG, P100 and P150 have a virtual one."""

    INVALID = 0
    N150 = 1
    N300 = 2
    T3K = 3
    GALAXY = 4
    TG = 5
    P100 = 6
    P150 = 7
    P150_X2 = 8
    P150_X4 = 9
    SIMULATOR_WORMHOLE_B0 = 10
    SIMULATOR_BLACKHOLE = 11
    N300_2x2 = 12
    P150_X8 = 13
    P300 = 14
    SIMULATOR_QUASAR = 15
    BLACKHOLE_GALAXY = 16
    P300_X2 = 17
    CUSTOM = 18


_MACHINES = {"t3000": ClusterType.T3K, "galaxy": ClusterType.TG}


def get_cluster_type() -> ClusterType:
    """The board that opening a device without naming a card opens."""
    name = default_card().model
    return _MACHINES.get(name) or ClusterType[name.upper()]


__getattr__ = resolver("cluster.")
