# SPDX-License-Identifier: Apache-2.0
"""When a planned call agrees with the recorded one, field by field.

A field that the record does not have is not compared, and then does not stand in the result.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tt_cnn.conformance.answer import Answer, Ranges, ranges_of
from tt_cnn.conformance.verdict import Verdict
from tt_cnn.virtual.planning.happenings import Taken
from tt_cnn.virtual.planning.placement import PlacedStep
from tt_cnn.virtual.types.enums import BufferType

PEAK_TOLERANCE = 0.02
_L1_SMALL = int(BufferType.L1_SMALL.value)
_REFUSED = ("error", "input_error")
_FAILED = ("crash", "timeout")
"""The library ended the process, or never answered: any clear refusal is right."""


_NO_SUCH_NAME = "AttributeError"
"""The library has no such method or function; then we should have none either."""


def compare(recorded: dict[str, Any], found: Answer) -> dict[str, Verdict]:
    """The verdict on each field that can be compared."""
    status = recorded["status"]
    if found.status == "missing" or recorded.get("type") == _NO_SUCH_NAME:
        agrees = found.status == "missing" and recorded.get("type") == _NO_SUCH_NAME
        return {"status": Verdict(agrees, _recorded_outcome(recorded), _outcome(found))}
    if status in _FAILED:
        return {"status": Verdict(found.status == "error", status, _outcome(found))}
    accepted = status == "ok"
    verdicts = {
        "status": Verdict(found.status == ("ok" if accepted else "error"), _recorded_outcome(recorded), _outcome(found))
    }
    if not verdicts["status"].agrees:
        return verdicts
    if status in _REFUSED:
        if "message" in recorded:
            verdicts["message"] = _same(comparable(recorded["message"]), comparable(found.message))
        graph_peak = _graph_peak(recorded, found)
        if graph_peak is not None and status == "error":
            verdicts["graph_peak"] = graph_peak
        return verdicts
    for field, judge in _OF_ACCEPTED.items():
        verdict = judge(recorded, found)
        if verdict is not None:
            verdicts[field] = verdict
    return verdicts


def comparable(message: str) -> str:
    """Without what says nothing of the call.

    Programs are numbered in the order of their making in the process. Where no signature fits, the library's binding
    lists the signatures with its own types; of that the first line is compared.
    """
    message = message.strip()
    first, _, rest = message.partition("\n")
    if rest and first.endswith("incompatible function arguments."):
        return first
    return re.sub(r"\bin program \d+", "in program N", message)


def _outcome(found: Answer) -> str:
    return "ok" if found.status == "ok" else f"{found.status}: {found.message}"


def _recorded_outcome(recorded: dict[str, Any]) -> str:
    return "ok" if recorded["status"] == "ok" else f"{recorded['status']}: {recorded.get('message', '')}"


def _same(recorded: Any, found: Any) -> Verdict:
    return Verdict(recorded == found, recorded, found)


def _output(recorded: dict[str, Any], found: Answer) -> Verdict | None:
    if "output" not in recorded:
        return None
    return _same({k: v for k, v in recorded["output"].items() if k != "address"}, found.output)


def _address(recorded: dict[str, Any], found: Answer) -> Verdict | None:
    address = recorded.get("output", {}).get("address")
    return None if address is None else _same(address, found.address)


def _more(recorded: dict[str, Any], found: Answer) -> Verdict | None:
    return _same(recorded["more"], found.more) if "more" in recorded else None


def _rest(recorded: dict[str, Any], found: Answer) -> Verdict | None:
    return _same(recorded["rest"], found.rest) if "rest" in recorded else None


def _steps(recorded: dict[str, Any], found: Answer) -> Verdict | None:
    if "ops" not in recorded:
        return None
    return _same([step["op"] for step in recorded["ops"]], [placed.step.op for placed in found.steps])


def _factories(recorded: dict[str, Any], found: Answer) -> Verdict | None:
    """Of the steps that the recording knows the factory of."""
    steps = recorded.get("ops", [])
    known = [step for step in steps if step.get("factory")]
    if not known or len(steps) != len(found.steps):
        return None
    mine = [placed.step.program.factory for step, placed in zip(steps, found.steps, strict=True) if step in known]
    return _same([step["factory"] for step in known], mine)


def _allocations(recorded: dict[str, Any], found: Answer) -> Verdict | None:
    """Every allocation that a step makes; of L1_SMALL without the address, which hangs on what is cached."""
    steps = recorded.get("ops", [])
    if not any("buffers" in step for step in steps) or len(steps) != len(found.steps):
        return None
    known = [
        [step["op"], [[k, 0 if k == _L1_SMALL else a, *more] for k, a, *more in step["buffers"]]] for step in steps
    ]
    mine = [
        [placed.step.op, [_allocation(taken) for taken in own]]
        for placed, own in zip(found.steps, found.allocations, strict=True)
    ]
    return _same(known, mine)


def _allocation(taken: Taken) -> list[Any]:
    """[type, address, bytes per bank, cores, layout], as recordings have it."""
    place = taken.place
    kind = int(place.buffer_type.value)
    return [kind, 0 if kind == _L1_SMALL else place.address, place.bank_bytes, *_cores_and_layout(taken)]


def _cores_and_layout(taken: Taken) -> tuple[int, str]:
    """Tables that are no tensors have a row for each core."""
    if taken.table is not None and taken.table.spec is None:
        return taken.table.cores, "HEIGHT_SHARDED"
    spec = taken.table.spec if taken.table is not None else taken.slot.spec if taken.slot is not None else None
    assert spec is not None, "memory that a step takes is a tensor's or a table's"
    sharded = spec.memory_config.shard_spec is not None
    return spec.shards_with_data if sharded else 0, spec.memory_config.memory_layout.name


def _by_step(
    recorded: dict[str, Any], found: Answer, read: Callable[..., Any], mine: Callable[..., Any]
) -> Verdict | None:
    """Compare the steps whose buffers were recorded; steps without any say nothing of their footprint."""
    steps = recorded.get("ops", [])
    if not any(step["cbs"] or step["staging"] for step in steps):
        return None
    if [step["op"] for step in steps] != [placed.step.op for placed in found.steps]:
        return Verdict(False, [step["op"] for step in steps], [placed.step.op for placed in found.steps])
    pairs = [(s, p) for s, p in zip(steps, found.steps, strict=True) if s["cbs"] or s["staging"]]
    return _same([[s["op"], read(s)] for s, _ in pairs], [[s["op"], mine(s, p)] for s, p in pairs])


def _cores(recorded: dict[str, Any], found: Answer) -> Verdict | None:
    return _by_step(
        recorded,
        found,
        lambda step: _distinct([cb[3] for cb in step["cbs"]] + [buffer[2] for buffer in step["staging"]]),
        lambda _, placed: _distinct([ranges_of(b.cores) for b in placed.step.buffers if not b.scratch]),
    )


def _distinct(grids: list[Ranges]) -> list[Ranges]:
    """The core ranges that a step's buffers stand on, each once; the order of ranges has no meaning."""
    unique: list[Ranges] = []
    for grid in sorted(sorted(g) for g in grids):
        if grid not in unique:
            unique.append(grid)
    return unique


