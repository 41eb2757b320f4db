# SPDX-License-Identifier: Apache-2.0
"""Findings about data that moves without need: between shardings, to DRAM and back, tiles to rows, to the host.

Where a move is left out, the calls that stay are planned with what they would be given instead.
"""

from __future__ import annotations

from collections.abc import Iterator

from tt_cnn.reports.neighbours import Neighbours
from tt_cnn.reports.records import Finding, Profile, Row, TensorRecord, Transfer
from tt_cnn.reports.replanning import Planned, Replanner, step_of
from tt_cnn.virtual.cost.between import transfer_ns
from tt_cnn.virtual.types.enums import DataType, TensorMemoryLayout
from tt_cnn.virtual.types.geometry import TILE_SIZE, round_up
from tt_cnn.virtual.types.memory_config import ShardSpec
from tt_cnn.virtual.types.tensor_spec import Spec

_MEMORY = ("Reshard", "InterleavedToSharded", "ShardedToInterleaved", "Copy")
_UNTILIZE = ("Untilize", "UntilizeWithUnpadding", "UntilizeCodegen")
_TILIZE = ("Tilize", "TilizeWithValPadding")
_CHANGES = (*_MEMORY, *_UNTILIZE, *_TILIZE)
_JOINED = {TensorMemoryLayout.HEIGHT_SHARDED, TensorMemoryLayout.BLOCK_SHARDED}
"""Shards that a concat joins along their width."""
_SMALL_PAGE = 2048
"""Bytes: a tile of bfloat16. Transfers in smaller pages are slow."""


def movement_findings(replanner: Replanner) -> Iterator[Finding]:
    looker = _Looker(replanner)
    yield from looker.dram_round_trips()
    yield from looker.reshards()
    yield from looker.tilize_churn()
    yield from looker.concats()
    for transfer in replanner.profile.transfers:
        yield from _small_pages(replanner.profile, transfer)


