"""Does UNet compute on the card what PyTorch computes?"""

from collections.abc import Iterator
from typing import Any

import pytest

from tt_cnn.bringup.comparison import compare_points, losses
from tt_cnn.models.running import reference_outputs
from tt_cnn.testing import assert_agrees

from .. import ENTRY
from ..tt.common import model_on_card
from .points import POINTS


@pytest.fixture(scope="module")
def models() -> Iterator[tuple[Any, Any]]:
    with model_on_card() as both:
        yield both


@pytest.fixture(scope="module")
def lost(models: tuple[Any, Any]) -> dict[str, float]:
    """What each layer loses by itself in a run of the whole model, beside the value that torch has there."""
    reference, model = models
    images = ENTRY.example_input(batch_size=ENTRY.batch_sizes[0], seed=1)
    return losses(compare_points(reference, model, images, POINTS), POINTS)


@pytest.mark.parametrize("seed", [2, 3])
def test_the_whole_model(models: tuple[Any, Any], seed: int) -> None:
    reference, model = models
    images = ENTRY.example_input(batch_size=ENTRY.batch_sizes[0], seed=seed)
    outputs = model.to_torch(model(model.place(images)))
    for name, expected, output in zip(model.outputs, reference_outputs(reference, images), outputs, strict=True):
        assert_agrees(expected, output, ENTRY.gates[name])


@pytest.mark.parametrize("name", POINTS)
def test_layer(lost: dict[str, float], name: str) -> None:
    assert lost[name] <= POINTS[name].loss
