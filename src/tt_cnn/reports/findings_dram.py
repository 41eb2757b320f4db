# SPDX-License-Identifier: Apache-2.0
"""The finding about a program that keeps its tensors in DRAM where L1 has room for them."""

from __future__ import annotations

from collections.abc import Iterator

from tt_cnn.reports.neighbours import Neighbours
from tt_cnn.reports.records import Finding
from tt_cnn.reports.replanning import CONVOLUTIONS, Planned, Replanner
from tt_cnn.reports.replaying import Change, replayed
from tt_cnn.virtual.types.enums import BufferType
from tt_cnn.virtual.types.memory_config import L1_MEMORY_CONFIG

_TRIES = 6
"""Programs of which all tensors do not fit are tried without the largest, as often as this."""


def dram_findings(replanner: Replanner) -> Iterator[Finding]:
    """All outputs that go to interleaved DRAM and are not read by the host, in L1; the largest are left if need be."""
    neighbours = Neighbours(replanner)
    moved = _in_dram(replanner, neighbours)
    for _ in range(_TRIES):
        if not moved:
            return
        instead = replayed(replanner, _into_l1(frozenset(moved)))
        if instead is not None:
            yield _told(neighbours, sorted(moved), instead)
            return
        moved = moved[: len(moved) * 3 // 4]


def _in_dram(replanner: Replanner, neighbours: Neighbours) -> list[int]:
    """The calls, that with the smallest output first."""
    profile, found = replanner.profile, []
    for number in replanner.calls:
        call = profile.calls[number]
        if not call.plan.outputs or "memory_config" not in call.attributes or call.operation in CONVOLUTIONS:
            continue
        output = call.plan.outputs[0]
        index, config = call.buffers[output.buffer], output.spec.memory_config
        stays = index in neighbours.kept or not neighbours.readers[index]
        if config.buffer_type is BufferType.DRAM and config.shard_spec is None and not stays:
            found.append((output.spec.volume, number))
    return [number for _, number in sorted(found)]


def _into_l1(moved: frozenset[int]) -> Change:
    return lambda number, call: {"memory_config": L1_MEMORY_CONFIG} if number in moved else {}


def _told(neighbours: Neighbours, moved: list[int], instead: Planned) -> Finding:
    replanner, profile = neighbours.replanner, neighbours.profile
    first = neighbours.name(replanner.calls[moved[0]][0])
    who, leave = (f"{len(moved)} calls, the first {first},", "leave") if len(moved) > 1 else (first, "leaves")
    gap = min((row.gap_ns for row in profile.rows[1:]), default=0.0)
    return Finding(
        "DRAM",
        who,
        f"{leave} in DRAM what L1 has room for",
        "set memory_config=ttnn.L1_MEMORY_CONFIG",
        profile.device_ns - instead.kernel_ns + gap * (len(profile.rows) - len(instead.steps)),
        tuple(sorted(row.index for number in moved for row in replanner.calls[number])),
        {"memory_config": L1_MEMORY_CONFIG},
    )