class _Looker(Neighbours):
    # --- kinds --------------------------------------------------------------------------------------------------

    def dram_round_trips(self) -> Iterator[Finding]:
        """Out to DRAM and back, where the tensor could have stayed: there is room at every step between."""
        for out in self.profile.rows:
            source, away = out.inputs[0] if out.inputs else None, out.outputs[0]
            if source is None or out.op not in _MEMORY or source.buffer_type != "L1" or away.buffer_type != "DRAM":
                continue
            back = self.only_reader(out)
            if back is None or back.op not in _MEMORY or back.outputs[0].buffer_type != "L1":
                continue
            if not (self.own_call(out) and self.own_call(back)):
                continue
            needs = self.profile.buffers[source.buffer].bank_bytes
            between = self.profile.rows[out.index : back.index + 1]
            if min(row.l1.free for row in between) < needs:
                continue
            instead = self._moved(out, back)
            if instead is None:
                continue
            yield Finding(
                "DRAM round trip",
                self.made_by(self.makers.get(source.buffer), out),
                f"goes to DRAM and comes back {back.index - out.index} steps later",
                f"keep its {needs / 1024:.0f} KB per core in L1, where every step between has room for them,",
                self._saving((out, back), instead),
                (out.index, back.index),
                {"leave out": (out.call_name, back.call_name)},
            )

    def reshards(self) -> Iterator[Finding]:
        """A move of its own before a convolution that could take the tensor as it was."""
        for move in self.profile.rows:
            if move.op not in _MEMORY or not self.own_call(move) or not move.inputs:
                continue
            reader = self.only_reader(move)
            if reader is None:
                continue
            if reader.op in _MEMORY and self.own_call(reader) and _is_l1(move, reader):
                yield from self._there_and_back(move, reader)
                continue
            call = self.replanner.convolution(reader.call)
            if call is None or reader is not call.rows[0] or move.inputs[0].buffer_type != "L1":
                continue
            output = call.now.output.memory_config
            planned = self.replanner.plan_as(call, source=_given(move), at=move.call, output=output)
            if planned is None:
                continue
            yield Finding(
                "resharding",
                call.layer,
                f"gets its input by a {move.op} of {self.name(move)}",
                f"give it the {_words(move.inputs[0])} tensor as it is",
                self.replanner.time_of(move, call.now) - self.replanner.time_of(planned),
                (move.index, *(row.index for row in call.rows)),
                {"leave out": (move.call_name,)},
            )

    def _there_and_back(self, move: Row, reader: Row) -> Iterator[Finding]:
        instead = self._moved(move, reader)
        if instead is not None:
            yield Finding(
                "resharding",
                self.made_by(self.makers.get(move.inputs[0].buffer), move),
                f"goes from {_words(move.inputs[0])} to {_words(move.outputs[0])} and on to "
                f"{_words(reader.outputs[0])} memory",
                "bring it there at once" if instead.steps else "leave it where it is",
                self._saving((move, reader), instead),
                (move.index, reader.index),
                {"leave out": (move.call_name, reader.call_name)},
            )

    def tilize_churn(self) -> Iterator[Finding]:
        """Tiles undone by one call and made again by the next, or the other way round."""
        for undo in self.profile.rows:
            if undo.op not in (*_UNTILIZE, *_TILIZE) or not self.own_call(undo):
                continue
            again = self.only_reader(undo)
            wanted = _TILIZE if undo.op in _UNTILIZE else _UNTILIZE
            if again is None or again.op not in wanted or not self.own_call(again):
                continue
            instead = self._moved(undo, again)
            if instead is not None:
                yield Finding(
                    "tilize churn",
                    self.made_by(self.makers.get(undo.inputs[0].buffer), undo),
                    f"is brought to {_layout(undo.outputs[0])} by {undo.op} and to {_layout(again.outputs[0])} again "
                    f"by {again.op}",
                    f"leave it in {_layout(undo.inputs[0])}",
                    self._saving((undo, again), instead),
                    (undo.index, again.index),
                    {"leave out": (undo.call_name, again.call_name)},
                )

    def concats(self) -> Iterator[Finding]:
        """A concat whose inputs are brought to interleaved memory or rows first, and could be joined as they are."""
        for row in self.profile.rows:
            if row.op != "Concat" or not self.own_call(row):
                continue
            movers = [self.mover_before(tensor, (*_MEMORY, *_UNTILIZE)) for tensor in row.inputs]
            left_out = [mover for mover in movers if mover is not None]
            if not left_out:
                continue
            given = [m.inputs[0] if m else tensor for m, tensor in zip(movers, row.inputs, strict=True)]
            specs = [_given(m) if m else slot.spec for m, slot in zip(movers, step_of(row).inputs, strict=True)]
            joined = self._joined(row, specs, left_out[0])
            if joined is None:
                continue
            after = self._after(row, joined)
            if after is None:
                continue
            rows, instead = after
            churn = all(mover.op in _UNTILIZE for mover in left_out)
            yield Finding(
                "tilize churn" if churn else "concat",
                self.name(row),
                f"joins {len(given)} tensors after {len(left_out)} of them went to "
                + ("rows" if churn else f"{_words(left_out[0].outputs[0])} memory"),
                f"join the {_layout(given[0])} in their {_words(given[0]).removesuffix(' sharded')} shards",
                self.replanner.time_of(*left_out, row, *rows) - self.replanner.time_of(joined, *instead),
                tuple(sorted(one.index for one in (*left_out, row))),
                {"leave out": tuple(one.call_name for one in left_out), "memory_config": joined.output.memory_config},
            )

    # --- planning -----------------------------------------------------------------------------------------------

    def _joined(self, row: Row, specs: list[Spec], at: Row) -> Planned | None:
        """The concat of height or block shards along their width, without a move before it."""
        configs, made = [spec.memory_config for spec in specs], self.profile.calls[row.call]
        shards = [config.shard_spec for config in configs if config.shard_spec is not None]
        layouts = {config.memory_layout for config in configs}
        if len(layouts) > 1 or not layouts <= _JOINED or made.attributes["dim"] not in (3, -1):
            return None
        shape = [shards[0].shape[0], sum(shard.shape[1] for shard in shards)]
        target = configs[0].with_shard_spec(ShardSpec(shards[0].grid, shape, shards[0].orientation))
        return self.replanner.plan("concat", specs, {**made.attributes, "memory_config": target}, at.call)

    def _after(self, row: Row, joined: Planned) -> tuple[list[Row], list[Planned]] | None:
        """Steps after a concat that change with its output, and those that would be dispatched instead."""
        reader = self.only_reader(row)
        if reader is None:
            return None
        call = self.replanner.convolution(reader.call)
        if call is not None and reader is call.rows[0]:
            output = call.now.output.memory_config
            planned = self.replanner.plan_as(call, source=joined.output, output=output)
            return None if planned is None else (list(call.rows), [planned])
        if reader.op in _CHANGES and self.own_call(reader):
            moved = self._move(joined.output, _made(reader), reader)
            return None if moved is None else ([reader], [moved])
        moved = self._move(joined.output, _made(row), row)
        return None if moved is None else ([], [moved])

    def _moved(self, first: Row, last: Row) -> Planned | None:
        """What brings the one's input to where the other has its output."""
        return self._move(_given(first), _made(last), first)

    def _move(self, source: Spec, target: Spec, at: Row) -> Planned | None:
        """What brings a tensor from one memory to the other; no steps where it is there already."""
        if source.dtype is not target.dtype or source.layout is not target.layout:
            return None
        if source.memory_config == target.memory_config:
            return Planned((), target, 0.0)
        attributes = {"memory_config": target.memory_config, "dtype": None}
        return self.replanner.plan("to_memory_config", [source], attributes, at.call)

    def _saving(self, rows: tuple[Row, ...], instead: Planned) -> float:
        return self.replanner.time_of(*rows) - self.replanner.time_of(instead)


