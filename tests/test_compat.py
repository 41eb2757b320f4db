"""`import ttnn` gives the virtual card after `tt_cnn.compat.install()`, and what it gave before after `uninstall()`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from tt_cnn import compat
from tt_cnn.virtual import ttnn as virtual
from tt_cnn.virtual.ttnn.missing import MissingModule


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    compat.uninstall()
    yield
    compat.uninstall()
    sys.modules.pop("ttnn", None)


def test_imports_of_every_form() -> None:
    compat.install()
    namespace: dict[str, object] = {}
    exec(
        "import ttnn\n"
        "import ttnn.device\n"
        "import ttnn.types as types\n"
        "from ttnn import bfloat16, experimental\n"
        "from ttnn.types import TensorMemoryLayout\n"
        "from ttnn.device import Arch\n",
        namespace,
    )
    assert namespace["ttnn"] is virtual
    assert namespace["types"] is virtual.types
    assert namespace["experimental"] is virtual.experimental
    assert namespace["TensorMemoryLayout"] is virtual.TensorMemoryLayout
    assert namespace["Arch"] is virtual.device.Arch
    assert sys.modules["ttnn.device"] is virtual.device


def test_the_modules_keep_their_own_names_and_specs() -> None:
    compat.install()
    importlib.import_module("ttnn.core")
    for module in (virtual, virtual.core):
        assert module.__spec__ is not None and module.__spec__.name == module.__name__


def test_uninstall_undoes_it() -> None:
    compat.install()
    importlib.import_module("ttnn.types")
    compat.uninstall()
    assert not compat.installed()
    assert not [name for name in sys.modules if name == "ttnn" or name.startswith("ttnn.")]
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("ttnn")


def test_twice_is_harmless() -> None:
    compat.install()
    compat.install()
    assert sum(type(finder).__module__ == compat.__name__ for finder in sys.meta_path) == 1
    compat.uninstall()
    compat.uninstall()


def test_a_real_library_that_is_imported_is_respected() -> None:
    real = sys.modules["ttnn"] = ModuleType("ttnn")
    with pytest.raises(RuntimeError, match="imported already"):
        compat.install()
    assert not compat.installed() and sys.modules["ttnn"] is real


def test_force_takes_its_place_and_gives_it_back() -> None:
    real = sys.modules["ttnn"] = ModuleType("ttnn")
    compat.install(force=True)
    assert importlib.import_module("ttnn") is virtual
    compat.uninstall()
    assert sys.modules["ttnn"] is real


def test_a_submodule_that_is_not_there_yet_is_named() -> None:
    compat.install()
    with pytest.raises(MissingModule, match=r"ttnn\.tracer is a module of TT-NN 0\.81\.1") as caught:
        importlib.import_module("ttnn.tracer")
    assert isinstance(caught.value, NotImplementedError) and isinstance(caught.value, ModuleNotFoundError)
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'ttnn\.nonsense'"):
        importlib.import_module("ttnn.nonsense")


def test_other_imports_are_left_alone() -> None:
    compat.install()
    with pytest.raises(ModuleNotFoundError, match="ttnn_other"):
        importlib.import_module("ttnn_other")
