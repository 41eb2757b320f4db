# SPDX-License-Identifier: Apache-2.0
"""Convolutions followed some windows at a time: bit for bit what the definition gives for all of them."""

from __future__ import annotations

import pytest
import torch

from tt_cnn.virtual.engines.replay.kernels import gathering
from tt_cnn.virtual.numerics.convolution.inner import Inner
from tt_cnn.virtual.numerics.convolution.recipe import Recipe
from tt_cnn.virtual.numerics.convolution.weights import Weights
from tt_cnn.virtual.numerics.convolution.windows import Window
from tt_cnn.virtual.numerics.primitive import PRIMITIVES
from tt_cnn.virtual.types.enums import DataType, MathFidelity

WINDOWS = (
    Window((3, 3), padding=(1, 1, 1, 1)),
    Window((3, 3), (2, 2), (0, 1, 0, 1)),
    Window((1, 1), (2, 1)),
    Window((2, 3), (1, 2), (1, 0, 2, 1), (2, 1)),
    Window((3, 3), padding=(1, 1, 1, 1), replicates=True),
)
INNERS = (
    (8, Inner("height", (0, 0), 8, 8)),
    (20, Inner("height", (0, 0), 20, 32)),
    (16, Inner("height", (0, 0), 16, 16, whole=True)),
    (64, Inner("block", (0, 0), 64, 32, cores=2)),
    (64, Inner("width", (0, 0), 64, 64, parts=2)),
)


@pytest.mark.parametrize("dtype", [DataType.BFLOAT16, DataType.BFLOAT8_B, DataType.BFLOAT4_B, DataType.FLOAT32])
@pytest.mark.parametrize("inner", INNERS)
@pytest.mark.parametrize("window", WINDOWS)
def test_windows_gathered_in_parts(
    window: Window, inner: tuple[int, Inner], dtype: DataType, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    monkeypatch.setattr(gathering, "WINDOW_VALUES", 5000)
    channels, given = inner
    order = Inner(given.scheme, window.kernel, channels, given.shard, given.cores, given.whole, given.parts)
    image = torch.randn(2, 9, 11, channels) * 2.0 ** torch.randint(-3, 3, (2, 9, 11, channels))
    image[0, 3, 4, :5] = torch.tensor([float("inf"), float("nan"), 1e-40, -0.0, -float("inf")])
    weights = Weights(torch.randn(24, channels, *window.kernel), DataType.BFLOAT8_B).worked(order)
    for fp32_dest in (False, True):
        recipe = Recipe(window, order, dtype, dtype, DataType.BFLOAT16, MathFidelity.HiFi2, fp32_dest)
        found = gathering.followed_sums(image, weights, recipe=recipe)
        expected = PRIMITIVES["followed_sums"].function(image, weights, recipe=recipe)
        same = (found.view(torch.int32) == expected.view(torch.int32)) | (found.isnan() & expected.isnan())
        assert found.shape == expected.shape
        assert bool(same.all()), (found[~same][:4], expected[~same][:4])
