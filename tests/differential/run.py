# SPDX-License-Identifier: Apache-2.0
"""Random programs by the thousand: `python -m tests.differential.run --help`. Needs neither pytest nor hypothesis.

python -m tests.differential.run --engines device,kernels,openvino,onnxruntime,exact,torch --programs 1000
python -m tests.differential.run --engines cuda,cuda-device --programs 500 --write benchmarks/results/differential.md

How far it is, and programs that take long, are told on stderr. Several runs at once should have a thread each
(`--threads 1`).
"""

from __future__ import annotations

import argparse
import gc
import math
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from tests.differential.checking import (
    ALIKE,
    CUDA,
    CUDA_EXACT,
    DEVICE,
    EXACT,
    NARROW_STEPS,
    NATIVE,
    REPLAYS,
    STEPS,
    Difference,
    IllConditioned,
    NotTraceable,
    Outputs,
    Setting,
    check,
    opened,
    reference,
)
from tests.differential.drawing import Taste
from tests.differential.families import drawn
from tests.differential.program import Program
from tests.differential.progress import Progress
from tests.differential.shrinking import SHRINKING, script, shrunk, still_fails
from tt_cnn.virtual import ttnn
from tt_cnn.virtual.engines.replay.capture import NOTING_FAILED

SETTINGS: dict[str, Setting] = {
    "device": DEVICE,
    "exact": EXACT,
    "torch": ALIKE,
    **{one.engine: one for one in NATIVE},
    "steps": STEPS,
    "narrow-steps": NARROW_STEPS,
    "cuda-exact": CUDA_EXACT,
    "cuda-device": CUDA[0],
    "cuda": CUDA[1],
}
BATCH = 20
"""Programs after which garbage is collected: a device that is closed waits in a cycle."""
TASTES = {"exact": Taste(largest=1 << 11, length=(2, 6))}
"""`exact` numerics follows every rounding: what is large takes long."""


@dataclass
class Tally:
    """What became of the programs of one setting."""

    programs: int = 0
    replays: int = 0
    compiled: int = 0
    """Programs of which some part was compiled."""
    ill_conditioned: int = 0
    not_traceable: int = 0
    seconds: float = 0.0
    differences: list[tuple[Program, str]] = field(default_factory=list)
    faults: list[tuple[Program, str]] = field(default_factory=list)
    """Programs that raised something, or that an engine should have compiled and could not."""
    ops: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        return (
            f"{self.programs} programs, {self.replays} replays, {self.compiled} compiled, "
            f"{len(self.differences)} differences, {len(self.faults)} faults "
            f"({self.ill_conditioned} ill-conditioned and {self.not_traceable} not traceable left out; "
            f"{len(self.ops)} ops; {self.seconds:.0f} s)"
        )


def programs(
    seeds: Sequence[int], numerics: str, taste: Taste | None = None, progress: Progress | None = None
) -> Iterator[Program]:
    """Drawn on a card without an engine of its own."""
    taste, progress = replace(taste or Taste(), native=numerics == "native"), progress or Progress()
    for seed in seeds:
        with progress.watched(f"seed {seed}, drawing it"), opened(Setting(numerics, "torch")) as device:
            found = drawn(seed, taste, ttnn, device)
        if found is not None:
            yield found


def run(
    settings: Sequence[Setting],
    seeds: Sequence[int],
    taste: Taste | None = None,
    progress: Progress | None = None,
    seconds: float = math.inf,
) -> dict[Setting, Tally]:
    """Each program on all settings, which have the same numerics: what is right is computed once for them.

    After `seconds` no more programs are begun.
    """
    progress, end = progress or Progress(), time.perf_counter() + seconds
    tallies = {setting: Tally() for setting in settings}
    for number, program in enumerate(programs(seeds, settings[0].numerics, taste, progress)):
        right: Outputs | None = None
        try:
            with progress.watched(f"seed {program.seed}, its reference"):
                right = reference(program) if any(one.tolerance is not None for one in settings) else None
        except IllConditioned:
            for tally in tallies.values():
                tally.ill_conditioned += 1
        else:
            for setting, tally in tallies.items():
                with progress.watched(f"seed {program.seed}, {setting}"):
                    why = examine(program, setting, tally, right)
                if why:
                    progress.tell(f"{setting}, seed {program.seed}: {why}")
        wrong = sum(len(one.differences) + len(one.faults) for one in tallies.values())
        progress.count(program.seed - seeds[0] + 1, len(seeds), wrong)
        if number % BATCH == 0:
            gc.collect()
        if time.perf_counter() > end:
            progress.tell(f"stopped after seed {program.seed}: {seconds:.0f} s are over")
            break
    return tallies


