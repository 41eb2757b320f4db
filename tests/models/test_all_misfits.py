# SPDX-License-Identifier: Apache-2.0
"""A model that does not fit names all calls that do not, from a plain call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from tests.optimizer.residual import ENTRY, TtResidual, registered
from tt_cnn import ttnn
from tt_cnn.models import create_tt
from tt_cnn.models.running import opened_card
from tt_cnn.virtual.errors.card_error import DoesNotFit

LAYERS = ("layer4.0.conv2", "layer4.1.conv1", "layer4.1.conv2")
SMALLER = {"weights_dtype": ttnn.bfloat8_b}


class Large(TtResidual):
    """Three convolutions of its last stage have weights that do not fit."""

    weights_dtype = ttnn.bfloat16


@pytest.fixture(autouse=True)
def large() -> Iterator[None]:
    with registered(replace(ENTRY, name="large_residual", tt=Large)):
        yield


def refusal(config: dict[str, dict[str, object]] | None = None, keep: bool = True, tell: bool = True) -> str:
    """The error of a plain call; without `keep` the torch model is gone by then."""
    reference = ENTRY.reference().eval()
    with opened_card(ENTRY, card="n150", executor="plain") as device:
        device.advises = tell
        model = create_tt("large_residual", device, reference, config=config)
        if not keep:
            del reference
        with pytest.raises(DoesNotFit) as caught:
            model(model.place(torch.zeros(1, 3, *model.resolution)))
        return str(caught.value)


@pytest.mark.parametrize("keep", [True, False])
def test_the_first_is_explained_and_the_others_are_named(keep: bool) -> None:
    said = refusal(keep=keep)
    first, second = said.splitlines()[:2]
    assert "Statically allocated circular buffers" in first or "Out of Memory" in first
    assert f"of '{LAYERS[0]}'" in second and "\n  fits: " in said
    named = said.split("2 other calls do not fit either")[1].splitlines()[1:]
    assert [line.rsplit(" of ")[1] for line in named] == [f"'{name}'" for name in LAYERS[1:]]


def test_those_that_are_cured_are_not_named() -> None:
    said = refusal({LAYERS[0]: SMALLER})
    assert f"of '{LAYERS[1]}'" in said.splitlines()[1]
    assert "1 other call does not fit either" in said and said.rstrip().endswith(f"of '{LAYERS[2]}'")
    assert "not fit either" not in refusal(dict.fromkeys(LAYERS[:2], SMALLER))


def test_nothing_is_planned_for_who_wants_no_advice() -> None:
    assert "not fit either" not in refusal(tell=False)


def test_a_model_that_fits_is_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with opened_card(ENTRY, card="n150", executor="plain") as device:
        model = create_tt("large_residual", device, config=dict.fromkeys(LAYERS, SMALLER))
        monkeypatch.setattr(model, "again", lambda device: pytest.fail("it was made again"))
        model(model.place(torch.zeros(1, 3, *model.resolution)))
