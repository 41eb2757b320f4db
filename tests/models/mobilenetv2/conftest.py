# SPDX-License-Identifier: Apache-2.0
"""The reference and a card with the model on it, shared by the tests of a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from torch import nn

from tests.models.inverted_residuals import Network, network_on
from tt_cnn import ttnn
from tt_cnn.models import model_entry
from tt_cnn.models.mobilenetv2.reference.model import STAGES

NAME = "mobilenetv2"


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


def parts_of(reference: Any) -> Any:
    """Stem, blocks, head and classifier."""
    return reference.features[0], reference.features[1:-1], reference.features[-1], reference.classifier
