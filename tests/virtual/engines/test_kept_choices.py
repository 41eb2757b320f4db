# SPDX-License-Identifier: Apache-2.0
"""Choices that were kept: what is malformed is measured again, not raised."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from tt_cnn.virtual.engines.replay import choice
from tt_cnn.virtual.engines.replay.cuda import tunings
from tt_cnn.virtual.engines.replay.cuda.convolution_arguments import Tiles
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
    tiles = [64, 32, 64, 1, 4, 4, 1, False]
    kept = {
        "a": ["torch", None, 3.5], "b": ["triton", tiles, 1], "c": ["torch"], "d": 7, "e": ["triton", [1], 1],
        "f": ["triton", None, 1], "g": ["other", None, 1], "h": ["torch", None, "x"],
    }  # fmt: skip
    found = tunings.read_ways(kept)
    assert found == {"a": (("torch", None), 3.5), "b": (("triton", Tiles(*tiles)), 1.0)}
    assert tunings.read_ways(tunings.written_ways(found)) == found


def test_shipped_tunings_are_for_one_gpu_and_one_triton(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    way = ["torch", None, 2.0]
    for name, gpu, ways in (("a", "small", {"x": way}), ("b", "large", {"x": way, "y": ["triton", 3, 1]})):
        (own_cache / f"{name}.json").write_text(json.dumps({"gpu": gpu, "triton": "3.6.0", "ways": ways}))
    monkeypatch.setattr(tunings, "SHIPPED", own_cache)
    assert tunings.shipped("large", "3.6.0") == {"x": (("torch", None), 2.0)}
    assert tunings.shipped("large", "3.7.0") == tunings.shipped("other", "3.6.0") == {}


def test_shipped_tunings_are_whole() -> None:
    """What `read_ways` leaves out would be measured again on every machine."""
    files = sorted(tunings.SHIPPED.glob("*.json"))
    assert files
    for file in files:
        kept = json.loads(file.read_text(encoding="utf-8"))
        found = tunings.shipped(kept["gpu"], kept["triton"])
        assert found and tunings.written_ways(found).keys() == kept["ways"].keys()
        for (name, tiles), microseconds in found.values():
            assert (name == "triton") is (tiles is not None) and 0 < microseconds < 1e5


def test_text_of_kernels_needs_no_file(own_cache: Path) -> None:
    """Triton asks for a function's text; a file of it in the cache folder would be run, whoever wrote it."""
    text = "def kernel(x):\n    return x + 1\n"
    module = module_of("expression_of_a_test", text)
    assert module.kernel(1) == 2 and inspect.getsource(module.kernel) == text
    assert inspect.getmodule(module.kernel) is module and list(own_cache.iterdir()) == []
