# SPDX-License-Identifier: Apache-2.0
"""The kernels' library: compiled once, checked before it is loaded, made anew when it is not what it should be."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tt_cnn import cache_folder
from tt_cnn.virtual import kernel_library as compiled

TINY = 'extern "C" int answer() { return 42; }'
"""The real sources take the compiler many seconds, of which nothing is tested here."""

LOADS = """
import pathlib, sys, warnings
from tt_cnn.virtual import kernel_library as library
library.HERE, library.SOURCES = pathlib.Path(sys.argv[1]), ("program.cpp",)
library.UNITS = {"kernels": library.SOURCES}
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    print(library.library().answer(), *(str(one.message) for one in said))
"""


@pytest.fixture(autouse=True)
def tiny_sources(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "HERE", sources(tmp_path_factory))
    monkeypatch.setattr(compiled, "SOURCES", ("program.cpp",))
    monkeypatch.setattr(compiled, "UNITS", {"kernels": ("program.cpp",)})


def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.getbasetemp() / "sources"
    folder.mkdir(exist_ok=True)
    (folder / "program.cpp").write_text(TINY)
    return folder


def loaded(folder: Path, here: Path | None = None, **environment: str) -> str:
    """What a fresh process prints that loads the library: a bad one would end it by a signal."""
    environment = {**os.environ, "TT_CNN_CACHE": str(folder), **environment}
    command = [sys.executable, "-c", LOADS, str(here or compiled.HERE)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{done.returncode}: {done.stderr[-2000:]}"
    return done.stdout.strip()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kernels")
    assert loaded(folder, sources(tmp_path_factory)) == "42"
    return folder


FOREIGN = "#include <signal.h>\n__attribute__((constructor)) static void run() { raise(SIGILL); }\n"


@pytest.mark.parametrize("harm", ["truncated", "foreign", "another machine's"])
def test_a_library_that_is_not_ours_whole_is_made_anew(made: Path, tmp_path: Path, harm: str) -> None:
    (kept,) = made.glob("kernels-*.so")
    whole, place = kept.read_bytes(), tmp_path / kept.name
    if harm == "truncated":
        place.write_bytes(whole[: len(whole) // 2])
    elif harm == "foreign":
        program = compiled.compiler()
        assert program is not None
        subprocess.run(
            [program, "-shared", "-fPIC", "-xc++", "-", "-o", str(place)], input=FOREIGN, text=True, check=True
        )
    else:
        content = whole[: -len(cache_folder._seal(b"", ""))]
        assert cache_folder.write_sealed(place, content, "another machine")
    bad = place.read_bytes()
    assert loaded(tmp_path) == "42"
    assert place.read_bytes() != bad and cache_folder.is_whole(place, compiled.fingerprint.__wrapped__())


BEGINS = """
import pathlib, sys
from tt_cnn.virtual import kernel_library as library
library.HERE, library.SOURCES = pathlib.Path(sys.argv[1]), ("program.cpp",)
library.UNITS = {"kernels": library.SOURCES}
library.begin()
if sys.argv[2] == "fork":
    import os
    child = os.fork()
    if child:
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(library.library().answer() if sys.argv[2] != "ends" else "", "torch" in sys.modules)
"""


@pytest.mark.parametrize("then", ["waits", "fork", "ends"])
def test_what_was_begun_is_made_once_and_without_torch(tmp_path: Path, then: str) -> None:
    """Whoever needs it waits; the child of a fork, in which nobody makes it, does it again; an end waits for it too."""
    environment = {**os.environ, "TT_CNN_CACHE": str(tmp_path)}
    command = [sys.executable, "-c", BEGINS, str(compiled.HERE), then]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and not done.stderr, done.stderr[-2000:]
    assert done.stdout.split() == (["False"] if then == "ends" else ["42", "False"])
    (kept,) = tmp_path.glob("kernels-*.so")
    assert cache_folder.is_whole(kept, compiled.fingerprint.__wrapped__())


def test_units_are_linked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "HERE", tmp_path)
    (tmp_path / "program.cpp").write_text('int other(); extern "C" int answer() { return other(); }')
    (tmp_path / "other.cpp").write_text("int other() { return 7; }")
    assert ctypes.CDLL(str(compiled._compile(tmp_path / "kernels.so", ("program.cpp", "other.cpp")))).answer() == 7


def test_a_library_is_compiled_once(made: Path) -> None:
    (kept,) = made.glob("kernels-*.so")
    assert loaded(made, CXX="/bin/false", PATH="/nonexistent") == "42"
    assert list(made.iterdir()) == [kept]


@pytest.mark.parametrize("folder", ["open", "no folder", "no home"])
def test_without_a_folder_that_will_do_it_is_compiled_and_said(tmp_path: Path, folder: str) -> None:
    place = tmp_path / "cache"
    if folder == "open":
        place.mkdir()
        place.chmod(0o777)
    else:
        place.write_text("a file")
    home = {"HOME": str(place), "TT_CNN_CACHE": ""} if folder == "no home" else {}
    said = loaded(place, **home)
    assert said.startswith("42 nothing is kept for the next run: ") and said.count("nothing is kept") == 1
    assert folder != "open" or list(place.iterdir()) == []


def test_another_processor_has_another_library(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {compiled.fingerprint.__wrapped__()}
    for processor in ("avx2", "avx2 avx512f"):
        monkeypatch.setattr(compiled, "_processor", lambda said=processor: said)
        found.add(compiled.fingerprint.__wrapped__())
    assert len(found) == 3
    monkeypatch.undo()
    monkeypatch.setattr(Path, "read_text", lambda self: (_ for _ in ()).throw(OSError("no /proc")))
    assert "march" in compiled._processor(), "the compiler tells where the system does not"


def test_a_broken_compiler_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TT_CNN_CACHE", str(tmp_path))
    monkeypatch.setattr(compiled, "FLAGS", ("--no-such-flag",))
    with pytest.raises(RuntimeError, match="no-such-flag"):
        compiled._compile(tmp_path / "kernels.so", ("program.cpp",))
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(compiled, "compiler", lambda: None)
    with pytest.raises(RuntimeError, match=r"needs a C\+\+ compiler"):
        compiled._compile(tmp_path / "kernels.so", ("program.cpp",))
