# SPDX-License-Identifier: Apache-2.0
"""Which TT-NN `from tt_cnn import ttnn` gives."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tt_cnn import runtime

FAKE = """
__version__ = "9.9"
def GetNumAvailableDevices():
    {body}
"""


@pytest.fixture(autouse=True)
def fresh_choice(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(runtime.VARIABLE, raising=False)
    runtime.select.cache_clear()
    yield
    runtime.select.cache_clear()


@pytest.fixture
def fake_ttnn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module `ttnn` that can be imported and sees one card."""
    path = tmp_path / "ttnn.py"
    path.write_text(FAKE.format(body="return 1"))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "ttnn", raising=False)
    yield path
    sys.modules.pop("ttnn", None)


def test_without_the_real_library_the_virtual_card_is_used() -> None:
    assert runtime.select().__name__ == runtime.VIRTUAL
    assert runtime.is_virtual()
    assert runtime.describe() == "the virtual card (no module ttnn)"


def test_the_real_library_is_used_where_it_sees_a_card(fake_ttnn: Path) -> None:
    module = runtime.select()
    assert module.__name__ == "ttnn" and Path(str(module.__file__)) == fake_ttnn
    assert not runtime.is_virtual()
    assert runtime.describe() == "the real ttnn 9.9"
    import tt_cnn

    assert tt_cnn.ttnn is module


@pytest.mark.parametrize("body", ["return 0", "raise RuntimeError('no driver')"])
def test_without_a_card_the_virtual_one_is_used(fake_ttnn: Path, body: str) -> None:
    fake_ttnn.write_text(FAKE.format(body=body))
    assert runtime.is_virtual()
    assert runtime.describe() == "the virtual card (the real ttnn sees no card)"


def test_a_library_that_cannot_be_imported_counts_as_missing(fake_ttnn: Path) -> None:
    fake_ttnn.write_text("raise ImportError('libtt_metal.so: cannot open shared object file')")
    assert runtime.is_virtual()


def test_virtual_can_be_asked_for(fake_ttnn: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(runtime.VARIABLE, "virtual")
    assert runtime.is_virtual()
    assert runtime.describe() == "the virtual card (TT_CNN_RUNTIME=virtual)"


def test_the_real_library_can_be_asked_for_without_a_card(fake_ttnn: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_ttnn.write_text(FAKE.format(body="return 0"))
    monkeypatch.setenv(runtime.VARIABLE, "ttnn")
    assert isinstance(runtime.select(), ModuleType) and not runtime.is_virtual()


def test_asking_for_what_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(runtime.VARIABLE, "ttnn")
    with pytest.raises(runtime.RuntimeUnavailable, match="TT_CNN_RUNTIME=ttnn asks for the real TT-NN"):
        runtime.select()


def test_a_wrong_choice_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(runtime.VARIABLE, "simulated")
    with pytest.raises(ValueError, match="TT_CNN_RUNTIME is 'simulated'; it must be one of auto, ttnn, virtual"):
        runtime.select()


def test_importing_tt_cnn_alone_loads_neither_torch_nor_a_card() -> None:
    code = "import sys, tt_cnn; print('torch' in sys.modules or 'tt_cnn.virtual' in sys.modules)"
    assert run_python(code) == "False"


@pytest.mark.parametrize(("choice", "answer"), [("virtual", runtime.VIRTUAL), ("auto", runtime.VIRTUAL)])
def test_the_environment_decides_in_a_new_process(choice: str, answer: str) -> None:
    assert run_python("from tt_cnn import ttnn; print(ttnn.__name__)", TT_CNN_RUNTIME=choice) == answer


def test_other_names_are_attribute_errors() -> None:
    import tt_cnn

    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        tt_cnn.nothing  # noqa: B018


def run_python(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.mark.parametrize(("asked", "status"), [("auto", 0), ("virtual", 0), ("ttnn", 1)])
def test_commands_that_plan_take_the_virtual_card(fake_ttnn: Path, asked: str, status: int) -> None:
    """On a machine with a card, too; the real library's types are not those of plans."""
    path = os.pathsep.join([str(fake_ttnn.parent), *sys.path])
    done = subprocess.run(
        [sys.executable, "-m", "tt_cnn.cli", "memory", "vanilla_unet"],
        env={**os.environ, "PYTHONPATH": path, runtime.VARIABLE: asked},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
    assert ("fits." in done.stdout) is (status == 0)
    assert ("this plans on the virtual card" in done.stderr) is (status == 1)
