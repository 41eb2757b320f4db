# SPDX-License-Identifier: Apache-2.0
"""pytest plugin with the fixtures that TT-NN's users know: `pytest -p tt_cnn.testing.plugin`.

--ttnn-runtime virtual|ttnn|auto   which TT-NN is in use
--card n150|n300|p150|p100         the card that the virtual one imitates
--compat off|ttnn|all              make `import ttnn` (and `models.tt_cnn...`) give this library
--device-id N                      the chip that the `device` fixture opens

Nothing of TT-NN is imported before the options are read.
"""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tt_cnn import compat, runtime

SEED = 213919
"""The one that TT-NN's own tests use."""
MODELS = "TT_CNN_MODELS"
"""A folder with weights, for `model_location_generator`."""
_before: dict[str, str | None] = {}
_compat_was = ""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tt-cnn")
    group.addoption("--ttnn-runtime", choices=runtime.CHOICES, help="which TT-NN to use")
    group.addoption("--card", help="the card that the virtual one imitates: n150, n300, p150, p100, p150-13x10, ...")
    group.addoption("--compat", choices=("off", "ttnn", "all"), default="off", help="what resolves to this library")
    group.addoption("--device-id", type=int, default=0, help="the chip that the device fixture opens")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Before a conftest imports anything."""
    _apply(early_config.known_args_namespace)


def pytest_configure(config: pytest.Config) -> None:
    """Again, for runs in which the plugin came too late for the hook above."""
    _apply(config.option)


def pytest_report_header() -> str:
    return f"tt-cnn: {runtime.describe()}"


def pytest_unconfigure() -> None:
    for name, value in _before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    if _before:
        _before.clear()
        runtime.select.cache_clear()
    global _compat_was
    if _compat_was:
        _compat_was = ""
        compat.uninstall()


def _apply(options: Any) -> None:
    mode = getattr(options, "compat", "off")
    if mode != "off" and getattr(options, "ttnn_runtime", None) == "ttnn":
        raise pytest.UsageError(
            f"--compat {mode} makes `import ttnn` give the virtual card, so it cannot go with --ttnn-runtime ttnn"
        )
    asked = {
        runtime.VARIABLE: getattr(options, "ttnn_runtime", None),
        "TT_CNN_CARD": getattr(options, "card", None),
    }
    for name, value in asked.items():
        if value is not None and os.environ.get(name) != value:
            _before.setdefault(name, os.environ.get(name))
            os.environ[name] = value
            runtime.select.cache_clear()
    global _compat_was
    if mode != "off" and mode != _compat_was:
        compat.install(everything=mode == "all")
        _compat_was = mode


def _ttnn() -> ModuleType:
    """The TT-NN in use, chosen only now."""
    return runtime.select()


@contextmanager
def _timed(device: Any) -> Iterator[None]:
    """Where `run_device_perf_test` asked for it, note how long the device works."""
    file = os.environ.get("TT_CNN_DEVICE_TIME")
    if not file:
        yield
        return
    from tt_cnn.testing.device_time import DeviceTime, measured

    noted = json.loads(Path(file).read_text()) if Path(file).exists() else {}
    total = DeviceTime(**noted)
    with measured(device, total):
        yield
    Path(file).write_text(json.dumps(vars(total)))


@pytest.fixture
def device_params(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Arguments for opening the device, given with `parametrize(..., indirect=True)`."""
    return dict(getattr(request, "param", None) or {})


@pytest.fixture
def device(request: pytest.FixtureRequest, device_params: dict[str, Any]) -> Iterator[Any]:
    """An open device; the default one for the length of the test."""
    ttnn = _ttnn()
    opened = ttnn.CreateDevice(device_id=request.config.getoption("device_id"), **device_params)
    try:
        before = ttnn.GetDefaultDevice()
        ttnn.SetDefaultDevice(opened)
        with _timed(opened):
            yield opened
        ttnn.SetDefaultDevice(before)
    finally:
        ttnn.close_device(opened)


@pytest.fixture
def mesh_device(request: pytest.FixtureRequest, device_params: dict[str, Any]) -> Iterator[Any]:
    """An open mesh: its parameter is a number of devices or (rows, columns); all devices of the card without one."""
    ttnn = _ttnn()
    asked = getattr(request, "param", None)
    shape = (1, ttnn.get_num_devices()) if asked is None else (1, asked) if isinstance(asked, int) else tuple(asked)
    wanted, available = shape[0] * shape[1], ttnn.GetNumAvailableDevices()
    if wanted > available:
        pytest.skip(f"Requested more devices ({wanted}) than available ({available}). Test not applicable for machine")
    opened = ttnn.open_mesh_device(mesh_shape=ttnn.MeshShape(*shape), **device_params)
    try:
        with _timed(opened):
            yield opened
    finally:
        ttnn.close_mesh_device(opened)


@pytest.fixture
def use_program_cache(request: pytest.FixtureRequest) -> None:
    """Turn the program cache on. It is on from the start in current TT-NN; tests of earlier ones ask for it."""
    for name in ("device", "mesh_device"):
        if name in request.fixturenames:
            request.getfixturevalue(name).enable_program_cache()


@pytest.fixture
def reset_seeds() -> None:
    """The same random numbers in every run."""
    import numpy
    import torch

    torch.manual_seed(SEED)
    numpy.random.seed(SEED)
    random.seed(SEED)


@pytest.fixture(scope="session")
def model_location_generator() -> Callable[..., Path | str]:
    """Where a model's weights are: in the folder that TT_CNN_MODELS names, or the model's own name where it is not."""

    def locate(model_version: str, model_subdir: str = "", **_: Any) -> Path | str:
        folder = os.environ.get(MODELS)
        place = Path(folder, model_subdir, model_version) if folder else None
        return place if place is not None and place.exists() else model_version

    return locate


@pytest.fixture(scope="session")
def is_ci_env() -> bool:
    return os.environ.get("CI") == "true"


@pytest.fixture
def expect_error() -> Callable[..., Any]:
    """`with expect_error(RuntimeError, "text"):`"""

    def expect(kind: type[BaseException], message: str | re.Pattern[str]) -> Any:
        return pytest.raises(kind, match=message)

    return expect
