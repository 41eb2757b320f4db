# SPDX-License-Identifier: Apache-2.0
"""What may import what: the tables of docs/architecture.md, compared with the sources."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "tt_cnn"
GUIDE = ROOT / "docs" / "architecture.md"


@cache
def modules() -> dict[str, Path]:
    """Files by the names of their modules, without `tt_cnn.`"""
    found = {}
    for path in SOURCES.rglob("*.py"):
        parts = path.relative_to(SOURCES).with_suffix("").parts
        found[".".join(parts if parts == ("__init__",) or parts[-1] != "__init__" else parts[:-1])] = path
    return found


def imported(tree: ast.AST) -> Iterator[str]:
    """Our own modules that a file imports, at its top, inside functions and for annotations."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "we import by whole names"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            if name.split(".")[0] == "tt_cnn":
                inner = name.removeprefix("tt_cnn").removeprefix(".")
                while inner and inner not in modules():
                    inner = inner.rpartition(".")[0]
                yield inner or "__init__"


@cache
def imports() -> dict[str, frozenset[str]]:
    return {name: frozenset(imported(ast.parse(path.read_text()))) - {name} for name, path in modules().items()}


def rows(title: str) -> list[list[str]]:
    """The table under a heading of the guide, without quotes."""
    section = re.split(r"^#+ ", GUIDE.read_text(), flags=re.MULTILINE)
    text = next(part for part in section if part.startswith(title))
    cells = [
        [cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in text.splitlines() if "|" in line
    ]
    return cells[2:]


def level_of(module: str, levels: dict[str, int]) -> tuple[str, int]:
    """The row of the package that a module belongs to: the longest name that fits."""
    found = [name for name in levels if fnmatchcase(module, name) or fnmatchcase(module, f"{name}.*")]
    assert found, f"{module} is in no row of {GUIDE.name}"
    longest = max(found, key=len)
    return longest, levels[longest]


def allowed() -> list[tuple[str, str]]:
    return [(module, target) for module, target, _ in rows("Exceptions")]


def excepted(module: str, target: str) -> bool:
    return any(fnmatchcase(module, a) and fnmatchcase(target, b) for a, b in allowed())


@pytest.mark.parametrize(("title", "prefix"), [("`tt_cnn`\n", ""), ("`tt_cnn.virtual`\n", "virtual.")])
def test_imports_point_down(title: str, prefix: str) -> None:
    levels = {package: int(level) for level, package, _ in rows(title)}
    inside = {name: name.removeprefix(prefix) for name in modules() if name.startswith(prefix)}
    wrong = []
    for name, short in inside.items():
        package, level = level_of(short, levels)
        for target in imports()[name] & inside.keys():
            other, below = level_of(inside[target], levels)
            if other != package and below >= level and not excepted(name, target):
                wrong.append(f"{name} (level {level}) imports {target} (level {below})")
    assert not wrong, "\n".join(sorted(wrong))
    unused = [
        package for package in levels if not any(level_of(short, levels)[0] == package for short in inside.values())
    ]
    assert not unused, f"{GUIDE.name} names packages that are not there: {unused}"


def test_no_module_is_part_of_a_cycle() -> None:
    graph = {name: {t for t in targets if not excepted(name, t)} for name, targets in imports().items()}
    left: set[str] = set()
    while left != graph.keys():  # without those that import none of the others, or that none of the others imports
        left = set(graph)
        used = set().union(*graph.values())
        graph = {name: targets & left for name, targets in graph.items() if targets & left and name in used}
    assert not graph, f"these import each other: {sorted(graph)}"


def test_every_exception_is_still_one() -> None:
    edges = [(name, target) for name, targets in imports().items() for target in targets]
    gone = [
        pair for pair in allowed() if not any(fnmatchcase(a, pair[0]) and fnmatchcase(b, pair[1]) for a, b in edges)
    ]
    assert not gone, f"no such imports any more: take them out of {GUIDE.name}"


def test_every_file_that_the_guide_names_is_there() -> None:
    text = GUIDE.read_text()
    names = re.findall(r"`([\w/]+\.py|src/[\w/]+)`", text)
    assert len(names) > 40
    assert not [name for name in names if not ((SOURCES / "virtual" / name).exists() or (ROOT / name).exists())]


@pytest.mark.parametrize("walk", ["One `ttnn.conv2d` call", "One replay of a trace"])
def test_a_walk_has_at_most_ten_stages(walk: str) -> None:
    stages = re.findall(r"^\d+\. ", GUIDE.read_text().split(f"## {walk}\n")[1].split("\n## ")[0], re.MULTILINE)
    assert 5 <= len(stages) <= 10
