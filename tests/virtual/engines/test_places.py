# SPDX-License-Identifier: Apache-2.0
"""Where the GPU's kernel of products finds the numbers of a window: those of the matrix that defines it."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tt_cnn.virtual.engines.replay.cuda.exact.places import (
    BFLOAT16,
    Places,
    Stored,
    offsets_of,
    stored_between,
)
from tt_cnn.virtual.numerics.convolution.inner import Inner
from tt_cnn.virtual.numerics.convolution.recipe import Recipe
from tt_cnn.virtual.numerics.convolution.windows import Window
from tt_cnn.virtual.types.enums import DataType


def recipe_of(window: Window, inner: Inner, **changes: object) -> Recipe:
    plain = Recipe(window, inner, DataType.BFLOAT16, DataType.BFLOAT16, DataType.BFLOAT16)
    return plain.but(**changes)


def gathered(recipe: Recipe, image: torch.Tensor) -> torch.Tensor:
    """The windows as the kernel reads them."""
    padded = recipe.window.padded(image).contiguous()
    places, (offsets, _) = (
        Places.of_windows(recipe, padded.shape),
        offsets_of(recipe, padded.shape[2], padded.shape[3]),
    )
    row = torch.arange(places.rows)
    place = row % places.results
    first = row // places.results * places.image
    first = first + place // places.across * places.line + place % places.across * places.pixel
    numbers = padded.reshape(-1)[(first[:, None] + offsets.clamp(min=0)[None, :]).long()]
    return torch.where(offsets < 0, 0.0, numbers)


@pytest.mark.parametrize(
    ("window", "inner"),
    [
        (Window((3, 3), (1, 1), (1, 1, 1, 1)), Inner("height", (3, 3), 8, 32)),
        (Window((3, 3), (2, 2), (1, 0, 1, 0)), Inner("height", (3, 3), 5, 32)),
        (Window((3, 3), (1, 1), (1, 1, 1, 1)), Inner("block", (3, 3), 50, 32, cores=2)),
        (Window((2, 3), (1, 2), (0, 1, 2, 0), (2, 1)), Inner("width", (2, 3), 64, 32, cores=2)),
        (Window((1, 1)), Inner.of_matmul(40)),
    ],
)
def test_numbers_of_windows_are_found_where_they_lie(window: Window, inner: Inner) -> None:
    recipe, image = recipe_of(window, inner), torch.arange(1.0, 2 * 9 * 11 * inner.channels + 1)
    image = image.reshape(2, 9, 11, inner.channels)
    expected = F.pad(window.matrix(image), (0, 1))[:, inner.worked_rows()]
    assert torch.equal(gathered(recipe, image), expected)


def test_groups_that_lie_side_by_side_are_told_from_others() -> None:
    def adjacent(channels: int) -> bool:
        window = Window((3, 3), (1, 1), (1, 1, 1, 1))
        return offsets_of(recipe_of(window, Inner("height", (3, 3), channels, 32)), 13, channels)[1]

    assert adjacent(8) and adjacent(64)
    assert not adjacent(3) and not adjacent(12)


def test_what_the_kernel_cannot_follow_between_blocks_is_left_to_one_product_after_the_other() -> None:
    window, inner = Window((3, 3), (1, 1), (1, 1, 1, 1)), Inner("height", (3, 3), 32, 32)
    whole = 9 * 32
    assert stored_between(recipe_of(window, inner), whole) == Stored(96, 3, BFLOAT16, False, True, False)
    assert stored_between(recipe_of(window, inner, partials=DataType.BFLOAT8_B), whole) is None
    wide = recipe_of(window, inner, partials=DataType.FLOAT32, reloads_whole=True)
    assert stored_between(wide, whole) is None
    assert stored_between(wide.but(fp32_dest=True), whole) is not None
    one = Inner("height", (3, 3), 32, 32, whole=True)
    assert stored_between(recipe_of(window, one, partials=DataType.BFLOAT8_B), whole) == Stored(whole)
