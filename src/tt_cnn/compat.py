"""`import ttnn` gives the virtual card, so that code written for TT-NN runs unmodified.

import tt_cnn.compat
tt_cnn.compat.install()
import ttnn                                # the virtual card
from ttnn.types import TensorMemoryLayout  # and its submodules
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType

from tt_cnn.runtime import VIRTUAL


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Answers imports of `ttnn` and `ttnn.*` with the virtual card's modules, which keep their own names and specs."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != "ttnn" and not name.startswith("ttnn."):
            return None
        ours = _ours(name)
        if ours == VIRTUAL or importlib.util.find_spec(ours) is not None:
            return importlib.machinery.ModuleSpec(name, self)
        _refuse_missing(name)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = importlib.import_module(_ours(spec.name))
        self._own = (module.__spec__, module.__loader__)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """It ran when it was first imported; the import machinery put this finder's spec on it, which is undone."""
        module.__spec__, module.__loader__ = self._own


def _ours(name: str) -> str:
    return VIRTUAL + name[len("ttnn") :]


def _refuse_missing(name: str) -> None:
    from tt_cnn.virtual.ttnn.missing import VERSION, MissingModule, real_names

    if real_names().get(name.removeprefix("ttnn.")) == "module":
        raise MissingModule(f"{name} is a module of TT-NN {VERSION} that the virtual card does not have yet", name=name)


_finder = _Finder()


def installed() -> bool:
    return _finder in sys.meta_path


def install(force: bool = False) -> None:
    """Make `import ttnn` give the virtual card from here on. Doing it twice is harmless.

    Refused when the real TT-NN is imported already: modules that hold it would go on using it. `force` takes its place
    for imports that come after.
    """
    if installed():
        return
    present = sys.modules.get("ttnn")
    if present is not None and present.__name__ != VIRTUAL and not force:
        raise RuntimeError(
            "the real ttnn is imported already, so code that holds it would not change; call tt_cnn.compat.install() "
            "before the first `import ttnn`, or install(force=True) to change only the imports that follow"
        )
    _replaced.update(_take_away())
    sys.meta_path.insert(0, _finder)


def uninstall() -> None:
    """Undo `install`: `import ttnn` gives what it gave before. Doing it twice is harmless."""
    if not installed():
        return
    sys.meta_path.remove(_finder)
    _take_away()
    sys.modules.update(_replaced)
    _replaced.clear()


_replaced: dict[str, ModuleType] = {}
"""Modules of the real library that `install(force=True)` put aside."""


def _take_away() -> dict[str, ModuleType]:
    names = [name for name in sys.modules if name == "ttnn" or name.startswith("ttnn.")]
    return {name: sys.modules.pop(name) for name in names}
