# SPDX-License-Identifier: Apache-2.0
"""Kernels that published times were measured with and that 0.81.1 has no more.

What is older than a change is timed by the loops that its kernels had. What changed, all of it to be read in
tt-metal's history:

- `interleaved_to_sharded` of rows through scratch memory had one row under way at a time; pull request 33905 made it
  four.
- `tilize_with_val_padding` waited for each row that it read; now it waits once for 32.
- The halo copied padding that is not zero in halves of a stick, now in whole sticks, and untilized rows of more than 8
  tiles with the unpacker, now with the packer as all others. tt-llk's issue 131 has 393 cycles a tile on Wormhole and
  512 on Blackhole for it.
- Blackhole tilized at the rates of its conv2d table, 72 cycles a tile and 60 into bfloat8_b, before it had a faster way
  (the tilize ops; convolutions of that time are predicted 6 to 10 % too slow as it is).
- `BinaryNg` took shards that do not divide their tensor for interleaved ones: each tile went over the network.
- The reshape of rows waited for each row that is not made of whole words, now for eight of them together, and had both
  processors of a core at work on them (issue 50191).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.network import Way, transaction_cycles
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.ops.eltwise.binary_plan import BinaryProgram
from tt_cnn.virtual.ops.eltwise.sharding import is_uneven
from tt_cnn.virtual.ops.layout.interleaved_to_sharded import InterleavedToShardedProgram
from tt_cnn.virtual.ops.layout.tile_time import tilize_cycles
from tt_cnn.virtual.ops.layout.tilize import TilizeProgram
from tt_cnn.virtual.ops.layout.tilize_with_val_padding import TilizeWithValPaddingProgram
from tt_cnn.virtual.ops.layout.time import latency_cycles, moving_parts
from tt_cnn.virtual.ops.shape.reshape.program import ReshapeRowsProgram
from tt_cnn.virtual.ops.shape.reshape.time import cut_rows_cycles
from tt_cnn.virtual.ops.sliding_window.halo import HaloProgram
from tt_cnn.virtual.ops.sliding_window.time import ZEROS_BYTES, halo_cycles
from tt_cnn.virtual.planning.program import Program, Step
from tt_cnn.virtual.types.geometry import TILE_SIZE, div_up

_WORMHOLE_GHZ = 1.0
_UNPACK_UNTILIZE_CYCLES = {True: 393, False: 512}
"""By whether the card is a Wormhole."""
_WIDEST_PACKED = 8


@dataclass(frozen=True, kw_only=True)
class OneRowUnderWay(InterleavedToShardedProgram):
    """A row is read and waited for; its copy out of the scratch memory goes on while the next is read."""

    def time(self, step: Step, figures: Figures) -> Cycles:
        if not self.through_scratch:
            return super().time(step, figures)
        source, shard = step.inputs[0].spec, step.outputs[0].spec.shard
        size = shard.shape[1] * source.dtype.element_bytes
        read = transaction_cycles(figures, Way.DRAM, size, figures.page_cycles)
        copied = transaction_cycles(figures, Way.LOCAL, size)
        return moving_parts(shard.shape[0] * (latency_cycles(source, figures) + read + copied), source)


def _slow_tilize(figures: Figures) -> Figures:
    """The rates that the table has for float32 accumulation hold without it too."""
    if figures.clock_ghz == _WORMHOLE_GHZ:
        return figures
    rates = {formats: (slow, slow) for formats, (_, slow) in figures.tilize_cycles.items()}
    return replace(figures, tilize_cycles=rates)


@dataclass(frozen=True, kw_only=True)
class SlowTilize(TilizeProgram):
    def time(self, step: Step, figures: Figures) -> Cycles:
        return tilize_cycles(self, step, _slow_tilize(figures))


@dataclass(frozen=True, kw_only=True)
class RowByRow(TilizeWithValPaddingProgram):
    def time(self, step: Step, figures: Figures) -> Cycles:
        return tilize_cycles(self, step, _slow_tilize(figures), row_by_row=True)


@dataclass(frozen=True, kw_only=True)
class EarlierHalo(HaloProgram):
    def time(self, step: Step, figures: Figures) -> Cycles:
        output = step.outputs[0].spec
        width, stick = output.shard.shape[1], output.shard.shape[1] * output.dtype.element_bytes
        untilize = figures.untilize_cycles
        if div_up(width, TILE_SIZE) > _WIDEST_PACKED:
            untilize = _UNPACK_UNTILIZE_CYCLES[figures.clock_ghz == _WORMHOLE_GHZ]
        piece = ZEROS_BYTES if self.padding_value == 0 else stick // 2
        return halo_cycles(self.window, step, figures, piece, untilize)


@dataclass(frozen=True, kw_only=True)
class EvenShardsOnly(BinaryProgram):
    def time(self, step: Step, figures: Figures) -> Cycles:
        uneven = any(is_uneven(slot.spec) for slot in (*step.inputs, *step.outputs))
        program = BinaryProgram(**_fields_of(self) | {"in_shards": self.in_shards and not uneven})
        return program.time(step, figures)


@dataclass(frozen=True, kw_only=True)
class WaitsForEachRow(ReshapeRowsProgram):
    def time(self, step: Step, figures: Figures) -> Cycles:
        source, output = step.inputs[0].spec.shape[-1], step.outputs[0].spec.shape[-1]
        divisible = source % output == 0 or output % source == 0
        return cut_rows_cycles(step, figures, processors=2 if divisible else 1, slots=1)


_EARLIER: dict[type[Program], tuple[Callable[..., Program], str]] = {
    InterleavedToShardedProgram: (OneRowUnderWay, "2026"),
    TilizeWithValPaddingProgram: (RowByRow, "2026"),
    TilizeProgram: (SlowTilize, "2026"),
    HaloProgram: (EarlierHalo, "2026"),
    BinaryProgram: (EvenShardsOnly, "2026"),
    ReshapeRowsProgram: (WaitsForEachRow, "2026-07-17"),
}
"""What a program was, and until when."""


def _fields_of(program: Program) -> dict[str, Any]:
    return {field.name: getattr(program, field.name) for field in fields(program)}


def as_of(date: str, step: Step) -> Step:
    """The step with the program that it had at a date, which begins with the year and mostly the month."""
    earlier, until = _EARLIER.get(type(step.program), (None, ""))
    if earlier is None or date >= until:
        return step
    return replace(step, program=earlier(**_fields_of(step.program)))
