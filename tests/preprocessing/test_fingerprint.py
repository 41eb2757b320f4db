# SPDX-License-Identifier: Apache-2.0
"""The key of cached parameters sees what they are made from, is the same in every run, and says what it cannot see."""

from __future__ import annotations

import functools
import os
import random
import subprocess
import sys
import threading
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tt_cnn import ttnn
from tt_cnn.models import create_reference, list_models
from tt_cnn.preprocessing import preprocess_model_parameters
from tt_cnn.preprocessing.fingerprint import NotCacheable, fingerprint


def key(preprocessor: Any = None, model: nn.Module | None = None) -> str:
    return fingerprint(model or nn.ReLU(), {"custom_preprocessor": preprocessor})


def project(text: str, name: str = "somebodys_project") -> Any:
    """A module of a user's, as its file makes it."""
    module = types.ModuleType(name)
    module.__file__ = f"/home/somebody/{name}.py"
    sys.modules[name] = module
    exec(compile(text, module.__file__, "exec"), module.__dict__)
    return module


@pytest.fixture(autouse=True)
def projects_are_forgotten() -> Iterator[None]:
    yield
    for name in ("somebodys_project", "somebodys_helpers"):
        sys.modules.pop(name, None)


PROJECT = """
import functools
import somebodys_helpers
from somebodys_helpers import Mixin, scaled

SCALE = 2
NESTED = {"a": [{"b": [(1, [{"c": [1]}])]}]}
OPTIONS = {"names": {"x", "y"}}

class Base:
    factor = 3
    def apply(self, x):
        return x * self.factor

class Worker(Base, Mixin):
    @property
    def half(self):
        return 0.5
    @staticmethod
    def third(x):
        return x / 3

def decorated(function):
    @functools.wraps(function)
    def inner(*arguments):
        return function(*arguments)
    return inner

@decorated
def helper(x):
    return deeper(x) + 1

def deeper(x):
    return x - 1

@functools.lru_cache
def kept(x):
    return x + 5

def local(x):
    from somebodys_helpers import late
    return late(x)

TABLE = [lambda x: x + 7]
worker = Worker()

def preprocessor(model, name, extra=9, *, more=10):
    def inside():
        return SCALE * helper(1) + somebodys_helpers.offset(2) + NESTED["a"][0]["b"][0][0]
    if name in {"conv", "norm", "head"}:
        return {"x": inside() + worker.apply(3) + worker.half + TABLE[0](1) + kept(1) + local(2) + scaled(OPTIONS)}
"""
HELPERS = """
LIMIT = 4
UNUSED = 1

class Mixin:
    def more(self):
        return 1

def offset(x):
    return min(x, LIMIT)

def scaled(x):
    return x

def late(x):
    return x + 11
"""
CHANGES = {
    "a global": ("SCALE = 2", "SCALE = 3"),
    "a nested global": ('"c": [1]', '"c": [2]'),
    "a set": ('{"x", "y"}', '{"x", "z"}'),
    "a helper behind a decorator": ("deeper(x) + 1", "deeper(x) + 2"),
    "a helper's helper": ("return x - 1", "return x - 2"),
    "a function with a cache": ("x + 5", "x + 6"),
    "a function in a table": ("x + 7", "x + 8"),
    "a default": ("extra=9", "extra=8"),
    "a keyword's default": ("more=10", "more=11"),
    "a class's attribute": ("factor = 3", "factor = 4"),
    "a method": ("x * self.factor", "x + self.factor"),
    "a property": ("return 0.5", "return 0.25"),
    "a static method": ("x / 3", "x / 4"),
    "a constant of the code": ('"norm"', '"bias"'),
    "a function of a module": ("min(x, LIMIT)", "max(x, LIMIT)"),
    "a global of a module": ("LIMIT = 4", "LIMIT = 5"),
    "a base of a class": ("return 1\n\ndef offset", "return 2\n\ndef offset"),
    "what is imported in a function": ("x + 11", "x + 12"),
}


def of_project(old: str = "", new: str = "") -> str:
    project(HELPERS.replace(old, new) if old else HELPERS, "somebodys_helpers")
    return key(project(PROJECT.replace(old, new) if old else PROJECT).preprocessor)


