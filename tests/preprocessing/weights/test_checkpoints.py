# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of all kinds, and those that are refused."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from tt_cnn.preprocessing.weights import load_checkpoint, load_into

STATE = {"weight": torch.arange(6.0).view(2, 3), "bias": torch.zeros(2)}


class Evil:
    """Leaves a trace when it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.trace),)


def saved(content: object, path: Path) -> Path:
    torch.save(content, path)
    return path


@pytest.mark.parametrize(
    "content",
    [STATE, {"state_dict": STATE, "epoch": 3}, {"model": {f"module.{name}": value for name, value in STATE.items()}}],
    ids=["plain", "wrapped", "data parallel"],
)
def test_pytorch(tmp_path: Path, content: object) -> None:
    found = load_checkpoint(saved(content, tmp_path / "a.pt"))
    assert found.keys() == STATE.keys() and torch.equal(found["weight"], STATE["weight"])


@pytest.mark.parametrize("name", ["a.safetensors", "a.bin"])
def test_safetensors_by_name_or_content(tmp_path: Path, name: str) -> None:
    save_file(STATE, tmp_path / name)
    assert torch.equal(load_checkpoint(tmp_path / name)["weight"], STATE["weight"])


@pytest.mark.parametrize("new_format", [True, False])
def test_a_pickle_that_wants_to_run_code_is_refused(tmp_path: Path, new_format: bool) -> None:
    path = tmp_path / "evil.pt"
    torch.save({**STATE, "x": Evil(tmp_path / "trace")}, path, _use_new_zipfile_serialization=new_format)
    with pytest.raises(ValueError, match=r"evil.pt was refused: to open it would run code of its maker \(\w+.mkdir\)"):
        load_checkpoint(path)
    assert not (tmp_path / "trace").exists()


def test_files_that_are_no_checkpoints(tmp_path: Path) -> None:
    good = saved(STATE, tmp_path / "good.pt").read_bytes()
    for name, content in {
        "empty.pt": b"",
        "text.pt": b"<html>Not found</html>",
        "cut.pt": good[: len(good) // 2],
        "cut.safetensors": b"\x10\0\0\0\0\0\0\0{",
    }.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match="is damaged or no"):
            load_checkpoint(tmp_path / name)
    for content in ([1, 2], {"a": 1}):
        with pytest.raises(ValueError, match=r"not names and tensors|no tensors by name"):
            load_checkpoint(saved(content, tmp_path / "other.pt"))
    with pytest.raises(FileNotFoundError, match="there is no such file"):
        load_checkpoint(tmp_path / "missing.pt")


def test_loading_into_a_model(tmp_path: Path) -> None:
    model = nn.Linear(3, 2)
    load_into(model, saved({name: value.bfloat16() for name, value in STATE.items()}, tmp_path / "a.pt"))
    assert model.weight.dtype == torch.float32 and torch.equal(model.weight, STATE["weight"])


def test_public_names_are_turned(tmp_path: Path) -> None:
    def rename(public: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {name.removeprefix("public_"): value for name, value in public.items()}

    path = saved({f"public_{name}": value for name, value in STATE.items()}, tmp_path / "a.pt")
    model = nn.Linear(3, 2)
    load_into(model, path, rename)
    assert torch.equal(model.weight, STATE["weight"])
    load_into(model, saved(STATE, tmp_path / "own.pt"), rename)
    with pytest.raises(ValueError, match=r"does not fit Linear: it lacks weight, bias; it has, unknown to the model,"):
        load_into(model, path)


def test_differences_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"another shape weight \(2, 3\) instead of \(4, 3\), bias"):
        load_into(nn.Linear(3, 4), saved(STATE, tmp_path / "a.pt"))


def test_counters_of_batch_norms_may_be_missing(tmp_path: Path) -> None:
    norm = nn.BatchNorm2d(2)
    state = {name: value + 1 for name, value in norm.state_dict().items() if name != "num_batches_tracked"}
    load_into(norm, saved(state, tmp_path / "a.pt"))
    assert norm.running_var is not None and norm.running_var.tolist() == [2, 2]


def test_darknets_files_are_for_models_of_darknet(tmp_path: Path) -> None:
    (tmp_path / "a.weights").write_bytes(bytes(20))
    with pytest.raises(ValueError, match="no counterpart"):
        load_into(nn.Linear(1, 1), tmp_path / "a.weights")
