# SPDX-License-Identifier: Apache-2.0
"""A version of the code that has a part in a result: that result is kept for as long as the version is the same."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

SRC = Path(__file__).resolve().parent.parent / "src"
FOUND_BY_LOOKING = ("tt_cnn.virtual", "tt_cnn.builder")
"""Packages whose modules are not all imported by name: ops are found by looking, layers named by generated code."""
Defined = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def code_version(*roots: str, apart: tuple[str, ...] = (), files: Iterable[Path] = ()) -> str:
    """Of the modules named, all that they import of this project, the layers, the virtual card with its figures, and
    the files.

    Comments, docstrings and the way lines are broken have no part in it, and neither have the packages `apart`.
    """
    digest = hashlib.sha256()
    for module in sorted(_reached(roots, apart)):
        digest.update(f"{module}\0{_code_digest(_file(module))}".encode())
    for file in files:
        digest.update(_code_digest(file).encode())
    for package in FOUND_BY_LOOKING:
        digest.update(_data_digest(package).encode())
    return digest.hexdigest()[:12]


def _reached(roots: Iterable[str], apart: tuple[str, ...]) -> set[str]:
    waiting = [*roots, *(module for package in FOUND_BY_LOOKING for module in _modules_of(package))]
    found: set[str] = set()
    while waiting:
        module = waiting.pop()
        if module not in found and not any(f"{module}.".startswith(f"{each}.") for each in apart):
            found.add(module)
            waiting += _imports(module)
    return found


@cache
def _data_digest(package: str) -> str:
    """Of the figures that lie beside the code."""
    digest = hashlib.sha256()
    for file in sorted(_file(package).parent.rglob("*.json")):
        digest.update(str(file.relative_to(SRC)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


@cache
def _modules_of(package: str) -> list[str]:
    return [
        ".".join(file.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__")
        for file in _file(package).parent.rglob("*.py")
    ]


def _file(module: str) -> Path:
    place = SRC.joinpath(*module.split("."))
    return place / "__init__.py" if place.is_dir() else place.with_suffix(".py")


@cache
def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


@cache
def _imports(module: str) -> tuple[str, ...]:
    """What the module imports of this project, wherever in it, and the packages around that."""
    named: list[str] = []
    for node in ast.walk(_tree(_file(module))):
        if isinstance(node, ast.Import):
            named += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            named += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    found = {}
    for name in named:
        parts = name.split(".")
        if parts[0] == "tt_cnn":
            around = [".".join(parts[:end]) for end in range(1, len(parts) + 1)]
            found |= dict.fromkeys(each for each in around if _file(each).is_file())
    return tuple(found)


@cache
def _code_digest(file: Path) -> str:
    """Of the file as a tree without docstrings: strings that stand alone belong to what is above them."""
    tree = _tree(file)
    for node in ast.walk(tree):
        if isinstance(node, Defined):
            node.body = [line for line in node.body if not _is_text(line)]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()


def _is_text(line: ast.stmt) -> bool:
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant) and isinstance(line.value.value, str)