@pytest.mark.parametrize("change", CHANGES)
def test_the_code_of_a_preprocessor(change: str) -> None:
    old, new = CHANGES[change]
    assert (PROJECT + HELPERS).count(old) == 1
    before = of_project()
    assert of_project(old, new) != before
    assert of_project() == before


def test_names_that_are_made_up_when_a_function_runs() -> None:
    text = "import somebodys_helpers\ndef preprocessor(model, name):\n    return getattr(somebodys_helpers, name)\n"
    found = set()
    for unused in ("UNUSED = 1", "UNUSED = 2"):
        project(HELPERS.replace("UNUSED = 1", unused), "somebodys_helpers")
        found.add(key(project(text).preprocessor))
    assert len(found) == 2


def test_the_dtype_of_new_tensors() -> None:
    before = key()
    torch.set_default_dtype(torch.float64)
    try:
        assert key() != before
    finally:
        torch.set_default_dtype(torch.float32)


def test_installed_packages_are_not_followed() -> None:
    text = "LIMIT = [1]\ndef preprocessor(model, name):\n    return LIMIT\n"
    keys = set()
    for folder in ("/home/a/.local/lib/python3/site-packages", "/usr/lib/python3/dist-packages", "/home/a/project"):
        for value in "12":
            names: dict[str, Any] = {"__name__": "somebodys_project"}
            exec(compile(text.replace("1", value), f"{folder}/somebodys.py", "exec"), names)
            keys.add(key(names["preprocessor"]))
    assert len(keys) == 3, "one for both sites, whose file is not there, and two for the project"


def test_packages_that_a_function_would_import_are_left_alone() -> None:
    names = ("no_such_package", "no_such_package.inner", "xmlrpc.server", "lib2to3.pgen2")
    text = "".join(f"def f{i}(model, name):\n    import {name}\n" for i, name in enumerate(names))
    made = project(text)
    assert len({key(getattr(made, f"f{i}")) for i in range(len(names))}) == len(names)
    assert "xmlrpc.server" not in sys.modules


def test_what_is_not_used_does_not_count() -> None:
    assert of_project("UNUSED = 1", "UNUSED = 2") == of_project()
    assert of_project("\nSCALE = 2", "\n\n\nSCALE = 2") == of_project(), "lines may move"


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 2, 1)
        self.register_buffer("steps", torch.ones(3), persistent=False)
        self.settings = {"deep": [[[[[[[1]]]]]]]}
        self.alpha = 0.5

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x) * self.alpha


def change_weight(model: Any) -> None:
    model.conv.weight.data[0] += 1


def change_buffer(model: Any) -> None:
    model.steps[1] = 2


def change_attribute(model: Any) -> None:
    model.alpha = 0.25


def change_nested(model: Any) -> None:
    model.settings["deep"][0][0][0][0][0][0][0] = 2


def change_inner_attribute(model: Any) -> None:
    model.conv.scale = 2


def change_tensor_attribute(model: Any) -> None:
    model.conv.weight.scale = 2


def change_hook(model: Any) -> None:
    model.conv.register_forward_hook(lambda module, inputs, output: output)


def change_padding(model: Any) -> None:
    model.conv.padding = (1, 1)


CHANGES_OF_A_MODEL = (
    change_weight, change_buffer, change_attribute, change_nested, change_inner_attribute, change_tensor_attribute,
    change_hook, change_padding,
)  # fmt: skip


@pytest.mark.parametrize("change", CHANGES_OF_A_MODEL)
def test_all_that_a_model_holds(change: Callable[[Any], None]) -> None:
    def made() -> Network:
        torch.manual_seed(0)
        return Network()

    model = made()
    before = key(model=model)
    assert key(model=made()) == before
    change(model)
    assert key(model=model) != before


