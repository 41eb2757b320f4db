# SPDX-License-Identifier: Apache-2.0
"""What code refers to, and which code is that of packages: for the fingerprint of functions."""

from __future__ import annotations

import dis
import functools
import hashlib
import importlib
import importlib.util
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, ModuleType


def codes_in(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from codes_in(inner)


def read_globals(code: CodeType) -> Iterator[str]:
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield instruction.argval


def imported(codes: list[CodeType], package: str) -> Iterator[tuple[str, ModuleType | None]]:
    """The modules that functions import when they run; None for those of packages that nobody has imported yet."""
    for code in codes:
        instructions = list(dis.get_instructions(code))
        for index, instruction in enumerate(instructions):
            if instruction.opname == "IMPORT_NAME":
                level = instructions[index - 2].argval
                dots = "." * (level if isinstance(level, int) else 0)
                name = importlib.util.resolve_name(dots + instruction.argval, package)
                top = name.partition(".")[0]
                yield name, _module(name, top)
                yield top, _module(top, top)


def _module(name: str, top: str) -> ModuleType | None:
    if name in sys.modules:
        return sys.modules[name]
    found = importlib.util.find_spec(top)
    if found is None or (found.origin is not None and is_installed(found.origin)):
        return None  # it is missing, or not followed; to import it would take its time
    return importlib.import_module(name)


_OWN = Path(__file__).parents[1]
_INSTALLED = tuple(
    {f"{Path(sysconfig.get_path(name)).resolve()}/" for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)
_SITES = {"site-packages", "dist-packages"}
"""What folders of packages are called; those of a user, and of Debian, `sysconfig` does not name."""


def is_installed_module(module: ModuleType) -> bool:
    """Parts of a package that are in no file are as installed as the package."""
    file = getattr(module, "__file__", None)
    if file is None:
        file = getattr(sys.modules.get(module.__name__.partition(".")[0]), "__file__", None)
    return module.__name__ in sys.builtin_module_names or (file is not None and is_installed(file))


@functools.cache
def is_installed(file: str) -> bool:
    """Whether code is that of a package, of Python or ours, and not of a user's project."""
    if file.startswith("<"):
        return file.startswith("<frozen ")
    path = Path(file).resolve()
    ours = path.is_relative_to(_OWN) and not path.is_relative_to(_OWN / "models")
    return ours or str(path).startswith(_INSTALLED) or not _SITES.isdisjoint(path.parts)


@functools.cache
def contents(file: str | None) -> str:
    """A digest of a file; of none where the code is in no file, and the version of Python or torch says enough."""
    try:
        return hashlib.sha256(Path(file or "").read_bytes()).hexdigest()
    except OSError:
        return ""


@functools.cache
def own_sources() -> str:
    """Of the code that converts parameters."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256("".join(contents(str(file)) for file in files).encode()).hexdigest()
