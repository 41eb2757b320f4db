"""The kernels' shared library: compiled for this machine when first needed, kept in the cache folder."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SOURCES = (
    "vector.h", "rounding.h", "step.h", "product.h", "convolution.h", "winograd.h", "windows.h", "walk.h", "weights.h",
    "registers.h", "program.cpp",
)  # fmt: skip
FLAGS = ("-O3", "-march=native", "-fopenmp", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC")
COMPILERS = ("g++", "c++")


def compiler() -> str | None:
    """The C++ compiler that makes them, if there is one. `CXX` names another."""
    named = os.environ.get("CXX")
    for name in (named, *COMPILERS) if named else COMPILERS:
        found = shutil.which(name)
        if found:
            return found
    return None


@cache
def library() -> Any:
    """Functions of the library; compiling takes some seconds the first time."""
    path = _path()
    if not path.exists():
        _compile(path)
    return ctypes.CDLL(str(path))


def fingerprint() -> str:
    """Of the sources and the machine."""
    digest = hashlib.sha256(repr(FLAGS).encode())
    for name in SOURCES:
        digest.update((HERE / name).read_bytes())
    digest.update(_processor().encode())
    return digest.hexdigest()[:16]


def _path() -> Path:
    root = Path(os.environ.get("TT_CNN_CACHE") or Path.home() / ".cache" / "tt-cnn")
    return root / f"kernels-{fingerprint()}.so"


def _processor() -> str:
    """What `-march=native` depends on: the library must not be taken to another machine."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())


def _compile(path: Path) -> None:
    program = compiler()
    if program is None:
        raise RuntimeError("engine='kernels' needs a C++ compiler (g++); install one, or use another engine")
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder) / path.name
        command = [program, *FLAGS, str(HERE / SOURCES[-1]), "-o", str(made)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
        made.replace(path)
