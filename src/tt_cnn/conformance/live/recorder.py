# SPDX-License-Identifier: Apache-2.0
"""Runs a program under the TT-NN in use and writes down what the card did: `python -m ... REQUEST.json`.

It is started by `launching.record` in a process of its own, under the interpreter of the real library or under ours.
"""

from __future__ import annotations

import gc
import json
import sys
import traceback
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tt_cnn import runtime
from tt_cnn.conformance.live.programs import Outputs, Program, ProgramNotFound, ProgramOptions, find_program
from tt_cnn.conformance.live.recording import RAISED, CardFacts, Recording
from tt_cnn.conformance.live.watching import (
    GraphWatcher,
    add_dry_run,
    facts_of,
    is_mocked,
    message_of,
    steps_of_graphs,
    watched,
)

NO_LIBRARY, NOT_FOUND, NO_CARD, ENDED = "no library", "not found", "no card", "ended"
"""Why there is no recording."""


@dataclass(frozen=True)
class Request:
    program: str
    out: str
    """The recording goes to OUT.json.gz, values to OUT.npz, and why there is none to OUT.failed.json."""
    options: ProgramOptions
    program_cache: bool = False
    calls: bool = False
    """On the virtual card: the calls that the program makes, written as data, go to OUT.calls.json."""


class CannotRecord(Exception):
    def __init__(self, why: str, message: str) -> None:
        super().__init__(message)
        self.why = why


def record(request: Request) -> tuple[Recording, Outputs]:
    try:
        ttnn = runtime.select()
    except runtime.RuntimeUnavailable as error:
        raise CannotRecord(NO_LIBRARY, str(error)) from error
    try:
        program = find_program(request.program, request.options)
    except ProgramNotFound as error:
        raise CannotRecord(NOT_FOUND, str(error)) from error
    run = _record_virtual if runtime.is_virtual() else _record_real
    gc.disable()  # so that cycles, which are freed at odd times, are freed at no time
    try:
        return run(ttnn, program, request)
    finally:
        gc.enable()


def _record_real(ttnn: Any, program: Program, request: Request) -> tuple[Recording, Outputs]:
    watcher = GraphWatcher(ttnn, ttnn.graph.RunMode.NORMAL, request.program_cache)
    with watched(ttnn, ("ttnn",), watcher):
        outputs, error = _run(program)
    steps, calls = steps_of_graphs(watcher.graphs)
    recording = Recording(f"ttnn {_version()}", _card(watcher.card, error), steps, calls, mocked=is_mocked())
    _note_error(recording, error)
    watcher.close_all()
    if error is None:
        _add_dry_run(recording, ttnn, program, request)
    else:
        recording.notes.append("dataflow buffers and peaks: a program that ends with an error has no dry run")
        for step in recording.steps:
            step.staging = None
    return recording, ({} if recording.mocked else outputs)


def _add_dry_run(recording: Recording, ttnn: Any, program: Program, request: Request) -> None:
    dry = GraphWatcher(ttnn, ttnn.graph.RunMode.NO_DISPATCH, request.program_cache)
    with watched(ttnn, ("ttnn",), dry):
        _, error = _run(program)
    dry.close_all()
    if error is not None:
        recording.notes.append(f"a dry run ends with {type(error).__name__}: {message_of(error)}")
    add_dry_run(recording, dry.graphs, ttnn)


def _record_virtual(ttnn: Any, program: Program, request: Request) -> tuple[Recording, Outputs]:
    from tt_cnn import compat
    from tt_cnn.conformance.live.call_writing import written_calls
    from tt_cnn.conformance.live.command_reading import CommandReading, plan_only

    class CommandWatcher:
        def __init__(self) -> None:
            self.readings: list[CommandReading] = []
            self.card: CardFacts | None = None
            self.name = ""
            self._open: list[CommandReading] = []

        def opened(self, device: Any) -> None:
            if any(reading.device is device for reading in self._open):
                return  # a function that opens cards by another
            if not request.program_cache:
                device.disable_and_clear_program_cache()
            if not request.options.values:
                plan_only(device)
            self.card, self.name = self.card or facts_of(device), device.card.name
            self._open.append(CommandReading(device))
            self.readings.append(self._open[-1])

        def closing(self, device: Any) -> None:
            while self._open:
                self._open.pop().finish()

    watcher = CommandWatcher()
    compat.install()
    writing: AbstractContextManager[list[dict[str, Any]]] = nullcontext([])
    if request.calls:
        writing = written_calls(request.program)
    with watched(ttnn, ("tt_cnn",), watcher), writing as cases:
        outputs, error = _run(program)
    if request.calls:
        Path(request.out).with_suffix(".calls.json").write_text(json.dumps(cases))
    recording = Recording(f"the virtual {watcher.name}", _card(watcher.card, error), [], [])
    for reading in watcher.readings:
        for step in reading.steps:
            step.call += len(recording.calls)
        recording.steps += reading.steps
        recording.calls += reading.calls
    _note_error(recording, error)
    return recording, outputs


def _run(program: Program) -> tuple[Outputs, BaseException | None]:
    """What the program returns, or what it raises: a refusal is an answer too."""
    try:
        return program(), None
    except SystemExit as error:
        return {}, error if error.code else None
    except Exception as error:
        traceback.print_exc()
        return {}, error


def _card(card: CardFacts | None, error: BaseException | None) -> CardFacts:
    if card is not None:
        return card
    ended = "" if error is None else f": {type(error).__name__}: {message_of(error)}"
    raise CannotRecord(ENDED if error else NO_CARD, f"the program ended before it opened a card{ended}") from error


def _note_error(recording: Recording, error: BaseException | None) -> None:
    if error is not None:
        recording.status, recording.error, recording.message = RAISED, type(error).__name__, message_of(error)


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("ttnn")
    except PackageNotFoundError:
        return "of unknown version"


def main(path: str) -> int:
    data = json.loads(Path(path).read_text())
    options = data["options"]
    if options["resolution"] is not None:
        options["resolution"] = tuple(options["resolution"])
    request = Request(data["program"], data["out"], ProgramOptions(**options), data["program_cache"], data["calls"])
    out = Path(request.out)
    try:
        recording, outputs = record(request)
    except CannotRecord as error:
        out.with_suffix(".failed.json").write_text(json.dumps({"why": error.why, "message": str(error)}))
        return 1
    recording.save(out.with_suffix(".json.gz"))
    if outputs:
        import numpy as np

        arrays: dict[str, Any] = {name: value.float().numpy() for name, value in outputs.items()}
        np.savez(out.with_suffix(".npz"), **arrays)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
