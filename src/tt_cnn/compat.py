# SPDX-License-Identifier: Apache-2.0
"""`import ttnn` gives the virtual card, so that code written for TT-NN runs unmodified.

    import tt_cnn.compat
    tt_cnn.compat.install()
    import ttnn                                # the virtual card
    from ttnn.types import TensorMemoryLayout  # and its submodules

`install(everything=True)` also makes the modules of TT-CNN and its test helpers (`models.tt_cnn.tt.builder`,
`tests.ttnn.utils_for_testing`, ...) give ours; `install(everything="missing")` those that are not on the path.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Literal

from tt_cnn.runtime import VIRTUAL

Everything = bool | Literal["missing"]

BESIDE_THE_CARD = {
    "ttnn.model_preprocessing": "tt_cnn.preprocessing.as_ttnn",
    "ttnn.torch_tracer": "tt_cnn.preprocessing.torch_tracer",
    "ttnn.dot_access": "tt_cnn.preprocessing.dot_access",
}
"""Modules of TT-NN that are no part of the card, so that the virtual one does not have them."""

EVERYTHING = {
    "models.tt_cnn.tt.builder": "tt_cnn.builder",
    "models.tt_cnn.tt.pipeline": "tt_cnn.pipeline",
    "models.tt_cnn.tt.executor": "tt_cnn.pipeline.executors",
    "models.tt_cnn.tt.testing": "tt_cnn.testing",
    "models.common.utility_functions": "tt_cnn.testing.utility_functions",
    "models.utility_functions": "tt_cnn.testing.utility_functions",
    "models.common.lightweightmodule": "tt_cnn.testing.lightweightmodule",
    "tests.ttnn.utils_for_testing": "tt_cnn.testing.utils_for_testing",
}
"""Modules of TT-CNN and the helpers that its tests import, imported from us only when they are asked for."""

_PARENTS = {".".join(name.split(".")[:depth]) for name in EVERYTHING for depth in range(1, name.count(".") + 1)}


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Answers imports with modules of ours, which keep their own names and specs."""

    everything: Everything = False

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name in EVERYTHING:
            return importlib.machinery.ModuleSpec(name, self) if self.everything is True else None
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
        if module.__name__ == VIRTUAL:  # `import ttnn` alone gives its submodules too
            for name, ours in BESIDE_THE_CARD.items():
                setattr(module, name.removeprefix("ttnn."), importlib.import_module(ours))


class _Parents(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Empty packages above the modules of `EVERYTHING`, asked last: a folder of that name on the path comes first.

    So do modules where only missing ones are asked for.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name in EVERYTHING:
            return importlib.machinery.ModuleSpec(name, _finder)
        if name == "loguru":
            raise ModuleNotFoundError(
                "No module named 'loguru': TT-CNN's own sources and TT-NN's demos write their log with it; "
                "pip install 'tt-cnn[compat]'",
                name=name,
            )
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name in _PARENTS else None

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is in it."""


def _is_ours(module: ModuleType) -> bool:
    return module.__name__.startswith("tt_cnn.")


def _ours(name: str) -> str:
    return BESIDE_THE_CARD.get(name) or EVERYTHING.get(name) or VIRTUAL + name[len("ttnn") :]


def _refuse_missing(name: str) -> None:
    from tt_cnn.virtual.ttnn.missing import VERSION, MissingModule, real_names

    if real_names().get(name.removeprefix("ttnn.")) == "module":
        raise MissingModule(f"{name} is a module of TT-NN {VERSION} that the virtual card does not have yet", name=name)


_finder = _Finder()
_parents = _Parents()


def installed() -> bool:
    return _finder in sys.meta_path


def install(force: bool = False, *, everything: Everything = False) -> None:
    """Make `import ttnn` give the virtual card from here on. Doing it twice is harmless.

    Refused when the real TT-NN is imported already: modules that hold it would go on using it. `force` takes its place
    for imports that come after. With `everything`, TT-CNN's own modules and test helpers give ours too, all of them
    (True) or those that the path does not have ("missing"): a folder with its own helpers keeps them.
    """
    if not installed():
        present = sys.modules.get("ttnn")
        if present is not None and present.__name__ != VIRTUAL and not force:
            raise RuntimeError(
                "the real ttnn is imported already, so code that holds it would not change; call "
                "tt_cnn.compat.install() before the first `import ttnn`, or install(force=True) to change only the "
                "imports that follow"
            )
        _replaced.update(_take_away("ttnn"))
        sys.meta_path.insert(0, _finder)
    if everything and not _finder.everything:
        if everything is True:
            for name in EVERYTHING:
                _replaced.update(_take_away(name))
        _finder.everything = everything
        sys.meta_path.append(_parents)


def uninstall() -> None:
    """Undo `install`: `import ttnn` gives what it gave before. Doing it twice is harmless."""
    if not installed():
        return
    sys.meta_path.remove(_finder)
    _take_away("ttnn")
    _forget_submodules()
    if _finder.everything:
        _finder.everything = False
        sys.meta_path.remove(_parents)
        for name in [each for each in EVERYTHING if each in sys.modules and _is_ours(sys.modules[each])]:
            _take_away(name)
        for name in _PARENTS & set(sys.modules):
            if isinstance(sys.modules[name].__loader__, _Parents):
                del sys.modules[name]
    sys.modules.update(_replaced)
    _replaced.clear()


_replaced: dict[str, ModuleType] = {}
"""Modules that were imported before and put aside."""


def _take_away(package: str) -> dict[str, ModuleType]:
    names = [name for name in sys.modules if name == package or name.startswith(f"{package}.")]
    return {name: sys.modules.pop(name) for name in names}


def _forget_submodules() -> None:
    """The virtual card by its own name has no modules from beside it."""
    card = sys.modules.get(VIRTUAL)
    for name in BESIDE_THE_CARD:
        vars(card or ModuleType("")).pop(name.removeprefix("ttnn."), None)
