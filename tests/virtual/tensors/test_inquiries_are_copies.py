# SPDX-License-Identifier: Apache-2.0
"""What a tensor or a card tells about itself can be changed without changing it, as in TT-NN 0.81.1."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from tt_cnn.virtual import ttnn


@pytest.fixture
def card() -> Iterator[ttnn.MeshDevice]:
    opened = ttnn.open_device(device_id=0)
    yield opened
    ttnn.close_device(opened)


def grid(columns: int) -> ttnn.CoreRangeSet:
    return ttnn.CoreRangeSet([ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(columns - 1, 0))])


def sharded(rows: int = 32) -> ttnn.MemoryConfig:
    spec = ttnn.ShardSpec(grid(2), [rows, 64], ttnn.ShardOrientation.ROW_MAJOR)
    return ttnn.MemoryConfig(ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.BufferType.L1, spec)


def values() -> torch.Tensor:
    return torch.arange(64 * 64, dtype=torch.float32).reshape(1, 1, 64, 64).remainder(251)


def on_card(card: ttnn.MeshDevice, config: ttnn.MemoryConfig | None = None) -> ttnn.Tensor:
    config = config or sharded()
    return ttnn.from_torch(values(), ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=card, memory_config=config)


CHANGES: dict[str, Callable[[ttnn.ShardSpec], Any]] = {
    "shape": lambda spec: setattr(spec, "shape", [64, 64]),
    "grid": lambda spec: setattr(spec, "grid", grid(4)),
    "orientation": lambda spec: setattr(spec, "orientation", ttnn.ShardOrientation.COL_MAJOR),
    "a side of the shape": lambda spec: spec.shape.__setitem__(0, 96),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_memory_config_that_is_asked_for_is_a_copy(card: ttnn.MeshDevice, change: Callable[..., Any]) -> None:
    tensor = on_card(card)
    for asked in (tensor.memory_config(), ttnn.get_memory_config(tensor)):
        change(asked.shard_spec)
    assert tensor.memory_config() == sharded() and tensor.spec.memory_config == sharded()
    assert torch.equal(ttnn.to_torch(ttnn.relu(tensor)).float(), values())


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_memory_config_that_was_given_can_be_changed_afterwards(
    card: ttnn.MeshDevice, change: Callable[..., Any]
) -> None:
    config = sharded()
    tensor = on_card(card, config)
    moved = ttnn.to_memory_config(on_card(card, ttnn.DRAM_MEMORY_CONFIG), config)
    change(config.shard_spec)
    for made in (tensor, moved):
        assert made.memory_config() == sharded()
    again = ttnn.to_memory_config(on_card(card, ttnn.DRAM_MEMORY_CONFIG), sharded())
    assert again.memory_config() == sharded()


def test_a_memory_config_takes_a_copy_of_its_shard_spec_and_hands_out_its_own() -> None:
    """Recorded: the given one may change afterwards; what `shard_spec` gives belongs to the config."""
    spec = ttnn.ShardSpec(grid(2), [32, 64], ttnn.ShardOrientation.ROW_MAJOR)
    config = ttnn.MemoryConfig(ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.BufferType.L1, spec)
    spec.shape = [64, 64]
    assert config.shard_spec.shape == [32, 64] and config.shard_spec is config.shard_spec
    before = hash(config)
    config.shard_spec.shape = [96, 64]
    assert config.shard_spec.shape == [96, 64] and config != sharded() and hash(config) != before
    config.shard_spec.shape = [32, 64]
    assert config == sharded() and hash(config) == hash(sharded())
    with pytest.raises(AttributeError):
        config.shard_spec = None  # type: ignore[misc]


def test_what_a_tensor_keeps_says_that_it_does_not_change(card: ttnn.MeshDevice) -> None:
    shard = on_card(card).spec.memory_config.shard_spec
    with pytest.raises(AttributeError, match=r"shape of this ShardSpec cannot be assigned.*memory_config\(\)"):
        shard.shape = [64, 64]
    shard.shape[0] = 64
    assert shard.shape == [32, 64]


def test_cores_and_shapes_do_not_change(card: ttnn.MeshDevice) -> None:
    """Recorded: none of these has a setter."""
    tensor = on_card(card)
    ranges = tensor.memory_config().shard_spec.grid.ranges()
    for owner, name in (
        (ttnn.CoreCoord(1, 2), "x"),
        (ranges[0], "start"),
        (ranges[0].end, "y"),
        (card.compute_with_storage_grid_size(), "x"),
    ):
        with pytest.raises(AttributeError, match=name):
            setattr(owner, name, 7)
    ranges.clear()
    with pytest.raises(TypeError):
        tensor.shape[0] = 5
    with pytest.raises(TypeError):
        tensor.padded_shape[0] = 5
    assert tensor.memory_config() == sharded() and tensor.shape == [1, 1, 64, 64]


def test_lists_of_a_card_are_copies(card: ttnn.MeshDevice) -> None:
    ids = card.get_device_ids()
    card.get_device_ids().append(99)
    assert card.get_device_ids() == ids


@pytest.mark.parametrize("dtype", [ttnn.float32, ttnn.bfloat16, ttnn.bfloat8_b])
@pytest.mark.parametrize("where", ["host", "card", "read"])
@pytest.mark.parametrize("ask", ["to_torch", "to_torch_with_padded_shape", "to_numpy"])
def test_values_that_are_asked_for_are_copies(card: ttnn.MeshDevice, dtype: Any, where: str, ask: str) -> None:
    given = values()
    tensor = ttnn.from_torch(given, dtype, layout=ttnn.TILE_LAYOUT, device=None if where == "host" else card)
    if where == "read":
        source, tensor = tensor, tensor.cpu()
    before = ttnn.to_torch(tensor).clone()
    got = getattr(tensor, ask)()
    got[...] = -1
    given.fill_(-2)
    assert torch.equal(ttnn.to_torch(tensor), before)
    if where == "read":
        assert torch.equal(ttnn.to_torch(source), before)


def test_copies_and_pickles_are_equal_and_can_be_changed() -> None:
    config = sharded()
    for made in (copy.copy(config), copy.deepcopy(config), pickle.loads(pickle.dumps(config))):
        assert made == config and hash(made) == hash(config)
        made.shard_spec.shape = [64, 64]
        assert config == sharded()
