# SPDX-License-Identifier: Apache-2.0
"""`import ttnn` gives the virtual card after `tt_cnn.compat.install()`, and what it gave before after `uninstall()`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
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


def test_modules_beside_the_card_are_ours() -> None:
    from tt_cnn.preprocessing import as_ttnn, dot_access

    compat.install()
    namespace: dict[str, object] = {}
    exec(
        "import ttnn\n"
        "whole = ttnn.model_preprocessing\n"
        "from ttnn.model_preprocessing import fold_batch_norm2d_into_conv2d as fold\n"
        "from ttnn.dot_access import make_dot_access_dict as make\n",
        namespace,
    )
    assert namespace["whole"] is as_ttnn
    assert namespace["fold"] is as_ttnn.fold_batch_norm2d_into_conv2d
    assert namespace["make"] is dot_access.make_dot_access_dict
    assert as_ttnn.__spec__ is not None and as_ttnn.__spec__.name == "tt_cnn.preprocessing.as_ttnn"
    compat.uninstall()
    assert not hasattr(virtual, "model_preprocessing") and not hasattr(virtual, "dot_access")


def test_everything_is_ours_where_it_is_asked_for() -> None:
    compat.install()
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("models.tt_cnn.tt.builder")
    compat.install(everything=True)
    compat.install(everything=True)
    for name, ours in compat.EVERYTHING.items():
        assert importlib.import_module(name) is importlib.import_module(ours)
    namespace: dict[str, object] = {}
    exec(
        "from models.tt_cnn.tt.builder import Conv2dConfiguration, TtConv2d\n"
        "from models.tt_cnn.tt.executor import ModelExecutor\n"
        "from models.tt_cnn.tt.pipeline import PipelineConfig, create_pipeline_from_config\n"
        "from models.tt_cnn.tt.testing import create_random_input_tensor, verify_conv2d_from_config\n"
        "from models.common.utility_functions import comp_pcc, divup, is_wormhole_b0\n"
        "from tests.ttnn.utils_for_testing import assert_with_pcc\n",
        namespace,
    )
    from tt_cnn.testing import assert_with_pcc

    assert namespace["assert_with_pcc"] is assert_with_pcc
    compat.uninstall()
    assert not [name for name in sys.modules if name.startswith("models")]
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("models.tt_cnn.tt.builder")


def test_a_package_of_the_users_own_keeps_its_other_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "models" / "demos"
    package.mkdir(parents=True)
    (package / "mine.py").write_text("from models.tt_cnn.tt.builder import TtConv2d\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    compat.install(everything=True)
    from tt_cnn.builder import TtConv2d

    assert importlib.import_module("models.demos.mine").TtConv2d is TtConv2d
    for name in [name for name in sys.modules if name.startswith("models")]:
        del sys.modules[name]


def test_only_what_is_missing_is_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "models" / "common"
    package.mkdir(parents=True)
    (package / "utility_functions.py").write_text("mine = True\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    compat.install(everything="missing")
    from tt_cnn import builder

    assert importlib.import_module("models.common.utility_functions").mine
    assert importlib.import_module("models.tt_cnn.tt.builder") is builder
    compat.uninstall()
    assert "models.tt_cnn.tt.builder" not in sys.modules and "models.common.utility_functions" in sys.modules
    for name in [name for name in sys.modules if name.startswith("models")]:
        del sys.modules[name]
