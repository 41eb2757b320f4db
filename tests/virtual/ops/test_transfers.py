# SPDX-License-Identifier: Apache-2.0
"""Between host and card: shapes of calls, checks in TT-NN's order, and blocking."""

from __future__ import annotations

import pytest
import torch

from tt_cnn.virtual import ttnn


def test_round_trip_of_every_dtype(card):
    values = torch.randint(0, 100, (2, 3, 40, 33))
    for dtype in (ttnn.bfloat16, ttnn.float32, ttnn.uint8, ttnn.uint16, ttnn.uint32, ttnn.int32):
        for layout in (ttnn.ROW_MAJOR_LAYOUT, ttnn.TILE_LAYOUT):
            for config in (ttnn.DRAM_MEMORY_CONFIG, ttnn.L1_MEMORY_CONFIG):
                x = ttnn.from_torch(values, dtype=dtype, layout=layout, device=card, memory_config=config)
                assert torch.equal(ttnn.to_torch(x).to(torch.int64), values)


def test_to_device_keeps_what_is_there(card, tensor):
    x = tensor(card)
    assert ttnn.to_device(x, card, ttnn.L1_MEMORY_CONFIG) is x
    host = x.cpu()
    assert host.cpu() is host and ttnn.from_device(host) is host


def test_shards_in_l1_and_dram(card):
    values = torch.rand(1, 1, 256, 64).bfloat16()
    config = ttnn.create_sharded_memory_config((1, 1, 256, 64), ttnn.CoreGrid(x=8, y=1), ttnn.ShardStrategy.HEIGHT)
    x = ttnn.from_torch(values, device=card, memory_config=config)
    assert x.is_sharded() and torch.equal(ttnn.to_torch(x), values)
    dram = ttnn.MemoryConfig(config.memory_layout, ttnn.BufferType.DRAM, config.shard_spec)
    y = ttnn.allocate_tensor_on_device(x.shape, ttnn.bfloat16, ttnn.ROW_MAJOR_LAYOUT, card, dram)
    ttnn.copy_host_to_device_tensor(ttnn.from_torch(values), y)
    assert torch.equal(ttnn.to_torch(y), values)


def test_allocate_in_both_forms(card):
    spec = ttnn.TensorSpec([1, 1, 64, 64], ttnn.bfloat16, ttnn.TILE_LAYOUT, ttnn.BufferType.L1)
    by_spec = ttnn.allocate_tensor_on_device(spec, card)
    by_shape = ttnn.allocate_tensor_on_device(ttnn.Shape([1, 1, 64, 64]), ttnn.bfloat16, ttnn.TILE_LAYOUT, card)
    assert by_spec.memory_config() == ttnn.L1_MEMORY_CONFIG and by_shape.memory_config() == ttnn.DRAM_MEMORY_CONFIG
    host = ttnn.allocate_tensor_on_host(spec, card)
    assert host.storage_type() is ttnn.StorageType.HOST and host.shape == by_spec.shape


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shape": (1, 1, 64, 32), "dtype": ttnn.float32}, "Host tensor has different shape"),
        ({"dtype": ttnn.float32, "layout": ttnn.ROW_MAJOR_LAYOUT}, "Host tensor has different dtype"),
        ({"layout": ttnn.ROW_MAJOR_LAYOUT}, "Host tensor has different page config"),
    ],
)
def test_copies_check_shape_then_dtype_then_layout(card, tensor, options, message):
    x, host = tensor(card), tensor(None, **options)
    with pytest.raises(RuntimeError, match=message):
        ttnn.copy_host_to_device_tensor(host, x)
    with pytest.raises(RuntimeError, match=message):
        ttnn.copy_device_to_host_tensor(x, host)


def test_copies_want_a_host_and_a_device_tensor(card, tensor):
    x, host = tensor(card), tensor(None)
    message = "Expected Tensor with HostStorage, got StorageType::DEVICE"
    with pytest.raises(RuntimeError, match=message):
        ttnn.copy_host_to_device_tensor(x, x)
    with pytest.raises(RuntimeError, match=message):
        ttnn.copy_device_to_host_tensor(x, x)
    with pytest.raises(RuntimeError, match=r"copy_device_to_host_tensor needs a tensor on the device"):
        ttnn.copy_device_to_host_tensor(host, host)


@pytest.mark.parametrize("blocking", [True, False])
def test_reading_into_a_host_tensor(card, tensor, toys, blocking):
    host = ttnn.allocate_tensor_on_host(tensor(None).spec, card)
    for value in (1.0, 2.0):
        ttnn.copy_device_to_host_tensor(toys.plus(tensor(card, value)), host, blocking=blocking)
        ttnn.synchronize_device(card)
        assert host.to_torch().float().unique().tolist() == [value + 1]


def test_a_host_tensor_written_and_then_read_into_keeps_what_was_written(card, tensor):
    """The write has taken its values when it was enqueued."""
    x, y, host = tensor(card), tensor(card, 5.0), tensor(None, 1.0)
    ttnn.copy_host_to_device_tensor(host, x)
    ttnn.copy_device_to_host_tensor(y, host)
    assert ttnn.to_torch(x).float().unique().tolist() == [1.0]
    assert host.to_torch().float().unique().tolist() == [5.0]


def test_a_read_that_fails_says_so(card, tensor, toys):
    x = tensor(card)
    with pytest.raises(ArithmeticError):
        toys.broken(x).cpu()
    host = toys.broken(x).cpu(blocking=False)
    with pytest.raises(ArithmeticError):
        ttnn.synchronize_device(card)
    assert host.shape == x.shape


def test_wrong_arguments(card, tensor):
    host = tensor(None)
    for call in (
        lambda: ttnn.to_device(host, None),
        lambda: ttnn.to_device(torch.ones(2), card),
        lambda: ttnn.to_device(host, card, 3),
        lambda: ttnn.allocate_tensor_on_device(3),
        lambda: ttnn.allocate_tensor_on_device(),
        lambda: ttnn.deallocate(3),
        lambda: ttnn.copy_host_to_device_tensor(3, host),
        lambda: ttnn.from_torch([1, 2]),
    ):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(RuntimeError, match=r"bad optional access"):
        ttnn.to_device(host, card, ttnn.L1_HEIGHT_SHARDED_MEMORY_CONFIG)
    with pytest.raises(RuntimeError, match=r"Only TILE layout is supported for BFLOAT8_B dtype!"):
        ttnn.allocate_tensor_on_device(ttnn.Shape([32, 32]), ttnn.bfloat8_b, ttnn.ROW_MAJOR_LAYOUT, card)


def test_a_host_tensor_goes_to_dram_where_no_config_is_given(card):
    """Whatever its own config is, which `Tensor.to` keeps: recorded for shards and for L1."""
    shards = ttnn.create_sharded_memory_config((1, 1, 64, 96), ttnn.CoreGrid(x=1, y=2), ttnn.ShardStrategy.HEIGHT)
    for memory in (shards, ttnn.L1_MEMORY_CONFIG):
        host = ttnn.from_torch(torch.ones(1, 1, 64, 96), ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, memory_config=memory)
        assert ttnn.to_device(host, card).memory_config() == ttnn.DRAM_MEMORY_CONFIG
        assert host.to(card).memory_config() == memory
