# SPDX-License-Identifier: Apache-2.0
"""The reference, the values between its modules, and a card on which they are compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from tests.models.resnet50.modules import Activations, pcc_of_module
from tt_cnn import ttnn
from tt_cnn.models import model_entry
from tt_cnn.models.resnet50.reference.model import ResNet50


@pytest.fixture(scope="session")
def calibrated(reference_of: Callable[[str, int], Any]) -> Callable[[int], ResNet50]:
    """References by seed."""
    return lambda seed: reference_of("resnet50", seed)


@pytest.fixture(scope="session")
def resnet50(calibrated: Callable[[int], ResNet50]) -> ResNet50:
    return calibrated(0)


@pytest.fixture(scope="session")
def activations(resnet50: ResNet50) -> Callable[[int], Activations]:
    """For a batch of pictures, the outputs of the reference's modules; `images` are the pictures."""
    made: dict[int, Activations] = {}

    def get(batch_size: int) -> Activations:
        if batch_size not in made:
            made[batch_size] = Activations(resnet50, model_entry("resnet50").example_input(batch_size=batch_size))
        return made[batch_size]

    return get


@pytest.fixture
def open_device() -> Iterator[Callable[..., Any]]:
    """Opens cards by name with what the model needs; they are closed after the test."""
    opened = []

    def get(card: str = "n150", **options: Any) -> Any:
        small = model_entry("resnet50").l1_small_size
        opened.append(ttnn.open_device(device_id=0, card=card, l1_small_size=small, **options))
        return opened[-1]

    yield get
    for device in opened:
        ttnn.close_device(device)


@pytest.fixture
def module_pcc(
    resnet50: ResNet50, activations: Callable[[int], Activations], open_device: Callable[..., Any]
) -> Callable[..., float]:
    """PCC of one module alone: it is given the reference's values."""

    def get(name: str, card: str = "n150", batch_size: int = 1, precision: str = "tuned") -> float:
        with torch.no_grad():
            return pcc_of_module(name, resnet50, activations(batch_size), open_device(card), batch_size, precision)

    return get