def _cbs(recorded: dict[str, Any], found: Answer) -> Verdict | None:
    return _by_step(recorded, found, _recorded_buffers, _found_buffers)


def _recorded_buffers(step: dict[str, Any]) -> dict[str, Any]:
    buffers: dict[str, Any] = {}
    if step["cbs"]:
        buffers["cbs"] = sorted([size, 0 if alias else address] for address, size, alias, _ in step["cbs"])
    if step["staging"]:
        buffers["staging"] = sorted(size for size, _, _ in step["staging"])
    return buffers


def _found_buffers(step: dict[str, Any], placed: PlacedStep) -> dict[str, Any]:
    """[bytes, address (0 of those that borrow a tensor's memory)] and staging bytes, where the record has such."""
    pairs = list(zip(placed.step.buffers, placed.buffer_addresses, strict=True))
    buffers: dict[str, Any] = {}
    if step["cbs"]:
        buffers["cbs"] = sorted(
            [b.bytes, 0 if b.alias is not None else address] for b, address in pairs if not b.dataflow
        )
    if step["staging"]:
        buffers["staging"] = sorted(b.bytes for b, _ in pairs if b.dataflow and not b.scratch)
    return buffers


def _borrowed(recorded: dict[str, Any], found: Answer) -> Verdict | None:
    """The addresses of circular buffers that borrow the memory of a tensor or of a table."""
    steps = recorded.get("ops", [])
    if not any(alias for step in steps for _, _, alias, _ in step["cbs"]) or len(steps) != len(found.steps):
        return None
    pairs = [(step, placed) for step, placed in zip(steps, found.steps, strict=True) if step["cbs"]]
    return _same(
        [sorted([size, a] for a, size, alias, _ in step["cbs"] if alias) for step, _ in pairs],
        [
            sorted(
                [b.bytes, a]
                for b, a in zip(p.step.buffers, p.buffer_addresses, strict=True)
                if b.alias is not None and not b.dataflow
            )
            for _, p in pairs
        ],
    )


def _peak(recorded: dict[str, Any], found: Answer) -> Verdict | None:
    if "peak" not in recorded:
        return None
    return _close(recorded["peak"], found.peak)


def _graph_peak(recorded: dict[str, Any], found: Answer) -> Verdict | None:
    """What a user reads from the graph of a dry run, which the card may take although it refuses the call itself."""
    if "peak" not in recorded or not found.graph_peak:
        return None
    return _close(recorded["peak"], found.graph_peak)


def _close(recorded: dict[str, int], found: dict[str, int]) -> Verdict:
    want, have = recorded["total"], found["total"]
    return Verdict(abs(have - want) <= PEAK_TOLERANCE * want, recorded, found)


_OF_ACCEPTED: dict[str, Callable[[dict[str, Any], Answer], Verdict | None]] = {
    "output": _output,
    "address": _address,
    "more": _more,
    "rest": _rest,
    "steps": _steps,
    "factories": _factories,
    "cores": _cores,
    "cbs": _cbs,
    "borrowed": _borrowed,
    "allocations": _allocations,
    "peak": _peak,
    "graph_peak": _graph_peak,
}
