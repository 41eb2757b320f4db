# SPDX-License-Identifier: Apache-2.0
"""Settings by the names of layers: what they replace, what is refused, and that files give them back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tt_cnn import ttnn
from tt_cnn.builder import (
    Assignment,
    BlockShardedStrategyConfiguration,
    Conv2dConfiguration,
    PlacementConfiguration,
    TtConv2d,
    TtPlacement,
    overriding,
)
from tt_cnn.builder.layer import layer_that_failed
from tt_cnn.builder.overrides import read_settings, with_settings
from tt_cnn.models import create_tt

LOFI, HIFI4 = ttnn.MathFidelity.LoFi, ttnn.MathFidelity.HiFi4


@pytest.fixture
def device() -> Iterator[Any]:
    device = ttnn.open_device(device_id=0, l1_small_size=32768)
    yield device
    ttnn.close_device(device)


def small() -> Conv2dConfiguration:
    return Conv2dConfiguration.with_random_weights(8, 8, 32, 32, 1, (3, 3), padding=(1, 1))


def test_only_the_named_layer_has_the_settings(device: Any) -> None:
    with overriding({"first": {"math_fidelity": HIFI4}}) as building:
        layers = [TtConv2d(small(), device, name) for name in ("first", "second")]
    assert [layer.configuration.math_fidelity for layer in layers] == [HIFI4, LOFI]
    assert layers[0].compute_config.math_fidelity == HIFI4, "what is derived from the configuration follows it"
    assert building.layers == layers and building.unused == []
    assert TtConv2d(small(), device, "first").configuration.math_fidelity == LOFI, "outside it is as it was"


def test_a_layer_that_is_configured_again_prepares_its_weights_again(device: Any) -> None:
    layer = TtConv2d(small(), device, "conv")
    x = ttnn.from_torch(ttnn.to_torch(layer.weight).new_ones(1, 8, 8, 32), dtype=ttnn.bfloat16, device=device)
    first = ttnn.to_torch(layer(x))
    prepared = layer.weight
    layer.configure(with_settings(layer.configuration, {"weights_dtype": ttnn.bfloat8_b}))
    assert layer.weight is layer.configuration.weight is not prepared
    assert not (ttnn.to_torch(layer(x)) == first).all(), "bfloat8_b weights give other values"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"act_block_h_override": 32}, "has no setting 'act_block_h_override'"),
        ({"weight": None}, "has no setting 'weight'"),
        ({"math_fidelity": 3}, "math_fidelity is 3"),
    ],
)
def test_settings_are_checked(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        with_settings(small(), settings, "conv")


def test_assignments_are_equal_by_their_data_and_come_back_from_json() -> None:
    strategy = BlockShardedStrategyConfiguration(act_block_h_override=64)
    one = Assignment({"a": {"sharding_strategy": strategy, "weights_dtype": ttnn.bfloat8_b}, "b": {}})
    again = Assignment.from_dict(json.loads(json.dumps(one.to_dict())))
    assert again == one and hash(again) == hash(one) and list(one) == ["a"]
    other = one.but("a", weights_dtype=ttnn.bfloat16)
    assert other != one and other["a"]["sharding_strategy"] == strategy and one["a"]["weights_dtype"] == ttnn.bfloat8_b


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"layers": {"conv', "no JSON"),
        ("[]", "object of layers"),
        ('{"layers": {"a": 3}}', "an object for each layer"),
    ],
)
def test_bad_files_are_refused(text: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(text)
    with pytest.raises(ValueError, match=words):
        read_settings(file)


def test_a_model_refuses_settings_of_layers_that_it_has_not(device: Any) -> None:
    with pytest.raises(ValueError, match=r"'encoder1.conv3'; Vanilla UNet has no such layer"):
        create_tt("vanilla_unet", device, config={"encoder1.conv3": {"math_fidelity": LOFI}})


def test_errors_know_the_layer_they_came_from(device: Any) -> None:
    layer = TtConv2d(small(), device, "encoder1.conv2")
    x = ttnn.from_torch(ttnn.to_torch(layer.weight).new_ones(1, 8, 8, 64), dtype=ttnn.bfloat16, device=device)
    with pytest.raises(RuntimeError) as caught:
        layer(x)
    assert layer_that_failed(caught.value) == "encoder1.conv2" and layer_that_failed(ValueError()) == ""


def test_a_placement_moves_frees_and_keeps(device: Any) -> None:
    def tensor() -> Any:
        return ttnn.from_torch(
            ttnn.to_torch(small().weight), dtype=ttnn.bfloat16, device=device, memory_config=ttnn.L1_MEMORY_CONFIG
        )

    to_dram = TtPlacement(PlacementConfiguration(ttnn.DRAM_MEMORY_CONFIG), device, "skip")
    x = tensor()
    moved = to_dram(x, keep_input=True)
    assert moved.memory_config() == ttnn.DRAM_MEMORY_CONFIG and x.is_allocated()
    assert (ttnn.to_torch(moved) == ttnn.to_torch(x)).all()
    to_dram(x)
    assert not x.is_allocated(), "a tensor that was moved is given back"
    assert to_dram(moved) is moved and moved.is_allocated(), "one that lies there already is left alone"
    y = tensor()
    assert TtPlacement(PlacementConfiguration(), device, "stay")(y) is y
