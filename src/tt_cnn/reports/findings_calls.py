# SPDX-License-Identifier: Apache-2.0
"""Findings about single calls: each is another form of the call that its op proposes, and that takes less time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tt_cnn.reports.records import Finding
from tt_cnn.reports.replanning import BUSY, KnownCall, Planned, Replanner
from tt_cnn.virtual.ops.conv2d.program import ConvProgram
from tt_cnn.virtual.planning.alternatives import Alternative
from tt_cnn.virtual.types.enums import TensorMemoryLayout
from tt_cnn.virtual.types.geometry import TILE_SIZE

_MOVES = ("Reshard", "InterleavedToSharded", "ShardedToInterleaved")


@dataclass(frozen=True)
class Better:
    """A form of the call that takes less time than it has."""

    call: KnownCall
    alternative: Alternative
    planned: Planned
    saves_ns: float


@dataclass(frozen=True)
class _Telling:
    """What a finding says of a kind of change."""

    say: Callable[[Better], tuple[str, str, str]]
    """Kind of the finding, problem, advice."""
    asked: Callable[[KnownCall], bool] = lambda call: True
    """Whether the call is one that the change is for."""
    keeps_output: bool = False
    """The output is brought to where it was: it would go to another memory."""


def call_findings(replanner: Replanner) -> Iterator[Finding]:
    for number in replanner.calls:
        if replanner.worth_a_look(number):
            call = replanner.call(number)
            for better in _best_of_each_kind(replanner, call):
                yield _told(better)


def _best_of_each_kind(replanner: Replanner, call: KnownCall) -> Iterator[Better]:
    """Of those that fit and leave the output where the next call finds it."""
    found: dict[str, Better] = {}
    for alternative in replanner.alternatives(call):
        telling = _TELLINGS[alternative.kind]
        if not telling.asked(call):
            continue
        output = call.now.output.memory_config
        planned = replanner.plan_as(call, alternative, output=output if telling.keeps_output else None)
        if planned is None or planned.output.memory_config != output:
            continue
        saves = replanner.time_of(call.now) - replanner.time_of(planned)
        best = found.get(alternative.kind)
        if saves > 0 and (best is None or saves > best.saves_ns):
            found[alternative.kind] = Better(call, alternative, planned, saves)
    yield from found.values()


def _told(better: Better) -> Finding:
    call, alternative = better.call, better.alternative
    telling = _TELLINGS[alternative.kind]
    kind, problem, advice = telling.say(better)
    change = dict(alternative.change)
    if telling.keeps_output:
        change[_OUTPUTS.get(call.made.operation, "memory_config")] = call.now.output.memory_config
    caution = " ".join(one for one in (alternative.caution, _moves(call, better.planned)) if one)
    rows = tuple(row.index for row in call.rows)
    return Finding(kind, call.layer, problem, advice, better.saves_ns, rows, change, caution, alternative.lossless)


_OUTPUTS = {"fold": "override_memory_config"}


# --- words ------------------------------------------------------------------------------------------------------------


def _on_few_cores(call: KnownCall) -> bool:
    row = call.working
    return row.working_cores < BUSY * row.available_cores


def _begins_with_a_reshard(call: KnownCall) -> bool:
    return call.rows[0].op == "Reshard"


def _sharding(better: Better) -> tuple[str, str, str]:
    row, layout = better.call.working, better.alternative.change["shard_layout"]
    now = TensorMemoryLayout[row.inputs[0].memory_layout]
    on = f"runs on {row.working_cores} of {row.available_cores} cores"
    return (
        "few cores",
        f"{on}: {_words(now)} of {_spread(better.call, now)}",
        f"{_words(layout)} would use {better.planned.cores}",
    )


def _as_given(better: Better) -> tuple[str, str, str]:
    first = better.call.rows[0]
    before, after = (t.memory_layout.lower().removesuffix("_sharded") for t in (first.inputs[0], first.outputs[0]))
    moves = f"to other {after} shards" if before == after else f"from {before} to {after} shards"
    return "resharding", f"moves its input {moves}", f"let it work on the {before} shards that it gets"


def _weights(better: Better) -> tuple[str, str, str]:
    dtype = better.call.working.inputs[1].dtype.lower()
    return "weights", f"reads its weights as {dtype}", "let it read them as bfloat8_b"


def _fidelity(better: Better) -> tuple[str, str, str]:
    return "fidelity", f"multiplies with {better.call.working.fidelity}", "let it multiply with LoFi"


def _block_height(better: Better) -> tuple[str, str, str]:
    program = better.call.working.program
    assert isinstance(program, ConvProgram)
    height = better.alternative.change["act_block_h_override"]
    return (
        "block height",
        f"works in blocks of {TILE_SIZE * program.blocks.act_h} rows where {height} fit",
        f"set act_block_h_override={height}",
    )


def _double_buffers(better: Better) -> tuple[str, str, str]:
    what = {"enable_act_double_buffer": "activations", "enable_weights_double_buffer": "weights"}
    names = " and ".join(what[name] for name in better.alternative.change)
    return (
        "double buffering",
        f"waits for its {names}: they have one buffer where two fit",
        f"set {better.alternative.words}",
    )


def _core_grid(better: Better) -> tuple[str, str, str]:
    """The library's choice of a program for the whole grid, in place of the program that runs."""
    row, words, cores = better.call.working, better.alternative.words, better.planned.cores
    on = f"runs on {row.cores} of {row.available_cores} cores"
    if _on_few_cores(better.call) and cores > row.cores:
        return "few cores", f"{on}: {_product(better.call)}", f"{words} would use {cores}"
    return "matmul program", f"{on} with the program {row.factory.removesuffix('ProgramFactory')}", f"set {words}"


