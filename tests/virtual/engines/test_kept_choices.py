# SPDX-License-Identifier: Apache-2.0
"""Choices that were kept: what is malformed is measured again, not raised."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

from tt_cnn.virtual.engines.replay import choice
from tt_cnn.virtual.engines.replay.cuda.expressions import module_of
from tt_cnn.virtual.engines.replay.eight_bit.guard import Search


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TT_CNN_CACHE", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("kept", "losses"),
    [
        ({"1": 0.5}, {1: 0.5}),
        ({"1": "much", "0": None, "9": 1}, {}),
        ({"0": 1, "1": 1}, {}),
        (["1"], {}),
        ("openvino", {}),
    ],
)
def test_losses_of_layers(kept: Any, losses: dict[int, float], monkeypatch: pytest.MonkeyPatch) -> None:
    search = object.__new__(Search)
    search.layers = [object(), object()]  # type: ignore[list-item]
    monkeypatch.setattr(Search, "_key", "key")
    choice.remember("key", kept)
    assert search._remembered() == {id(search.layers[i]): loss for i, loss in losses.items()}


def test_ways_of_convolutions() -> None:
    tuning = pytest.importorskip(
        "tt_cnn.virtual.engines.replay.cuda.tuning", reason="needs Triton", exc_type=ImportError
    )
    tiles = [64, 32, 64, 1, 4, 4, 1, False]
    kept = {
        "a": ["torch", None, 3.5], "b": ["triton", tiles, 1], "c": ["torch"], "d": 7, "e": ["triton", [1], 1],
        "f": ["triton", None, 1], "g": ["other", None, 1], "h": ["torch", None, "x"],
    }  # fmt: skip
    assert tuning.read_ways(kept) == {"a": (("torch", None), 3.5), "b": (("triton", tuning.Tiles(*tiles)), 1.0)}


def test_text_of_kernels_needs_no_file(own_cache: Path) -> None:
    """Triton asks for a function's text; a file of it in the cache folder would be run, whoever wrote it."""
    text = "def kernel(x):\n    return x + 1\n"
    module = module_of("expression_of_a_test", text)
    assert module.kernel(1) == 2 and inspect.getsource(module.kernel) == text
    assert inspect.getmodule(module.kernel) is module and list(own_cache.iterdir()) == []
