# SPDX-License-Identifier: Apache-2.0
"""Which weights a user gets, and what they are called."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from tt_cnn.evaluation.weights import public_file, reference_with
from tt_cnn.models import ModelEntry, create_reference, model_entry


def same(first: torch.nn.Module, second: torch.nn.Module) -> bool:
    pairs = zip(first.state_dict().values(), second.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def test_shipped_weights_come_first(stripes: ModelEntry) -> None:
    reference, whose = reference_with(stripes, None)
    assert whose == "shipped weights" and same(reference, create_reference("stripes", shipped=True))
    assert not reference.training


def test_seeded_weights_and_files(stripes: ModelEntry, tmp_path: Path) -> None:
    seeded, whose = reference_with(stripes, "seeded")
    assert whose == "seeded (random) weights" and same(seeded, create_reference("stripes", seed=0))
    other = create_reference("stripes", seed=7)
    save_file(other.state_dict(), tmp_path / "mine.safetensors")
    read, whose = reference_with(stripes, str(tmp_path / "mine.safetensors"))
    assert whose == "weights of mine.safetensors" and same(read, other)


def test_public_weights_are_found_in_an_installed_package() -> None:
    entry = model_entry("efficientnet_lite0")
    path = public_file(entry)
    assert path is not None and path.name == "efficientnet-lite0-57934424.pth"
    _, whose = reference_with(entry, None)
    assert whose == "public weights (efficientnet-lite0-57934424.pth)"


def test_public_weights_are_found_in_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TT_CNN_CACHE", str(tmp_path))
    entry = model_entry("mobilenetv2")
    assert public_file(entry) is None
    with pytest.raises(FileNotFoundError, match="get them with tt-cnn weights mobilenetv2"):
        reference_with(entry, "public")
    kept = tmp_path / "weights" / "mobilenetv2" / "mobilenet_v2-b0353104.pth"
    kept.parent.mkdir(parents=True)
    kept.touch()
    assert public_file(entry) == kept


def test_what_is_neither_a_name_nor_a_file_is_refused(stripes: ModelEntry) -> None:
    with pytest.raises(
        FileNotFoundError, match="nowhere: there is no such file; beside files there are shipped, public"
    ):
        reference_with(stripes, "nowhere")
