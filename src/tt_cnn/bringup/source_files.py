# SPDX-License-Identifier: Apache-2.0
"""The user's own files that a model is made of, as they stand in the folder: a package that needs nothing beside it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class _Import:
    """One import of a file of the user's: what is to stand in its place, and which files it needs."""

    node: ast.Import | ast.ImportFrom
    relative: str
    """Empty where it may stay as it is."""
    files: tuple[Path, ...]


def source_files(file: Path, root: Path) -> dict[str, bytes]:
    """The file and all files under the root that it imports, by their paths from there.

    Imports by whole names become relative ones, since the root will be a package.
    """
    found: dict[str, bytes] = {}
    waiting = [file, *_packages(file, root)]
    while waiting:
        path = waiting.pop()
        name = str(path.relative_to(root))
        if name in found:
            continue
        text = path.read_text(encoding="utf-8")
        imports = list(_local_imports(ast.parse(text), path, root))
        found[name] = _rewritten(text, imports).encode()
        for each in imports:
            waiting += each.files
            waiting += [above for needed in each.files for above in _packages(needed, root)]
    return found


def _packages(file: Path, root: Path) -> list[Path]:
    """`__init__.py` of the packages that a file is in, those of the root aside."""
    folders = [folder for folder in file.parents if root in folder.parents]
    return [folder / "__init__.py" for folder in folders if (folder / "__init__.py").is_file()]


def _local_imports(tree: ast.AST, file: Path, root: Path) -> Iterator[_Import]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            base = file.parents[node.level - 1] if node.level else root
            files = _needed(base, node)
            if files:
                yield _Import(node, "" if node.level else _relative(node, file, root), files)
        elif isinstance(node, ast.Import):
            files = tuple(path for alias in node.names if (path := _module(root, alias.name)) is not None)
            if files:
                yield _Import(node, _plain(node, file, root), files)


def _needed(base: Path, node: ast.ImportFrom) -> tuple[Path, ...]:
    """The module, and those of its names that are modules too."""
    found = [_module(base, node.module)] if node.module else []
    prefix = f"{node.module}." if node.module else ""
    if node.level or (found and found[0] is not None) or node.module is None:
        found += [_module(base, prefix + alias.name) for alias in node.names]
    return tuple(path for path in found if path is not None)


def _module(base: Path, name: str) -> Path | None:
    path = base.joinpath(*name.split("."))
    for file in (path.with_name(path.name + ".py"), path / "__init__.py"):
        if file.is_file():
            return file
    return None


def _relative(node: ast.ImportFrom, file: Path, root: Path) -> str:
    names = ", ".join(f"{a.name} as {a.asname}" if a.asname else a.name for a in node.names)
    return f"from {_dots(file, root)}{node.module} import {names}"


def _plain(node: ast.Import, file: Path, root: Path) -> str:
    lines = []
    for alias in node.names:
        if _module(root, alias.name) is None:
            lines.append(f"import {alias.name}" + (f" as {alias.asname}" if alias.asname else ""))
            continue
        package, _, name = alias.name.rpartition(".")
        if package and alias.asname is None:
            raise ValueError(
                f"{file.name}:{node.lineno}: import {alias.name} cannot be copied into the folder; write "
                f"from {package} import {name}, or import {alias.name} as {name}"
            )
        lines.append(
            f"from {_dots(file, root)}{package} import {name}" + (f" as {alias.asname}" if alias.asname else "")
        )
    return f"\n{' ' * node.col_offset}".join(lines)


def _dots(file: Path, root: Path) -> str:
    return "." * len(file.relative_to(root).parts)


def _rewritten(text: str, imports: list[_Import]) -> str:
    lines = text.splitlines(keepends=True)
    for each in sorted(imports, key=lambda one: one.node.lineno, reverse=True):
        if not each.relative:
            continue
        first, last = each.node.lineno - 1, (each.node.end_lineno or each.node.lineno) - 1
        before = lines[first].encode()[: each.node.col_offset].decode()
        after = lines[last].encode()[each.node.end_col_offset :].decode()
        lines[first : last + 1] = [before + each.relative + after]
    return "".join(lines)
