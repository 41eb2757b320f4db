# SPDX-License-Identifier: Apache-2.0
"""The reference and a card with the model on it, shared by the tests of a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

from tests.models.inverted_residuals import Network, network_on
from tt_cnn import ttnn
from tt_cnn.evaluation.folders import photographs
from tt_cnn.evaluation.preparation import prepare
from tt_cnn.models import model_entry
from tt_cnn.models.efficientnet_lite0.reference.imagenet import load_imagenet_weights
from tt_cnn.models.efficientnet_lite0.reference.model import STAGES, EfficientNetLite0

NAME = "efficientnet_lite0"


@pytest.fixture(scope="session")
def reference(reference_of: Callable[[str, int], nn.Module]) -> Any:
    return reference_of(NAME, 0)


@pytest.fixture(scope="module")
def device() -> Iterator[Any]:
    opened = ttnn.open_device(device_id=0, card="n150", l1_small_size=model_entry(NAME).l1_small_size)
    yield opened
    ttnn.close_device(opened)


@pytest.fixture(scope="module")
def network(reference: Any, device: Any) -> Network:
    return network_on(NAME, reference, parts_of(reference), STAGES, device)


@pytest.fixture(scope="session")
def trained() -> EfficientNetLite0:
    """With the public weights."""
    model = EfficientNetLite0().eval()
    load_imagenet_weights(model)
    return model


@pytest.fixture(scope="session")
def pictures() -> dict[str, torch.Tensor]:
    """Photographs by name, as the reference takes them."""
    data, entry = photographs(), model_entry(NAME)
    return {data.name(i): prepare(entry, data[i][0])[0] for i in range(len(data))}


def parts_of(reference: Any) -> Any:
    """Stem, blocks, head and classifier."""
    return reference.stem, reference.blocks, reference.head, reference.classifier