def test_what_a_model_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batch norms are folded by what `forward` does."""
    model = Network()
    before = key(model=model)
    monkeypatch.setattr(Network, "forward", lambda self, x: self.conv(x))
    assert key(model=model) != before


def test_closures_of_closures() -> None:
    def outer(value: Any) -> Any:
        def middle() -> Any:
            return value

        def preprocessor(model: nn.Module, name: str) -> Any:
            return middle()

        return preprocessor

    values = [1, 2, 1.0, True, "1", [1], (1,), {1}, {1: 1}, torch.ones(1), torch.ones(1, 1), len, nn.ReLU, None]
    keys = [key(outer(value)) for value in values]
    assert len(set(keys)) == len(values)
    kinds: list[Any] = [defaultdict(int), defaultdict(list), OrderedDict(), {}, Counter(), deque(), deque(maxlen=1)]
    assert len({key(outer(value)) for value in kinds}) == len(kinds)
    ring: list[Any] = []
    ring.append(ring)
    assert key(outer(ring)) == key(outer(ring))
    deep: Any = 1
    for _ in range(20_000):
        deep = [deep]
    assert key(outer(deep)) != key(outer([deep]))


class InItsOwnSet:
    def __init__(self) -> None:
        self.all = {self}


@pytest.mark.parametrize(
    ("use", "why"),
    [
        ("threading.Lock()", "a lock, and what it holds cannot be seen"),
        ("(i for i in [1])", "a generator"),
        ("InItsOwnSet()", "a set holds itself"),
        ("open(os.devnull)", "TextIOWrapper"),
        ("torch.ones(2).to_sparse()", "the values of held in .* cannot be seen"),
    ],
)
def test_what_hides_itself_is_not_cached(use: str, why: str) -> None:
    held = eval(use, {"threading": threading, "os": os, "torch": torch, "InItsOwnSet": InItsOwnSet})
    with pytest.raises(NotCacheable, match=why):
        key(lambda model, name: held)


def from_a_file(model: nn.Module, name: str) -> Any:
    with open("numbers.txt") as file:
        return {"x": float(file.read())}


def from_the_environment(model: nn.Module, name: str) -> Any:
    return {"x": float(os.environ["NUMBER"])}


def from_chance(model: nn.Module, name: str) -> Any:
    return {"x": random.random()}


def from_a_call(model: nn.Module, name: str) -> Any:
    return from_a_file(model, name)


@pytest.mark.parametrize("preprocessor", [from_a_file, from_the_environment, from_chance, from_a_call])
def test_what_comes_from_outside_is_not_cached_and_said(
    preprocessor: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "numbers.txt").write_text("1")
    monkeypatch.setenv("NUMBER", "1")
    preprocess_model_parameters(
        initialize_model=nn.ReLU, custom_preprocessor=preprocessor, cache_dir=tmp_path / "cache"
    )
    assert "are not cached: from_" in caplog.text and not (tmp_path / "cache").exists()


SCALE = 1.0


def scaling(model: nn.Module, name: str) -> Any:
    return {"x": torch.full((2,), SCALE)}


def test_the_answer_is_not_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for scale in (1.0, 2.0):
        monkeypatch.setitem(globals(), "SCALE", scale)
        made = preprocess_model_parameters(initialize_model=nn.ReLU, custom_preprocessor=scaling, cache_dir=tmp_path)
        assert made.x[0] == scale


IN_ANOTHER_PROCESS = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import torch
from torch import nn
from somebodys_project import preprocessor
from tt_cnn.preprocessing.fingerprint import fingerprint
torch.manual_seed(0)
print(fingerprint(nn.Sequential(nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2)), {"custom_preprocessor": preprocessor}))
"""


def test_it_is_the_same_in_every_process(tmp_path: Path) -> None:
    (tmp_path / "somebodys_project.py").write_text(PROJECT)
    (tmp_path / "somebodys_helpers.py").write_text(HELPERS)
    found = set()
    for seed in "12":
        command = [sys.executable, "-c", IN_ANOTHER_PROCESS, str(tmp_path)]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        found.add(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert len(found) == 1


@pytest.mark.parametrize("name", list_models())
def test_every_model_has_a_key(name: str) -> None:
    """Nothing that the models hold or refer to is hidden."""
    assert key(model=create_reference(name, seed=0))


def test_devices_and_tensors_that_a_preprocessor_holds() -> None:
    def preprocessor(held: Any) -> Any:
        return functools.partial(lambda model, name, held: None, held=held)

    tensors = [ttnn.from_torch(torch.full((32, 32), value), dtype=ttnn.bfloat16) for value in (1.0, 2.0, 1.0)]
    one, two, again = (key(preprocessor(tensor)) for tensor in tensors)
    assert one == again != two
    keys = []
    for card in ("n150", "p150", "n150"):
        device = ttnn.open_device(device_id=0, card=card)
        keys.append(key(preprocessor(device)))
        ttnn.close_device(device)
    assert keys[0] == keys[2] != keys[1]
