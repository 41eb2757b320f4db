# SPDX-License-Identifier: Apache-2.0
"""The program of `convert_to_hwc` and `convert_to_chw`."""

from __future__ import annotations

from dataclasses import dataclass

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.network import Way, transaction_cycles
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.ops.layout.time import moving_parts
from tt_cnn.virtual.planning.program import Program, Step
from tt_cnn.virtual.types.enums import Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, div_up

_TILES_A_WAIT = 8
"""Turned tiles whose sticks are copied before the writer waits."""


@dataclass(frozen=True, kw_only=True)
class ChannelsLastProgram(Program):
    """Tiles are turned, and each stick copied to its place: a pixel's channels, or 32 pixels of a channel."""

    def time(self, step: Step, figures: Figures) -> Cycles:
        spec = max((slot.spec for slot in (*step.inputs, *step.outputs)), key=lambda one: one.shard.shape[0])
        sticks, channels = spec.shard.shape
        tiles = div_up(sticks, TILE_SIZE) * div_up(channels, TILE_SIZE)
        rows = spec.layout is Layout.ROW_MAJOR
        compute = tiles * (figures.transpose_cycles + (2 * figures.untilize_cycles if rows else 0.0))
        if not rows:
            size = TILE_SIZE * step.outputs[0].spec.dtype.element_bytes  # turned tiles are packed as the output
            copying = tiles * spec.shape[-1] * transaction_cycles(figures, Way.LOCAL, size)
            return moving_parts(copying + tiles / _TILES_A_WAIT * figures.local_latency_cycles, spec, compute)
        copying = sticks * transaction_cycles(figures, Way.LOCAL, spec.page_bytes)
        return moving_parts(copying + tiles * figures.local_latency_cycles, spec, compute)
