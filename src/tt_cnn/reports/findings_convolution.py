"""Findings about convolutions: each is another configuration of the call that was planned and takes less time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tt_cnn.reports.records import Finding
from tt_cnn.reports.replanning import (
    BUSY,
    ConvolutionCall,
    Planned,
    Replanner,
    fidelity_finding,
    finding,
    weights_finding,
)
from tt_cnn.virtual.ops.conv2d.program import ConvProgram
from tt_cnn.virtual.types.enums import DataType, MathFidelity, TensorMemoryLayout
from tt_cnn.virtual.types.geometry import TILE_SIZE

_LAYOUTS = (
    TensorMemoryLayout.HEIGHT_SHARDED,
    TensorMemoryLayout.BLOCK_SHARDED,
    TensorMemoryLayout.WIDTH_SHARDED,
)


@dataclass(frozen=True)
class _Better:
    """A configuration that takes less time than the call has."""

    changed: ConvolutionCall
    planned: Planned
    saves_ns: float


def convolution_findings(replanner: Replanner) -> Iterator[Finding]:
    for number in replanner.calls:
        call = replanner.convolution(number) if replanner.worth_a_look(number) else None
        if call is not None:
            looker = _Looker(replanner, call)
            for look in (looker.cores, looker.weights, looker.fidelity, looker.block_height, looker.double_buffers):
                yield from look()


class _Looker:
    """Looks at one call from all sides."""

    def __init__(self, replanner: Replanner, call: ConvolutionCall) -> None:
        self.replanner, self.call = replanner, call

    def cores(self) -> Iterator[Finding]:
        """Few cores: another way to shard, with the moves there and back where the layout of neighbours stays."""
        row = self.call.working
        if row.cores >= BUSY * row.available_cores:
            return
        now = self._layout_now()
        others = [
            self.call.but(shard_layout=layout, act_block_h_override=0, override_sharding_config=False)
            for layout in _LAYOUTS
            if layout is not now
        ]
        best = self._best([one for one in others if one.settings.core_grid is None], like_before=True)
        if best is None or best.planned.cores <= row.cores:
            return
        layout = best.changed.settings.shard_layout
        assert layout is not None
        spread = self._spread_now(now)
        yield finding(
            self.call,
            "few cores",
            f"runs on {row.cores} of {row.available_cores} cores: {_words(now)} of {spread}",
            f"{_words(layout)} would use {best.planned.cores}",
            best.saves_ns,
            {"shard_layout": layout, "act_block_h_override": 0, "memory_config": self.call.now.output.memory_config},
            _moves(self.call, best.planned),
        )

    def weights(self) -> Iterator[Finding]:
        now = self.call.settings.weights_dtype or DataType[self.call.working.inputs[1].dtype]
        if now not in (DataType.BFLOAT16, DataType.FLOAT32):
            return
        best = self._best([self.call.but(weights_dtype=DataType.BFLOAT8_B)])
        if best is not None:
            yield weights_finding(self.call, now, best.saves_ns)

    def fidelity(self) -> Iterator[Finding]:
        now = self.call.compute.fidelity
        if now is MathFidelity.LoFi:
            return
        best = self._best([self.call.with_fidelity(MathFidelity.LoFi)])
        if best is not None:
            yield fidelity_finding(self.call, now, best.saves_ns)

    def block_height(self) -> Iterator[Finding]:
        """Larger blocks of activations, as large as fit."""
        program = self.call.working.program
        if not isinstance(program, ConvProgram):  # a matmul
            return
        blocks = program.blocks
        now = TILE_SIZE * blocks.act_h
        heights = [TILE_SIZE * n for n in range(blocks.act_h + 1, blocks.out_h + 1) if blocks.out_h % n == 0]
        best = self._best([self.call.but(act_block_h_override=height) for height in heights])
        if best is not None:
            height = best.changed.settings.act_block_h_override
            yield finding(
                self.call,
                "block height",
                f"works in blocks of {now} rows where {height} fit",
                f"set act_block_h_override={height}",
                best.saves_ns,
                {"act_block_h_override": height},
            )

    def double_buffers(self) -> Iterator[Finding]:
        settings = self.call.settings
        off = [
            name for name in ("enable_act_double_buffer", "enable_weights_double_buffer") if not getattr(settings, name)
        ]
        choices = [off] if len(off) < 2 else [off, off[:1], off[1:]]
        best = self._best([self.call.but(**dict.fromkeys(names, True)) for names in choices if names])
        if best is None:
            return
        on = [name for name in off if getattr(best.changed.settings, name)]
        what = " and ".join({"enable_act_double_buffer": "activations"}.get(name, "weights") for name in on)
        yield finding(
            self.call,
            "double buffering",
            f"waits for its {what}: they have one buffer where two fit",
            f"set {' and '.join(f'{name}=True' for name in on)}",
            best.saves_ns,
            dict.fromkeys(on, True),
        )

    # --- trying -------------------------------------------------------------------------------------------------

    def _best(self, candidates: list[ConvolutionCall], like_before: bool = False) -> _Better | None:
        """The one that saves most, of those that fit and leave the output where the next call finds it."""
        found: list[_Better] = []
        for changed in candidates:
            planned = self.replanner.plan_convolution(changed, like_before=like_before)
            if planned is None or planned.output.memory_config != self.call.now.output.memory_config:
                continue
            saves = self.replanner.time_of(self.call.now) - self.replanner.time_of(planned)
            if saves > 0:
                found.append(_Better(changed, planned, saves))
        return max(found, key=lambda one: one.saves_ns, default=None)

    def _layout_now(self) -> TensorMemoryLayout:
        return TensorMemoryLayout[self.call.working.inputs[0].memory_layout]

    def _spread_now(self, layout: TensorMemoryLayout) -> str:
        rows, channels = self.call.conv.output_pixels, self.call.conv.in_channels
        if layout is TensorMemoryLayout.HEIGHT_SHARDED:
            return f"{rows} rows"
        if layout is TensorMemoryLayout.WIDTH_SHARDED:
            return f"{channels} channels"
        return f"{rows} rows and {channels} channels"


def _words(layout: TensorMemoryLayout) -> str:
    """`height sharding`."""
    if layout is TensorMemoryLayout.INTERLEAVED:
        return "interleaved input"
    return layout.name.lower().removesuffix("_sharded") + " sharding"


_MOVES = ("Reshard", "InterleavedToSharded", "ShardedToInterleaved")


def _moves(call: ConvolutionCall, planned: Planned) -> str:
    before = sum(row.op in _MOVES for row in call.rows)
    more = sum(step.op in _MOVES for step in planned.steps) - before
    if more <= 0:
        return ""
    return f"Counted with {more} more step{'s' if more > 1 else ''} that reshard{'s' if more == 1 else ''} for it."
