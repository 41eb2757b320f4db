# SPDX-License-Identifier: Apache-2.0
"""A model in words: its card, a table of its calls with arguments and sizes, and which TT-NN ops it needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from tt_cnn.reports.records import Profile, Row, TensorRecord, between
from tt_cnn.reports.words import amount, counted
from tt_cnn.virtual import ttnn
from tt_cnn.virtual.cost.bands import Band
from tt_cnn.virtual.ttnn.missing import real_names

_SHOWN_ARGUMENTS = {
    "conv.kernel": "kernel",
    "conv.stride": "stride",
    "conv.padding": "padding",
    "conv.dilation": "dilation",
    "conv.groups": "groups",
    "pool.kernel": "kernel",
    "pool.stride": "stride",
    "pool.padding": "padding",
    "settings.shard_layout": "shard",
    "settings.activation": "activation",
    "settings.act_block_h_override": "act_block_h",
    "settings.weights_dtype": "weights",
    "dim": "dim",
    "scale": "scale",
    "layout": "layout",
    "dtype": "dtype",
}
"""The arguments that tell calls apart; a profile.json has all of them."""
_USUAL = {"dilation": "(1, 1)", "groups": "1", "padding": "(0, 0, 0, 0)", "stride": "(1, 1)", "act_block_h": "0"}
"""Values that go without saying."""


@dataclass(frozen=True)
class CallSummary:
    """One TT-NN call: what went in, what came out, and what it cost."""

    number: int
    name: str
    layer: str
    arguments: str
    inputs: tuple[TensorRecord, ...]
    outputs: tuple[TensorRecord, ...]
    parameters: int
    macs: int
    steps: tuple[str, ...]
    ns: float


@dataclass(frozen=True)
class OpUse:
    """A name of TT-NN that the model calls."""

    name: str
    calls: int
    on_virtual_card: bool
    in_ttnn: bool
    """TT-NN 0.81.1 has it."""


def call_summaries(profile: Profile) -> list[CallSummary]:
    return [_summary(list(rows)) for _, rows in groupby(profile.rows, key=lambda row: row.call)]


def _summary(rows: list[Row]) -> CallSummary:
    first = rows[0]
    return CallSummary(
        number=first.call,
        name=first.call_name,
        layer=first.layer,
        arguments=short_arguments(first.arguments),
        inputs=first.inputs[:1],
        outputs=rows[-1].outputs,
        parameters=sum(row.parameters for row in rows),
        macs=sum(row.macs for row in rows),
        steps=tuple(row.op for row in rows),
        ns=sum(row.cost.ns for row in rows),
    )


def short_arguments(arguments: Iterable[tuple[str, str]]) -> str:
    shown = []
    for name, value in arguments:
        short = _SHOWN_ARGUMENTS.get(name)
        if short is not None and _USUAL.get(short) != value:
            shown.append(f"{short}={_short_value(value)}")
    return " ".join(shown)


def _short_value(value: str) -> str:
    """`(3, 3)` as 3x3, `(UnaryOpType.RELU, ())` as relu."""
    if value.startswith("(UnaryOpType."):
        return value.removeprefix("(UnaryOpType.").split(",")[0].rstrip(")").lower()
    inside = value.strip("()")
    if value.startswith("(") and all(part.strip().isdigit() for part in inside.split(",")):
        return "x".join(part.strip() for part in inside.split(","))
    return value.lower() if value.isupper() else value


def op_uses(profile: Profile) -> list[OpUse]:
    """Every name of TT-NN that the model calls, the most used first, and whether it is to be had."""
    real = real_names()
    calls = Counter(summary.name.removeprefix("ttnn.") for summary in call_summaries(profile))
    calls += Counter(transfer.call_name.removeprefix("ttnn.") for transfer in profile.transfers)
    return [
        OpUse(name, count, _is_there(name), name in real)
        for name, count in sorted(calls.items(), key=lambda item: (-item[1], item[0]))
    ]


def _is_there(name: str) -> bool:
    """Whether the virtual card has a dotted name."""
    found: Any = ttnn
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is not None


# --- text -----------------------------------------------------------------------------------------------------------


def _predicted(fps: float, how: str, band: Band) -> str:
    return f"{fps:.0f} fps{how} (predicted{between(band)})"


def card_facts(profile: Profile) -> list[tuple[str, str]]:
    """What the model is, how quick it is on this card, what it needs."""
    model = profile.model
    height, width = model.resolution
    return [
        ("task", model.task or "unknown"),
        (
            "input",
            f"{model.batch_size}x3x{height}x{width}" + (f" on each of {profile.chips} chips" * (profile.chips > 1)),
        ),
        ("outputs", ", ".join(model.outputs) or "unknown"),
        ("precision", model.precision or "as recorded"),
        ("parameters", amount(model.parameters)),
        ("multiply-adds on the card", f"{amount(profile.macs)} per pass"),
        ("card", f"{profile.card}, {profile.card_data.cores} cores at {profile.card_data.clock_ghz:g} GHz"),
        (
            "device time",
            f"{profile.device_ns / 1e6:.3f} ms, {_predicted(profile.device_fps, '', profile.device_fps_band)}",
        ),
        ("end to end", _predicted(profile.fps, f" with {profile.executor}", profile.fps_band)),
        ("L1 peak", f"{profile.l1_peak / 1024:.0f} of {profile.l1_size / 1024:.0f} KB per core"),
        ("l1_small_size", f"at least {profile.l1_small_needed}"),
        ("trace_region_size", f"at least {profile.trace_bytes} (an estimate)"),
    ]


def model_card(profile: Profile) -> str:
    """A page of Markdown on the model."""
    lines = [f"# {_escape(profile.model.title)} on {profile.card}", ""]
    lines += _table(("", ""), card_facts(profile))
    lines += ["", "## End to end, by executor", ""]
    rows = [
        (r.executor, f"{r.fps:.0f}", f"{r.input_ns / 1e6:.3f}", f"{r.latency_ns / 1e6:.3f}") for r in profile.executors
    ]
    lines += _table(("executor", "fps", "ms per input", "latency ms"), rows)
    lines += ["", "## Ops", ""]
    uses = op_uses(profile)
    lines += _table(
        ("TT-NN", "calls", "virtual card", "TT-NN 0.81.1"),
        [(f"ttnn.{u.name}", str(u.calls), _yes(u.on_virtual_card), _yes(u.in_ttnn)) for u in uses],
    )
    lines += ["", missing_in_ttnn(uses)]
    lines += ["", f"Predicted by tt-cnn {profile.version} from plans; nothing was run on a card.", ""]
    return "\n".join(lines)


def missing_in_ttnn(uses: Iterable[OpUse]) -> str:
    missing = [use.name for use in uses if not use.in_ttnn]
    return f"Missing in TT-NN: {', '.join(missing)}" if missing else "No op is missing in TT-NN."


def summary_rows(profile: Profile) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Headings, and a row for every call."""
    headings = ("#", "layer", "op", "arguments", "input", "output", "parameters", "MMACs", "steps", "µs")
    rows: list[tuple[str, ...]] = [
        (
            str(c.number),
            c.layer,
            c.name.removeprefix("ttnn."),
            c.arguments,
            _shapes(c.inputs),
            _shapes(c.outputs),
            str(c.parameters) if c.parameters else "",
            f"{c.macs / 1e6:.1f}" if c.macs else "",
            " ".join(c.steps),
            f"{c.ns / 1e3:.1f}",
        )
        for c in call_summaries(profile)
    ]
    return headings, rows


def summary_markdown(profile: Profile) -> str:
    """A table of all calls."""
    headings, rows = summary_rows(profile)
    title = f"# Summary of {_escape(profile.model.title)} on {profile.card}"
    total = (
        f"{counted(len(rows), 'call')}, {counted(len(profile.rows), 'step')}, "
        f"{amount(profile.model.parameters)} parameters, "
        f"{amount(profile.macs)} multiply-adds on the card, {profile.device_ns / 1e3:.1f} µs on the device"
    )
    return "\n".join([title, "", total, "", *_table(headings, rows), ""])


def _shapes(tensors: Sequence[TensorRecord]) -> str:
    return ", ".join(f"{'x'.join(map(str, t.shape))} {t.dtype.lower()} {t.memory.lower()}" for t in tensors)


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [
        "| " + " | ".join(headings) + " |",
        "|" + "---|" * len(headings),
        *("| " + " | ".join(map(_escape, row)) + " |" for row in rows),
    ]


def _escape(text: str) -> str:
    """Safe in a Markdown table, and as HTML where Markdown is turned into it."""
    text = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace("|", "\\|").replace("`", "\\`")


def _yes(there: bool) -> str:
    return "yes" if there else "missing"
