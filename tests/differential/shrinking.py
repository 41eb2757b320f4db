# SPDX-License-Identifier: Apache-2.0
"""Makes a failing program small, and prints it as a script that needs nothing but tt_cnn."""

from __future__ import annotations

import inspect
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.differential import program as program_module
from tests.differential.checking import Difference, Setting, check
from tests.differential.program import Program

SHRINKING = 60.0
"""Seconds that one program may take of a run."""


def still_fails(program: Program, setting: Setting) -> bool:
    """Whether it shows a difference; a program that no longer runs shows none."""
    try:
        check(program, setting)
    except Difference:
        return True
    except Exception:  # of the card, which refuses in many ways
        pass
    return False


def shrunk(
    program: Program, fails: Callable[[Program], bool], rounds: int = 200, seconds: float = SHRINKING
) -> Program:
    """The same failure in fewer statements, results and inputs, as far as rounds and time go."""
    end = time.perf_counter() + seconds
    while rounds > 0:
        for smaller in _smaller(program):
            rounds -= 1
            if fails(smaller):
                program = smaller
                break
            if rounds <= 0 or time.perf_counter() > end:
                return program
        else:
            return program
    return program


def _smaller(program: Program) -> Iterator[Program]:
    for i in range(len(program.results)):
        if len(program.results) > 1:
            yield replace(program, results=program.results[:i] + program.results[i + 1 :])
    for i in reversed(range(len(program.body))):
        yield _tidy(replace(program, body=program.body[:i] + program.body[i + 1 :]))
    for i, line in enumerate(program.body):  # a name in the place of what it was made of
        found = re.match(r"(t\d+) = ttnn\.\w+\((\w\d+)", line)
        if found:
            rest = tuple(re.sub(rf"\b{found[1]}\b", found[2], one) for one in program.body[i + 1 :])
            results = tuple(dict.fromkeys(found[2] if one == found[1] else one for one in program.results))
            yield _tidy(replace(program, body=program.body[:i] + rest, results=results))
    for i, source in enumerate(program.sources):
        if source.kind != "normal":
            calm = replace(source, kind="normal")
            yield replace(program, sources=(*program.sources[:i], calm, *program.sources[i + 1 :]))


def _tidy(program: Program) -> Program:
    """Without sources and weights that nothing uses; seeds go by position, so those in front stay."""
    text = " ".join((*program.body, *program.results))
    used = [i for i, one in enumerate(program.sources) if re.search(rf"\b{one.name}\b", text)]
    setup = tuple(line for line in program.setup if re.search(rf"\b{_made(line)}\b", text))
    return replace(program, sources=program.sources[: max(used, default=0) + 1], setup=setup)


def _made(line: str) -> str:
    found = re.search(r"(\w\d+) =", line)
    return found[1] if found else ""


def script(program: Program, setting: Setting) -> str:
    """What shows the difference, to be run with `python FILE`."""
    return f"""{inspect.getsource(program_module)}

if __name__ == "__main__":
    from tt_cnn.virtual import ttnn

    program = {_literal(program)}
    device = ttnn.open_device(
        device_id=0, l1_small_size=32768, numerics={setting.numerics!r}, engine={setting.engine!r}, hazards="off"
    )
    eager, traced = Running(program, ttnn, device), Running(program, ttnn, device)
    traced.call()
    traced.reset()
    trace = ttnn.begin_trace_capture(device, cq_id=0)
    results = traced.call()
    ttnn.end_trace_capture(device, trace, cq_id=0)
    for i in range(5):
        eager.write(i)
        expected = values_of(eager.call())
        traced.write(i)
        ttnn.execute_trace(device, trace, cq_id=0, blocking=True)
        for name, a, b in zip(program.results, values_of(results), expected):
            same = torch.equal(a.isnan(), b.isnan()) and torch.equal(a.nan_to_num(), b.nan_to_num())
            print(f"replay {{i}}, {{name}}:", "equal" if same else f"differs by up to {{(a - b).abs().max()}}")
    ttnn.close_device(device)
"""


def _literal(program: Program) -> str:
    lines = ["Program("]
    for name in ("sources", "setup", "body", "results"):
        lines.append(f"        {name}=(")
        lines += [f"            {one!r}," for one in getattr(program, name)]
        lines.append("        ),")
    return "\n".join([*lines, f"        seed={program.seed},", "    )"])
