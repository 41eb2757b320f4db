# SPDX-License-Identifier: Apache-2.0
"""Errors of the virtual card say which layer they come from; the real TT-NN is left alone."""

from __future__ import annotations

from typing import Any

import pytest

from tt_cnn import runtime, ttnn
from tt_cnn.builder import (
    Conv2dConfiguration,
    HeightShardedStrategyConfiguration,
    L1FullSliceStrategyConfiguration,
    TtConv2d,
)
from tt_cnn.builder.naming import named
from tt_cnn.virtual.errors.card_error import current_layer


def too_large() -> Conv2dConfiguration:
    return Conv2dConfiguration.with_random_weights(
        512, 512, 64, 64, 1, (3, 3), padding=(1, 1),
        sharding_strategy=HeightShardedStrategyConfiguration(), slice_strategy=L1FullSliceStrategyConfiguration(),
    )  # fmt: skip


@pytest.mark.parametrize("name", ["encoder1.conv2", ""])
def test_an_error_names_the_layer(name: str, device: Any, images: Any) -> None:
    x = images.put(images.random(1, 64, 512, 512))
    layer = TtConv2d(too_large(), device, name=name)
    with pytest.raises(RuntimeError, match="beyond max L1 size") as error:
        layer(x)
    assert ("of 'encoder1.conv2'" in str(error.value)) == bool(name)
    assert current_layer() == ""
    assert not ttnn.is_tensor_storage_on_device(layer.weight), "a failed call leaves the layer as it was"


def test_without_a_virtual_card_names_do_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with named("stem"):
        assert current_layer() == "stem"
    monkeypatch.setattr(runtime, "is_virtual", lambda: False)
    with named("stem"):
        assert current_layer() == ""