def examine(program: Program, setting: Setting, tally: Tally, right: Outputs | None = None) -> str:
    """Check a program and count it. Says what is wrong."""
    parts: list[Any] = []
    start, why = time.perf_counter(), ""
    try:
        check(program, setting, parts, right)
    except NotTraceable:
        tally.not_traceable += 1
        return ""
    except IllConditioned:
        tally.ill_conditioned += 1
        return ""
    except Difference as error:
        tally.differences.append((program, why := str(error)))
    except Exception as error:
        tally.faults.append((program, why := f"{type(error).__name__}: {error}"))
    broken = [part.reason for part in parts if part.failed or NOTING_FAILED in part.reason]
    if broken:
        tally.faults.append((program, why := broken[0]))
    tally.programs += 1
    tally.replays += REPLAYS
    tally.compiled += any(part.engine != "torch" for part in parts)
    tally.ops.update(line.split("ttnn.", 1)[1].split("(")[0] for line in program.body if "ttnn." in line)
    tally.seconds += time.perf_counter() - start
    return why


def shown(program: Program, why: str, setting: Setting) -> str:
    """A failure, made small and told."""
    small = shrunk(program, lambda one: still_fails(one, setting))
    lines = [*(f"    {one}" for one in small.sources), *(f"    {line}" for line in (*small.setup, *small.body))]
    return "\n".join([f"{setting}, seed {program.seed}: {why}", *lines, f"    -> {', '.join(small.results)}"])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engines", default="device,kernels,openvino,onnxruntime", help=", ".join(SETTINGS))
    parser.add_argument("--programs", type=int, default=200, help="for each engine")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="for each numerics, after which no program is begun"
    )
    parser.add_argument("--threads", type=int, help="of torch and of the kernels; torch's own choice unless given")
    parser.add_argument("--scripts", type=Path, help="a folder for scripts that show the differences")
    parser.add_argument("--write", type=Path, help="add the counts to this file")
    options = parser.parse_args(arguments)
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    failures, lines, progress = 0, [], Progress(sys.stderr)
    seeds = range(options.first, options.first + options.programs)
    chosen = [SETTINGS[name] for name in options.engines.split(",")]
    tallies: dict[Setting, Tally] = {}
    for numerics in dict.fromkeys(one.numerics for one in chosen):
        alike = [one for one in chosen if one.numerics == numerics]
        tallies |= run(alike, seeds, TASTES.get(numerics), progress, options.seconds)
    for setting, tally in tallies.items():
        print(f"{setting}: {tally}", flush=True)
        lines.append(f"- {setting}: {tally}")
        for program, why in tally.differences:
            progress.tell(f"{setting}, seed {program.seed}: made small, for up to {SHRINKING:.0f} s")
            print(shown(program, why, setting), flush=True)
            if options.scripts is not None:
                options.scripts.mkdir(parents=True, exist_ok=True)
                path = options.scripts / f"{setting.numerics}_{setting.engine}_{program.seed}.py"
                path.write_text(script(program, setting))
        for program, why in tally.faults:
            print(f"{setting}, seed {program.seed}: {why}", flush=True)
        failures += len(tally.differences) + len(tally.faults)
    if options.write is not None:
        with options.write.open("a") as file:
            file.write("\n".join([*lines, ""]))
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