def _small_pages(profile: Profile, transfer: Transfer) -> Iterator[Finding]:
    """A transfer in small pages that the card waits for. Tiles, or rows along the longest side, have larger ones.

    Block formats have no other pages than their tiles.
    """
    hidden = transfer.queue != 0 and transfer.ns < profile.device_ns + profile.gaps_ns
    dtype = DataType[transfer.dtype]
    if transfer.page_bytes >= _SMALL_PAGE or hidden or len(transfer.shape) < 2 or dtype.is_block_float:
        return
    rows = transfer.bytes // max(1, transfer.page_bytes)
    columns = transfer.page_bytes // dtype.element_bytes
    tiles = round_up(rows, TILE_SIZE) // TILE_SIZE * (round_up(columns, TILE_SIZE) // TILE_SIZE)
    choices = {
        "as tiles": (tiles * dtype.tile_bytes, dtype.tile_bytes),
        "with its two last dimensions exchanged": (transfer.bytes, rows * dtype.element_bytes),
    }
    times = {
        how: transfer_ns(profile.card_data, transfer.direction, size, page, profile.chips)
        for how, (size, page) in choices.items()
    }
    how = min(times, key=lambda one: times[one])
    written = transfer.direction == "write"
    shape = "x".join(map(str, transfer.shape))
    yield Finding(
        "small pages",
        "input" if written else "output",
        f"of {shape} is {'written' if written else 'read'} in pages of {transfer.page_bytes} B",
        f"{'write' if written else 'read'} it {how}, in pages of {choices[how][1]} B,",
        transfer.ns - times[how],
        (),
        {"page_bytes": choices[how][1], "bytes": choices[how][0]},
        "Only the transfer is counted: "
        + ("the card has to change the form afterwards." if written else "the card has to produce it in this form."),
    )


def _given(row: Row) -> Spec:
    return step_of(row).inputs[0].spec


def _made(row: Row) -> Spec:
    return step_of(row).outputs[0].spec


def _is_l1(move: Row, reader: Row) -> bool:
    return all(t.buffer_type == "L1" for t in (move.inputs[0], move.outputs[0], reader.outputs[0]))


def _kind(tensor: TensorRecord) -> str:
    return tensor.memory_layout.lower().removesuffix("_sharded")


def _words(tensor: TensorRecord) -> str:
    kind = _kind(tensor)
    sharded = f"{kind} sharded" if tensor.shard_shape else kind
    return sharded if tensor.buffer_type == "L1" else f"{sharded} {tensor.buffer_type}"


def _layout(tensor: TensorRecord) -> str:
    return "tiles" if tensor.layout == "TILE" else "rows"
