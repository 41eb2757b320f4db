# SPDX-License-Identifier: Apache-2.0
"""What can go wrong before there is anything to compare: each is an error of its own kind that says what to do."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.conformance.live.recorded import PROGRAM, ROOT
from tt_cnn.conformance.live.launching import (
    NoRealLibrary,
    ProgramFailed,
    Recorded,
    WrongInterpreter,
    real_interpreter,
    record,
)
from tt_cnn.conformance.live.programs import ProgramNotFound, ProgramOptions, find_program
from tt_cnn.conformance.live.recording import CardFacts
from tt_cnn.conformance.live.running import NoSuchCard, card_like


def on_virtual_card(program: str) -> Recorded:
    return record(program, ProgramOptions(), python=sys.executable, library="virtual", card="p150", calls=True)


def script(folder: Path, text: str) -> str:
    file = folder / "program.py"
    file.write_text(text)
    return str(file)


def test_this_interpreter_has_no_real_library() -> None:
    with pytest.raises(NoRealLibrary, match=r"has no module ttnn.*--python PATH"):
        real_interpreter(None)


def test_an_interpreter_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(WrongInterpreter, match="is not an executable"):
        real_interpreter(tmp_path / "python")


def test_the_named_interpreter_has_no_real_library() -> None:
    with pytest.raises(NoRealLibrary, match="TT_CNN_RUNTIME=ttnn asks for the real TT-NN, but no module ttnn"):
        record("mobilenetv2", ProgramOptions(), python=sys.executable, library="ttnn")


def test_a_program_that_is_no_python(tmp_path: Path) -> None:
    other = tmp_path / "python"
    other.write_text("#!/bin/sh\necho 'No module named torch' >&2\nexit 1\n")
    other.chmod(0o755)
    with pytest.raises(WrongInterpreter, match="could not run the recorder: No module named torch"):
        record("mobilenetv2", ProgramOptions(), python=str(real_interpreter(other)), library="ttnn")


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("no_such_model", "there is no model 'no_such_model'.*a script ends in .py"),
        ("no_such_module:ENTRY", "there is no module no_such_module"),
        ("json:ENTRY", "the module json has no ENTRY"),
        ("json:__name__", "must be a tt_cnn.models.ModelEntry or a function of an open device"),
        ("no/such/script.py", "there is no such script"),
    ],
)
def test_programs_that_are_not_there(program: str, message: str) -> None:
    with pytest.raises(ProgramNotFound, match=message):
        find_program(program, ProgramOptions())


def test_the_other_process_says_that_a_program_is_not_there() -> None:
    with pytest.raises(ProgramNotFound, match="the module json has no ENTRY"):
        on_virtual_card("json:ENTRY")


def test_a_script_that_ends_before_it_opens_a_card(tmp_path: Path) -> None:
    with pytest.raises(ProgramFailed, match="the program ended before it opened a card: KeyError: 'weights'"):
        on_virtual_card(script(tmp_path, "raise KeyError('weights')"))


def test_a_script_that_takes_the_process_with_it(tmp_path: Path) -> None:
    with pytest.raises(ProgramFailed, match="was ended by SIGKILL"):
        on_virtual_card(script(tmp_path, "import os; os.kill(os.getpid(), 9)"))


def test_a_refused_call_is_an_answer(tmp_path: Path) -> None:
    """The steps before it are there, and its words."""
    text = """
import torch, ttnn
device = ttnn.open_device(device_id=0)
x = ttnn.from_torch(torch.zeros(1, 1, 32, 32), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
ttnn.relu(x)
ttnn.matmul(x, ttnn.to_layout(x, ttnn.ROW_MAJOR_LAYOUT))
"""
    found = on_virtual_card(script(tmp_path, text))
    recording = found.recording
    assert recording.library == "the virtual p150" and recording.card.grid == (11, 10)
    assert recording.status == "error" and recording.error and recording.message
    assert recording.steps[0].op == "Unary"
    assert found.calls[0]["op"] == "relu"


def test_values_that_a_function_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    options = ProgramOptions(values=True)
    found = record(PROGRAM, options, python=sys.executable, library="virtual", card="n150")
    assert found.values["output 0"].shape == (1, 1, 256, 64)


def test_the_virtual_card_is_that_of_the_real_one() -> None:
    assert card_like(CardFacts("WORMHOLE_B0", (8, 8))) == "n150"
    assert card_like(CardFacts("BLACKHOLE", (11, 10))) == "p150"
    with pytest.raises(NoSuchCard, match=r"BLACKHOLE with 1 chip and a grid of 13x10.*--card NAME-COLUMNSxROWS"):
        card_like(CardFacts("BLACKHOLE", (13, 10)))
