# SPDX-License-Identifier: Apache-2.0
"""The libraries of `engines/replay/kernels`: compiled for this machine when first needed, kept in the cache folder.

Nothing here imports torch, so that compiling can begin before that is there.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tt_cnn import cache_folder

if TYPE_CHECKING:
    from torch import Tensor

HERE = Path(__file__).parent / "engines" / "replay" / "kernels"
SOURCES = (
    "vector.h", "rounding.h", "step.h", "product.h", "convolution.h", "winograd.h", "windows.h", "walk.h", "weights.h",
    "bytes.h", "byte_convolution.h", "depthwise.h", "registers.h", "lanes512.h", "lanes256.h", "steps.h", "followed.h",
    "gathering.h", "units.h", "staged.h", "tables.h", "looks.h", "crew.h", "points.h", "program.cpp", "convolution.cpp",
    "winograd.cpp", "depthwise.cpp", "in_bytes.cpp", "units.cpp",
)  # fmt: skip
UNITS = {
    "kernels": ("program.cpp", "convolution.cpp", "winograd.cpp"),
    "depthwise": ("depthwise.cpp",),
    "bytes": ("in_bytes.cpp",),
    "units": ("units.cpp",),
}
"""The files of each library: what most replays need, depthwise convolutions, 8 bits, and `exact` numerics."""
STEPS = {"depthwise": "multiply_channels", "bytes": "in_bytes"}
"""Libraries whose steps are part of programs, and the function that does them."""
FLAGS = ("-O3", "-march=native", "-fopenmp", "-fno-math-errno", "-fno-trapping-math", "-fPIC")
COMPILERS = ("g++", "c++")


def compiler() -> str | None:
    """The C++ compiler that makes them, if there is one. `CXX` names another."""
    named = os.environ.get("CXX")
    for name in (named, *COMPILERS) if named else COMPILERS:
        found = shutil.which(name)
        if found:
            return found
    return None


def pointer(x: Tensor | None) -> ctypes.c_void_p:
    """Where its numbers lie, for the library's functions."""
    return ctypes.c_void_p(None if x is None else x.data_ptr())


_making = threading.Lock()


def _forget_makers() -> None:
    """In the child of a fork: whoever made the library is not there."""
    global _making
    _making = threading.Lock()


os.register_at_fork(after_in_child=_forget_makers)


def begin() -> None:
    """Compile beside what else is to be done first, where that is missing; `library` waits for what is left of it.

    Nothing is loaded: torch brings an OpenMP of its own, and the first one that is loaded is taken by both.
    """
    if compiler() is not None:
        threading.Thread(target=_make, name="tt-cnn kernels").start()


def _make() -> None:
    with suppress(RuntimeError, OSError), _making:  # whoever needs it tries again, and says what is wrong
        path = _place("kernels")
        if not cache_folder.is_whole(path, fingerprint()):
            with tempfile.TemporaryDirectory(prefix="tt-cnn-") as folder:
                made = _compile(Path(folder) / path.name, UNITS["kernels"])
                cache_folder.write_sealed(path, made.read_bytes(), fingerprint())


def library(name: str = "kernels") -> Any:
    """Functions of a library; compiling takes some seconds the first time."""
    return _library(name)


@cache
def _library(name: str) -> Any:
    """A library that is not whole, or was made for another machine, would end the process: it is checked before it is
    loaded, and made again.
    """
    with _making:
        return _loaded(_place(name), UNITS[name])


@cache
def load_steps(name: str, kinds: tuple[int, ...]) -> None:
    """Steps of these kinds are in a library that is not there before a program needs it."""
    function = ctypes.cast(getattr(library(name), STEPS[name]), ctypes.c_void_p)
    for kind in kinds:
        library().take_steps(ctypes.c_int64(kind), function)


def _place(name: str) -> Path:
    return cache_folder.folder() / f"{name}-{fingerprint()}.so"


def _loaded(path: Path, units: Sequence[str]) -> Any:
    if cache_folder.is_whole(path, fingerprint()):
        with suppress(OSError):  # a folder that nothing may run from, or other system libraries than it was made with
            return ctypes.CDLL(str(path))
    with tempfile.TemporaryDirectory(prefix="tt-cnn-") as folder:
        made = _compile(Path(folder) / path.name, units)
        kept = cache_folder.write_sealed(path, made.read_bytes(), fingerprint())
        for candidate in (path, made) if kept else (made,):
            with suppress(OSError):
                return ctypes.CDLL(str(candidate))  # once loaded, it needs no file any more
    raise RuntimeError(
        f"the compiled kernels can be loaded neither from {path.parent} nor from {folder}; name a folder that programs "
        f"may run from with {cache_folder.VARIABLE}, or use another engine"
    )


@cache
def fingerprint() -> str:
    """Of the sources, the machine, and the C library that it is linked with."""
    digest = hashlib.sha256(repr((FLAGS, platform.machine(), platform.libc_ver(), _processor())).encode())
    for name in SOURCES:
        digest.update((HERE / name).read_bytes())
    return digest.hexdigest()[:16]


def _processor() -> str:
    """What `-march=native` depends on: the library must not be taken to another machine."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    found = next((line for line in lines if line.startswith(("flags", "Features"))), None)
    return _seen_by_the_compiler() if found is None else " ".join(sorted(found.split()))


def _seen_by_the_compiler() -> str:
    """The processor as a compiler tells it, where the system does not."""
    program = compiler()
    if program is None:
        return platform.processor()
    return subprocess.run([program, "-march=native", "-Q", "--help=target"], capture_output=True, text=True).stdout


def _compile(path: Path, units: Sequence[str]) -> Path:
    """The files side by side, each into one beside `path`, and all of them linked."""
    program = compiler()
    if program is None:
        raise RuntimeError("engine='kernels' needs a C++ compiler (g++); install one, or use another engine")
    parts = {path.with_name(f"{name}.o"): HERE / name for name in units}
    _run_all([[program, *FLAGS, "-c", str(source), "-o", str(made)] for made, source in parts.items()])
    _run_all([[program, *FLAGS, "-shared", *map(str, parts), "-o", str(path)]])
    return path


def _run_all(commands: Sequence[Sequence[str]]) -> None:
    """At the same time; each is waited for, also where another failed."""
    started = [
        subprocess.Popen(each, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for each in commands
    ]
    for command, process, (_, said) in [(*pair, pair[1].communicate()) for pair in zip(commands, started, strict=True)]:
        if process.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{said[-2000:]}")
