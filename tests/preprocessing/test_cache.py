# SPDX-License-Identifier: Apache-2.0
"""Converted parameters on disk: found again, never trusted."""

from __future__ import annotations

import functools
import logging
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from tt_cnn import ttnn
from tt_cnn.preprocessing import ParameterDict, ParameterList, cache, preprocess_model_parameters
from tt_cnn.preprocessing import model as model_module


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ModuleList([nn.Linear(8, 4)]))


@pytest.fixture
def walks(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """One entry for each time that a model is converted and not read."""
    made: list[Any] = []

    class Counting(model_module.Walk):
        def __post_init__(self) -> None:
            super().__post_init__()
            made.append(self)

    monkeypatch.setattr(model_module, "Walk", Counting)
    return made


def convert(model: nn.Module, folder: Path, **options: Any) -> Any:
    options = {"fold_batch_norm": False, **options}
    return preprocess_model_parameters(initialize_model=lambda: model, cache_dir=folder, **options)


def test_a_second_run_reads_what_the_first_wrote(model: nn.Module, tmp_path: Path, walks: list[Any]) -> None:
    first, second = convert(model, tmp_path), convert(model, tmp_path)
    assert len(walks) == 1
    (file,) = tmp_path.iterdir()
    assert file.name.startswith("Sequential-") and file.suffix == ".safetensors"
    assert repr(first) == repr(second) and isinstance(second[2], ParameterList)
    assert torch.equal(ttnn.to_torch(first[0].weight), ttnn.to_torch(second[0].weight))


@pytest.mark.parametrize("dtype", [ttnn.bfloat16, ttnn.float32, ttnn.bfloat8_b, ttnn.bfloat4_b])
def test_every_dtype_comes_back_bit_by_bit(tmp_path: Path, walks: list[Any], dtype: Any) -> None:
    linear = nn.Linear(40, 70)
    first, second = convert(linear, tmp_path, dtype=dtype), convert(linear, tmp_path, dtype=dtype)
    assert len(walks) == 1 and second.weight.dtype == dtype
    assert torch.equal(ttnn.to_torch(first.weight), ttnn.to_torch(second.weight))


def test_another_model_weight_or_option_is_another_file(model: nn.Module, tmp_path: Path, walks: list[Any]) -> None:
    def scaling(scale: int) -> Any:
        return lambda m, name: {"x": scale} if name == "2" else None

    convert(model, tmp_path)
    convert(model, tmp_path, dtype=ttnn.float32)
    convert(model, tmp_path, layout=ttnn.TILE_LAYOUT)
    convert(model, tmp_path, version="2")
    convert(model, tmp_path, custom_preprocessor=lambda m, name: None)
    convert(model, tmp_path, custom_preprocessor=lambda m, name: {} if name else None)
    for scale in (2, 3):
        convert(model, tmp_path, custom_preprocessor=scaling(scale))
    with torch.no_grad():
        model[0].bias[0] += 1  # type: ignore[index,union-attr,operator]
    convert(model, tmp_path)
    convert(nn.Sequential(*model.children()).append(nn.ReLU()), tmp_path)
    assert len(walks) == len(list(tmp_path.iterdir())) == 10


class Preprocessor:
    def __init__(self, scale: Any) -> None:
        self.scale = scale

    def __call__(self, model: nn.Module, name: str) -> None:
        return None

    def method(self, model: nn.Module, name: str) -> None:
        return None


def test_the_key_sees_what_a_preprocessor_holds() -> None:
    def key(option: Any) -> str:
        return cache.key_of(nn.ReLU(), {"option": option})

    held = [1, 2.0, "a", (1,), {"a": 1}, torch.ones(2), nn.Linear(1, 1), ttnn.bfloat16, ttnn.TILE_LAYOUT, {1}]
    for make in (Preprocessor, lambda x: Preprocessor(x).method, lambda x: functools.partial(max, x)):
        keys = [key(make(each)) for each in held]
        assert len(set(keys)) == len(held)
        assert keys == [key(make(each)) for each in held]
    deep: Any = [1]
    for _ in range(6):
        deep = [deep]
    assert key(deep) == key([[[[[[[1]]]]]]]) != key([[[[[[[2]]]]]]])
    assert key(object()) == key(object())

    def early() -> Any:
        return late

    assert key(early), "what it closes over is not there yet"
    late = 1
    assert late == early() and key(int) == key(int)


ODD_TREES = {
    "odd tree": '["dict", 7]',
    "a number": '["plain", 7]',
    "a list": '["list", []]',
    "no JSON": "{",
    "too deep": '["dict", ' * 50_000,
    "no dtype": '["dict", [["x", ["ttnn", "0", "INVALID", "TILE", false]]]]',
    "no such tensor": '["dict", [["x", ["torch", "9"]]]]',
    "not a tensor of that kind": '["dict", [["x", ["ttnn", "0", "UINT8", "TILE", "x"]]]]',
    "a key that is none": '["dict", [[["x"], ["plain", 1]]]]',
}


@pytest.mark.parametrize("harm", ["empty", "truncated", "flipped", "pickle", "text", "foreign", "no tree", *ODD_TREES])
def test_a_file_that_is_not_whole_or_not_ours_is_written_anew(
    model: nn.Module, tmp_path: Path, walks: list[Any], harm: str, caplog: pytest.LogCaptureFixture
) -> None:
    first = convert(model, tmp_path)
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    with cache.safe_open(file, framework="pt") as opened:
        metadata = opened.metadata()
    tensors = {"0": torch.ones(3)}
    digest = {"digest": cache._digest(tensors)}
    if harm == "empty":
        file.write_bytes(b"")
    elif harm == "truncated":
        file.write_bytes(whole[:-7])
    elif harm == "flipped":
        file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    elif harm == "pickle":
        file.write_bytes(pickle.dumps(Bomb()))
    elif harm == "text":
        file.write_text("no tensors here")
    elif harm == "foreign":
        save_file(tensors, file, {"format": "pt"})
    elif harm == "no tree":
        save_file(tensors, file, {"format": cache.FORMAT, "key": metadata["key"], **digest})
    else:
        save_file(tensors, file, {**metadata, **digest, "tree": ODD_TREES[harm]})
    with caplog.at_level(logging.WARNING):
        again = convert(model, tmp_path)
    assert "will be written again" in caplog.text
    assert len(walks) == 2 and repr(first) == repr(again)
    convert(model, tmp_path)
    assert len(walks) == 2, "the new file is good"


class Bomb:
    def __reduce__(self) -> Any:
        return (pytest.fail, ("a file was executed",))


def test_all_that_a_preprocessor_may_return_is_kept(model: nn.Module, tmp_path: Path, walks: list[Any]) -> None:
    def preprocessor(module: nn.Module, name: str) -> dict[Any, Any]:
        return {"t": torch.arange(3), "n": 1, 2: {"f": 0.5}, "s": "x", "l": [1, (2, None)], "b": True}

    first = convert(model, tmp_path, custom_preprocessor=preprocessor)
    second = convert(model, tmp_path, custom_preprocessor=preprocessor)
    assert len(walks) == 1 and torch.equal(first.pop("t"), second.pop("t")) and first == second
    assert isinstance(second[2], ParameterDict) and second["l"] == [1, (2, None)]


@pytest.mark.parametrize("answer", [{"x": object()}, {1.5: 1}])
def test_what_has_no_place_in_a_file_is_not_cached(
    model: nn.Module, tmp_path: Path, answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    convert(model, tmp_path, custom_preprocessor=lambda m, name: answer)
    assert "not cached" in caplog.text and list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_no_failure(
    model: nn.Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    assert convert(model, tmp_path / "file" / "folder") and "not cached" in caplog.text
    monkeypatch.setattr(cache, "save_file", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    assert convert(model, tmp_path / "full") and "disk full" in caplog.text
    assert list((tmp_path / "full").iterdir()) == []


def test_ttnns_own_switch_turns_it_on(model: nn.Module, tmp_path: Path, walks: list[Any]) -> None:
    with ttnn.manage_config("enable_model_cache", True), ttnn.manage_config("model_cache_path", tmp_path):
        for _ in range(2):
            preprocess_model_parameters(model_name="my/model", initialize_model=lambda: model)
        preprocess_model_parameters(initialize_model=lambda: model)
    assert len(walks) == 2, "without a name there is no cache"
    (file,) = tmp_path.iterdir()
    assert file.name.startswith("my_model-")


def test_tensors_of_a_mesh(
    model: nn.Module, tmp_path: Path, walks: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    mesh = ttnn.open_mesh_device(ttnn.MeshShape(1, 2))
    try:
        mapper = ttnn.ReplicateTensorToMesh(mesh)
        first, second = (convert(model, tmp_path, mesh_mapper=mapper) for _ in range(2))
        assert len(walks) == 1
        for one, other in zip(*(ttnn.get_device_tensors(each[0].weight) for each in (first, second)), strict=True):
            assert torch.equal(ttnn.to_torch(one), ttnn.to_torch(other))
        (file,) = tmp_path.iterdir()
        with cache.safe_open(file, framework="pt") as opened:
            key = opened.metadata()["key"]
        assert cache.load(file, key) is None and "no mesh_mapper was given" in caplog.text
        convert(nn.Linear(4, 4), tmp_path, mesh_mapper=ttnn.ShardTensorToMesh(mesh, dim=-1))
        assert "distributed over the mesh" in caplog.text
    finally:
        ttnn.close_mesh_device(mesh)