def _fold_grid(better: Better) -> tuple[str, str, str]:
    row = max(better.call.rows, key=lambda row: row.cost.ns)
    on = f"runs on {row.cores} of {row.available_cores} cores: those of its grid_size"
    return "few cores", on, f"set {better.alternative.words}"


_TELLINGS: dict[str, _Telling] = {
    "shard_layout": _Telling(_sharding, _on_few_cores, keeps_output=True),
    "shards as given": _Telling(_as_given, _begins_with_a_reshard, keeps_output=True),
    "weights": _Telling(_weights),
    "fidelity": _Telling(_fidelity),
    "block height": _Telling(_block_height),
    "double buffering": _Telling(_double_buffers),
    "core grid": _Telling(_core_grid),
    "fold grid": _Telling(_fold_grid, keeps_output=True),
}
"""By the kinds of `Alternative` that may save time."""


def _product(call: KnownCall) -> str:
    left, right = ("x".join(map(str, tuple(slot.spec.shape)[-2:])) for slot in call.made.plan.inputs[:2])
    return f"{left} times {right}"


def _spread(call: KnownCall, layout: TensorMemoryLayout) -> str:
    conv = call.made.attributes["conv"]
    rows, channels = f"{conv.output_pixels} rows", f"{conv.in_channels} channels"
    if layout is TensorMemoryLayout.HEIGHT_SHARDED:
        return rows
    return channels if layout is TensorMemoryLayout.WIDTH_SHARDED else f"{rows} and {channels}"


def _words(layout: TensorMemoryLayout) -> str:
    """`height sharding`."""
    if layout is TensorMemoryLayout.INTERLEAVED:
        return "interleaved input"
    return layout.name.lower().removesuffix("_sharded") + " sharding"


def _moves(call: KnownCall, planned: Planned) -> str:
    before = sum(row.op in _MOVES for row in call.rows)
    more = sum(step.op in _MOVES for step in planned.steps) - before
    if more <= 0:
        return ""
    return f"Counted with {more} more step{'s' if more > 1 else ''} that reshard{'s' if more == 1 else ''} for it."
