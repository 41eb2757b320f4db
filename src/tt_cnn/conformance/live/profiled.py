# SPDX-License-Identifier: Apache-2.0
"""Runs a program on the real library for its profiler: `python -m tracy -p -r -m tt_cnn.conformance.live.profiled ...`.

It takes the same arguments as `tt-cnn conformance --live` gives a program: PROGRAM [--resolution HxW] [--batch N]
[--precision NAME]. Nothing is captured, since that takes time between steps.
"""

from __future__ import annotations

import argparse
import os
import sys

from tt_cnn import runtime
from tt_cnn.conformance.live.programs import ProgramOptions, find_program


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="profiled")
    parser.add_argument("program")
    parser.add_argument("--resolution", default="")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--precision", default="tuned")
    given = parser.parse_args(arguments)
    size = tuple(int(d) for d in given.resolution.split("x")) if given.resolution else None
    os.environ.setdefault(runtime.VARIABLE, "ttnn")
    find_program(given.program, ProgramOptions(size, given.batch, given.precision))()  # type: ignore[arg-type]
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
