# SPDX-License-Identifier: Apache-2.0
"""Running the recorder under an interpreter, in a process of its own, and what can go wrong with that."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tt_cnn
from tt_cnn import runtime
from tt_cnn.conformance.live.programs import ProgramNotFound, ProgramOptions
from tt_cnn.conformance.live.recorder import ENDED, NO_CARD, NO_LIBRARY, NOT_FOUND, Request
from tt_cnn.conformance.live.recording import Recording, load_recording


class LiveError(RuntimeError):
    """A program could not be recorded."""


class NoRealLibrary(LiveError):
    """The interpreter has no real TT-NN."""


class WrongInterpreter(LiveError):
    """What was named as an interpreter does not run, or lacks something that the recorder imports."""


class ProgramFailed(LiveError):
    """The program ended before there was anything to compare, or took the process with it."""


@dataclass(frozen=True)
class Recorded:
    recording: Recording
    values: Mapping[str, np.ndarray]
    calls: Sequence[dict[str, Any]] = ()
    """What the program called, written as data, where that was asked for."""


def real_interpreter(named: Path | None) -> str:
    """The interpreter with the real TT-NN: the one that was named, or this one."""
    if named is not None:
        if not named.is_file() or not os.access(named, os.X_OK):
            raise WrongInterpreter(f"--python is {named}, which is not an executable")
        return str(named)
    found = importlib.util.find_spec("ttnn")
    if found is None:
        raise NoRealLibrary(
            f"{sys.executable} has no module ttnn, and --live compares with the real one; name an interpreter that has "
            "it: --python PATH (TT-NN 0.81.1 is on PyPI for Python 3.10 and 3.12)"
        )
    return sys.executable


def record(
    program: str,
    options: ProgramOptions,
    *,
    python: str,
    library: str,
    card: str = "",
    program_cache: bool = False,
    calls: bool = False,
) -> Recorded:
    """Run a program and read what the card did. `library` is a choice of `TT_CNN_RUNTIME`: `ttnn` or `virtual`."""
    with tempfile.TemporaryDirectory(prefix="tt-cnn-live-") as folder:
        out = Path(folder) / "run"
        request = Path(folder) / "request.json"
        request.write_text(json.dumps(asdict(Request(program, str(out), options, program_cache, calls))))
        log = _start(python, "recorder", [str(request)], Path(folder), library, card)
        failed = out.with_suffix(".failed.json")
        if failed.exists():
            raise _failure(json.loads(failed.read_text()), python)
        recording = out.with_suffix(".json.gz")
        if not recording.exists():
            raise WrongInterpreter(f"{python} could not run the recorder: {_last_line(log)}")
        values, written = out.with_suffix(".npz"), out.with_suffix(".calls.json")
        return Recorded(
            load_recording(recording),
            dict(np.load(values)) if values.exists() else {},
            json.loads(written.read_text()) if written.exists() else (),
        )


def ask_cases(cases: Sequence[dict[str, Any]], *, python: str) -> list[dict[str, Any]]:
    """The real library's results of calls that are written as data.

    One that takes the process with it is a `crash`, as corpora say it, and the rest is asked in another process.
    """
    results: list[dict[str, Any]] = []
    while len(results) < len(cases):
        with tempfile.TemporaryDirectory(prefix="tt-cnn-live-") as folder:
            asked, answers = Path(folder) / "cases.json", Path(folder) / "results.jsonl"
            asked.write_text(json.dumps(list(cases[len(results) :])))
            log = ""
            try:
                log = _start(python, "case_recorder", [str(asked), str(answers)], Path(folder), "ttnn", "")
            except ProgramFailed as error:
                log = str(error)
            more = [json.loads(line) for line in answers.read_text().splitlines()] if answers.exists() else []
        results += more
        if not more and not results:
            raise WrongInterpreter(f"{python} could not ask the first call: {_last_line(log)}")
        if len(results) < len(cases):
            results.append({"status": "crash", "message": _last_line(log)})
    return results


def _start(python: str, module: str, arguments: Sequence[str], folder: Path, library: str, card: str) -> str:
    """Run a module beside this one; what it and the program print is returned."""
    ours = folder / "package"
    ours.mkdir()
    (ours / "tt_cnn").symlink_to(Path(tt_cnn.__file__).parent)  # this package alone, not what is installed beside it
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, (str(ours), os.environ.get("PYTHONPATH")))),
        runtime.VARIABLE: library,
    }
    if card:
        environment["TT_CNN_CARD"] = card
    try:
        done = subprocess.run(
            [python, "-m", f"tt_cnn.conformance.live.{module}", *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise WrongInterpreter(f"{python} cannot be started: {error}") from error
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        raise ProgramFailed(f"the process of {python} was ended by {name}; its last words: {_last_line(done.stdout)}")
    return done.stdout


def _failure(failure: Mapping[str, str], python: str) -> Exception:
    kinds = {NO_LIBRARY: NoRealLibrary, NO_CARD: ProgramFailed, ENDED: ProgramFailed, NOT_FOUND: ProgramNotFound}
    where = f"{python}: " if failure["why"] == NO_LIBRARY else ""
    return kinds[failure["why"]](f"{where}{failure['message']}")


def _last_line(log: str) -> str:
    lines = [line for line in log.splitlines() if line.strip()]
    return lines[-1] if lines else "nothing was printed"
