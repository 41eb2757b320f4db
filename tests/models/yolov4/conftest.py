# SPDX-License-Identifier: Apache-2.0
"""References and the values between their modules, made once in a session, and models on the card."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from tests.models.yolov4.modules import FULL, ModulePcc, activations_of, pcc_of_module
from tt_cnn import ttnn
from tt_cnn.models import create_reference, create_tt, model_entry
from tt_cnn.models.yolov4.reference.model import YOLOv4

ENTRY = model_entry("yolov4")
CLASSES_OF_QUARTER = 4


@pytest.fixture(scope="session")
def reference_by_width(reference_of: Callable[[str, int], Any]) -> Callable[[float], YOLOv4]:
    made: dict[float, YOLOv4] = {}

    def get(width: float) -> YOLOv4:
        if width == FULL:
            return reference_of("yolov4", 0)
        if width not in made:
            made[width] = create_reference("yolov4", seed=0, width=width, classes=CLASSES_OF_QUARTER)
        return made[width]

    return get


@pytest.fixture(scope="session")
def activations(reference_by_width: Callable[[float], YOLOv4]) -> Callable[[float], dict[str, torch.Tensor]]:
    made: dict[float, dict[str, torch.Tensor]] = {}

    def get(width: float) -> dict[str, torch.Tensor]:
        if width not in made:
            made[width] = activations_of(reference_by_width(width), ENTRY.example_input())
        return made[width]

    return get


@pytest.fixture
def open_device() -> Iterator[Callable[..., Any]]:
    """Opens a card by name with what the model needs; it is closed after the test."""
    opened = []

    def get(card: str = "n150", **options: Any) -> Any:
        opened.append(ttnn.open_device(device_id=0, card=card, l1_small_size=ENTRY.l1_small_size, **options))
        return opened[-1]

    yield get
    for device in opened:
        ttnn.close_device(device)


@pytest.fixture
def model_on(reference_by_width: Callable[[float], YOLOv4], open_device: Callable[..., Any]) -> Callable[..., Any]:
    """The whole model; the weights of a module are prepared when it is called."""

    def get(width: float, card: str = "n150", precision: Any = "tuned") -> Any:
        return create_tt("yolov4", open_device(card), reference_by_width(width), precision=precision)

    return get


@pytest.fixture
def module_pcc(model_on: Callable[..., Any], activations: Callable[[float], dict[str, torch.Tensor]]) -> ModulePcc:
    """PCC of each output of one module alone: it is given the reference's values."""

    def get(name: str, width: float, card: str, precision: str) -> list[float]:
        dtype = ttnn.bfloat8_b if precision == "tuned" else ttnn.bfloat16
        return pcc_of_module(name, model_on(width, card, precision), activations(width), dtype)

    return get
