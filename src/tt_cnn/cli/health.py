# SPDX-License-Identifier: Apache-2.0
"""The checks of `tt-cnn doctor`: each looks at one thing and changes nothing but the cache folder, which it makes."""

from __future__ import annotations

import platform
import re
import shutil
import sys
import warnings
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

import tt_cnn
from tt_cnn import cache_folder

State = Literal["ok", "missing", "broken"]
PACKAGE = "tt-cnn"
_CARDS = Path("/dev/tenstorrent")
"""Where the kernel's driver shows its cards."""
_HIDDEN_EXTRAS = frozenset({"dev"})
"""For the tests of TT-CNN itself."""


@dataclass(frozen=True)
class Check:
    name: str
    state: State
    found: str
    how: str = ""
    """The command that brings what is missing."""
    always_needed: bool = True
    asked_for: bool = False

    @property
    def failed(self) -> bool:
        """What is broken fails too where it is optional: it would be used."""
        return self.state == "broken" or (self.state == "missing" and (self.always_needed or self.asked_for))


@dataclass(frozen=True)
class Requirement:
    package: str
    at_least: str
    extra: str

    @property
    def installed(self) -> str:
        """Its version, or nothing."""
        try:
            return metadata.version(self.package)
        except metadata.PackageNotFoundError:
            return ""

    @property
    def fault(self) -> str:
        """`onnx is not installed`, `torch 2.1 is older than 2.6`, or nothing."""
        if not self.installed:
            return f"{self.package} is not installed"
        if _ordered(self.installed) < _ordered(self.at_least):
            return f"{self.package} {self.installed} is older than {self.at_least}"
        return ""


def examine(asked_for: frozenset[str] = frozenset()) -> list[Check]:
    requirements = _requirements()
    checks = [
        _version(),
        _python(),
        _packages(requirements),
        _runtime(),
        _cache(),
        _card("card" in asked_for),
        _compiler("compiler" in asked_for),
        _gpu("gpu" in asked_for),
        _graphviz("graphviz" in asked_for),
    ]
    extras = dict.fromkeys(one.extra for one in requirements if one.extra and one.extra not in _HIDDEN_EXTRAS)
    return checks + [_extra(name, requirements, name in asked_for) for name in extras]


def _version() -> Check:
    try:
        return Check("tt-cnn", "ok", f"{metadata.version(PACKAGE)}, imitating TT-NN 0.81.1")
    except metadata.PackageNotFoundError:
        where = Path(tt_cnn.__file__).parent
        return Check("tt-cnn", "missing", f"imported from {where}, not installed", f"pip install {PACKAGE}")


def _python() -> Check:
    found = f"{platform.python_version()} in {sys.prefix}"
    return Check("python", "ok", found)


def _packages(requirements: list[Requirement]) -> Check:
    own = [one for one in requirements if not one.extra]
    faults = [one.fault for one in own if one.fault]
    if faults:
        return Check("packages", "broken", ", ".join(faults), f"pip install --upgrade {PACKAGE}")
    return Check("packages", "ok", ", ".join(f"{one.package} {one.installed}" for one in own))


def _runtime() -> Check:
    from tt_cnn import runtime

    try:
        return Check("runtime", "ok", runtime.describe())
    except (ValueError, RuntimeError, ImportError) as error:
        how = f"unset {runtime.VARIABLE}, or set it to auto, virtual or ttnn"
        return Check("runtime", "broken", str(error), how)


def _cache() -> Check:
    wanted = cache_folder.place()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        cache_folder.folder()
    if said:
        return Check("cache folder", "broken", str(said[0].message), f"export {cache_folder.VARIABLE}=DIR")
    size = sum(path.stat().st_size for path in wanted.rglob("*") if path.is_file())
    return Check("cache folder", "ok", f"{wanted} ({size / 1e6:.1f} MB)")


def _card(asked_for: bool) -> Check:
    from tt_cnn import runtime

    cards = sorted(path.name for path in _CARDS.iterdir()) if _CARDS.is_dir() else []
    if not cards:
        return Check("card", "missing", f"no card in {_CARDS}; the virtual card is used", "", False, asked_for)
    if runtime.real_ttnn() is None:
        found = f"{len(cards)} in {_CARDS}, but no module ttnn: the virtual card is used"
        return Check("card", "missing", found, "pip install ttnn", False, asked_for)
    return Check("card", "ok", f"{len(cards)} in {_CARDS}", always_needed=False)


def _compiler(asked_for: bool) -> Check:
    from tt_cnn.virtual.kernel_library import compiler

    program = compiler()
    if program is None:
        found = "no g++, c++ or program that CXX names: the card's roundings take several times longer"
        return Check("compiler", "missing", found, "apt-get install g++", False, asked_for)
    return Check("compiler", "ok", program, always_needed=False)


def _gpu(asked_for: bool) -> Check:
    import torch

    if torch.cuda.is_available():
        return Check("gpu", "ok", torch.cuda.get_device_name(0), always_needed=False)
    return Check("gpu", "missing", "torch sees no CUDA device: --engine cuda cannot be used", "", False, asked_for)


def _graphviz(asked_for: bool) -> Check:
    program = shutil.which("dot")
    if program is None:
        found = "no dot: graphs are drawn without it, less tidily"
        return Check("graphviz", "missing", found, "apt-get install graphviz", False, asked_for)
    return Check("graphviz", "ok", program, always_needed=False)


def _extra(name: str, requirements: list[Requirement], asked_for: bool) -> Check:
    own = [one for one in requirements if one.extra == name]
    missing = [one.fault for one in own if one.fault]
    if missing:
        how = f"pip install '{PACKAGE}[{name}]'"
        return Check(name, "missing", ", ".join(missing), how, False, asked_for)
    return Check(name, "ok", ", ".join(f"{one.package} {one.installed}" for one in own), always_needed=False)


def _requirements() -> list[Requirement]:
    """As the installed package states them; none where it is not installed."""
    try:
        lines = metadata.requires(PACKAGE) or []
    except metadata.PackageNotFoundError:
        return []
    found = []
    for line in lines:
        name, marker = re.match(r"[A-Za-z0-9_.-]+", line), re.search(r"extra == [\"']([^\"']+)", line)
        version = re.search(r"[>=]=\s*([0-9][0-9.]*)", line.partition(";")[0])
        if name is not None and name[0] != PACKAGE:
            found.append(Requirement(name[0], version[1] if version else "0", marker[1] if marker else ""))
    return found


def _ordered(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0])[:4])
