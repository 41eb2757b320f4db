"""Random programs by the thousand: `python -m tests.differential.run --help`. Needs neither pytest nor hypothesis.

python -m tests.differential.run --engines device,kernels,openvino,onnxruntime,exact,torch --programs 1000
python -m tests.differential.run --engines cuda,cuda-device --programs 500 --write benchmarks/results/differential.md
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.differential.checking import (
    ALIKE,
    CUDA,
    DEVICE,
    EXACT,
    NATIVE,
    REPLAYS,
    STEPS,
    Difference,
    IllConditioned,
    NotTraceable,
    Setting,
    check,
    opened,
)
from tests.differential.drawing import Taste, drawn
from tests.differential.program import Program
from tests.differential.shrinking import script, shrunk, still_fails
from tt_cnn.virtual import ttnn
from tt_cnn.virtual.engines.replay.capture import NOTING_FAILED

SETTINGS: dict[str, Setting] = {
    "device": DEVICE,
    "exact": EXACT,
    "torch": ALIKE,
    **{one.engine: one for one in NATIVE},
    "steps": STEPS,
    "cuda-device": CUDA[0],
    "cuda": CUDA[1],
}
BATCH = 20


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


def programs(seeds: Sequence[int], setting: Setting, taste: Taste | None = None) -> Iterator[Program]:
    """Drawn on a card without an engine of its own, some at a time."""
    taste = replace(taste or Taste(), native=setting.tolerance is not None)
    for first in range(0, len(seeds), BATCH):
        found = []
        for seed in seeds[first : first + BATCH]:
            with opened(Setting(setting.numerics, "torch")) as device:
                found.append(drawn(seed, taste, ttnn, device))
        yield from (one for one in found if one is not None)


def examine(program: Program, setting: Setting, tally: Tally) -> None:
    parts: list = []
    start = time.perf_counter()
    try:
        check(program, setting, parts)
    except IllConditioned:
        tally.ill_conditioned += 1
        return
    except NotTraceable:
        tally.not_traceable += 1
        return
    except Difference as error:
        tally.differences.append((program, str(error)))
    except Exception as error:
        tally.faults.append((program, f"{type(error).__name__}: {error}"))
    broken = [part.reason for part in parts if part.failed or NOTING_FAILED in part.reason]
    if broken:
        tally.faults.append((program, broken[0]))
    tally.programs += 1
    tally.replays += REPLAYS
    tally.compiled += any(part.engine != "torch" for part in parts)
    tally.ops.update(line.split("ttnn.", 1)[1].split("(")[0] for line in program.body if "ttnn." in line)
    tally.seconds += time.perf_counter() - start


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
    parser.add_argument("--scripts", type=Path, help="a folder for scripts that show the differences")
    parser.add_argument("--write", type=Path, help="add the counts to this file")
    options = parser.parse_args(arguments)
    failures, lines = 0, []
    for name in options.engines.split(","):
        setting, tally = SETTINGS[name], Tally()
        seeds = range(options.first, options.first + options.programs)
        for program in programs(seeds, setting):
            examine(program, setting, tally)
        print(f"{setting}: {tally}", flush=True)
        lines.append(f"- {setting}: {tally}")
        for program, why in tally.differences:
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
