# SPDX-License-Identifier: Apache-2.0
"""Layouts, memories and dtypes keep values, give back what they take, and make what their specs say."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tt_cnn.virtual import ttnn
from tt_cnn.virtual.numerics.packer import pack
from tt_cnn.virtual.types import DataType

QUICK = settings(max_examples=60, deadline=None)


@pytest.fixture(scope="module")
def device() -> Iterator[Any]:
    card = ttnn.open_device(device_id=0, l1_small_size=32768, hazards="raise")
    yield card
    ttnn.close_device(card)


def up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def rectangle(x: int, y: int, dx: int = 0, dy: int = 0) -> Any:
    return ttnn.CoreRangeSet([ttnn.CoreRange(ttnn.CoreCoord(dx, dy), ttnn.CoreCoord(dx + x - 1, dy + y - 1))])


@st.composite
def shapes(draw: Any) -> tuple[int, ...]:
    outer = draw(st.lists(st.integers(1, 3), max_size=2))
    return (*outer, draw(st.integers(1, 100)), draw(st.sampled_from([8, 16, 24, 32, 40, 64, 96, 100])))


@st.composite
def placed(draw: Any, shape: tuple[int, ...]) -> Any:
    """Memory configs that take the shape in tiles and (with rows of 16 bytes and more) in rows."""
    kind = draw(st.sampled_from(["dram", "l1", "height", "width", "block"]))
    if kind == "dram":
        return ttnn.DRAM_MEMORY_CONFIG
    if kind == "l1":
        return ttnn.L1_MEMORY_CONFIG
    height, width = prod(shape[:-2]) * up(shape[-2], 32), up(shape[-1], 32)
    orientation = draw(st.sampled_from([ttnn.ShardOrientation.ROW_MAJOR, ttnn.ShardOrientation.COL_MAJOR]))
    if kind == "height":
        rows = up(-(-height // draw(st.integers(1, 32))), 32)
        layout, shard, grid = "HEIGHT_SHARDED", (rows, width), rectangle(8, 4, 0, draw(st.integers(0, 4)))
    elif kind == "width":
        columns = up(-(-width // draw(st.integers(1, 4))), 32)
        layout, shard, grid = "WIDTH_SHARDED", (height, columns), rectangle(2, 4, draw(st.integers(0, 6)))
    else:
        layout, shard, grid = "BLOCK_SHARDED", (up(-(-height // 4), 32), up(-(-width // 4), 32)), rectangle(4, 4, 2, 3)
    memory_layout = getattr(ttnn.TensorMemoryLayout, layout)
    return ttnn.MemoryConfig(memory_layout, ttnn.BufferType.L1, ttnn.ShardSpec(grid, shard, orientation))


def in_use(device: Any) -> list[int]:
    kinds = (ttnn.BufferType.L1, ttnn.BufferType.DRAM)
    return [ttnn.get_memory_view(device, kind).total_bytes_allocated_per_bank for kind in kinds]


def numbers(shape: tuple[int, ...], dtype: Any, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    if dtype in (ttnn.bfloat16, ttnn.float32):
        values = torch.randn(shape, generator=generator)
        return values if dtype is ttnn.float32 else values.bfloat16()
    kind = {ttnn.int32: torch.int32, ttnn.uint32: torch.int64, ttnn.uint16: torch.int32}[dtype]
    return torch.randint(0, 60000, shape, generator=generator, dtype=kind)


EXACT = [ttnn.bfloat16, ttnn.float32, ttnn.int32, ttnn.uint32, ttnn.uint16]


@QUICK
@given(st.data(), shapes(), st.sampled_from(EXACT), st.integers(0, 99))
def test_round_trips_through_layouts_and_memories_keep_values(
    device: Any, data: Any, shape: tuple[int, ...], dtype: Any, seed: int
) -> None:
    before = in_use(device)
    values = numbers(shape, dtype, seed)
    x = ttnn.from_torch(values, dtype=dtype, layout=ttnn.TILE_LAYOUT, device=device)
    for _ in range(3):
        config = data.draw(placed(shape))
        x = ttnn.to_memory_config(x, config)
        assert x.memory_config() == config and x.shape == shape and x.dtype is dtype
    x = ttnn.to_layout(ttnn.to_memory_config(x, ttnn.DRAM_MEMORY_CONFIG), ttnn.ROW_MAJOR_LAYOUT)
    assert x.padded_shape == shape and x.layout is ttnn.ROW_MAJOR_LAYOUT
    y = ttnn.clone(ttnn.to_layout(x, ttnn.TILE_LAYOUT, memory_config=ttnn.L1_MEMORY_CONFIG))
    assert torch.equal(ttnn.to_torch(y).to(values.dtype), values)
    assert torch.equal(ttnn.to_torch(x).to(values.dtype), values)
    del x, y
    assert in_use(device) == before


@QUICK
@given(st.data(), shapes(), st.sampled_from([ttnn.bfloat8_b, ttnn.bfloat4_b]), st.integers(0, 99))
def test_a_dtype_change_packs_as_the_card_does(
    device: Any, data: Any, shape: tuple[int, ...], dtype: Any, seed: int
) -> None:
    values = numbers(shape, ttnn.float32, seed)
    x = ttnn.from_torch(values, layout=ttnn.TILE_LAYOUT, device=device)
    packed = ttnn.to_memory_config(x, data.draw(placed(shape)), dtype=dtype)
    if packed.dtype is not dtype:  # the same config gives the same tensor, whatever dtype is asked for
        assert packed.buffer_unique_id() == x.buffer_unique_id()
        packed = ttnn.clone(x, dtype=dtype)
    padded = torch.nn.functional.pad(values, (0, up(shape[-1], 32) - shape[-1], 0, up(shape[-2], 32) - shape[-2]))
    want = pack(padded, DataType[dtype.name])[..., : shape[-2], : shape[-1]]
    assert torch.equal(ttnn.to_torch(packed), want)


@QUICK
@given(shapes(), st.floats(-100, 100, width=16))
def test_tilizing_pads_with_the_value_that_is_given(device: Any, shape: tuple[int, ...], value: float) -> None:
    x = ttnn.from_torch(torch.zeros(shape), device=device)
    padded = [*shape[:-2], up(shape[-2], 32), up(shape[-1], 32)]
    for tiles in (
        ttnn.to_layout(x, ttnn.TILE_LAYOUT, pad_value=value),
        ttnn.tilize_with_val_padding(x, padded, value),
    ):
        read = tiles.cpu().to_torch_with_padded_shape()
        outside = torch.ones(padded, dtype=torch.bool)
        outside[..., : shape[-2], : shape[-1]] = False
        assert list(tiles.padded_shape) == padded
        assert read[outside].eq(value).all() and not read[~outside].any()


@QUICK
@given(st.data(), shapes())
def test_untilizing_cuts_after_the_given_indices(device: Any, data: Any, shape: tuple[int, ...]) -> None:
    values = numbers(shape, ttnn.bfloat16, 1)
    x = ttnn.from_torch(values, layout=ttnn.TILE_LAYOUT, device=device)
    ends = [*(d - 1 for d in shape[:-2]), data.draw(st.integers(0, shape[-2] - 1)), shape[-1] - 1]
    rows = ttnn.untilize_with_unpadding(x, ends)
    assert torch.equal(ttnn.to_torch(rows), values[..., : ends[-2] + 1, :])


@QUICK
@given(st.data(), shapes(), shapes())
def test_a_refused_call_leaves_memory_as_it_was(
    device: Any, data: Any, shape: tuple[int, ...], other: tuple[int, ...]
) -> None:
    x = ttnn.from_torch(numbers(shape, ttnn.bfloat16, 2), layout=ttnn.TILE_LAYOUT, device=device)
    config = data.draw(placed(other))
    before = in_use(device)
    try:
        y = ttnn.to_layout(x, ttnn.ROW_MAJOR_LAYOUT, memory_config=config)
    except RuntimeError:
        assert in_use(device) == before
    else:
        assert torch.equal(ttnn.to_torch(y), ttnn.to_torch(x))


def test_out_of_memory_leaves_memory_as_it_was(device: Any) -> None:
    x = ttnn.zeros([1, 1, 64 * 300, 1024], device=device, layout=ttnn.TILE_LAYOUT, memory_config=ttnn.L1_MEMORY_CONFIG)
    before = in_use(device)
    with pytest.raises(
        RuntimeError, match=r"Out of Memory: Not enough space to allocate 78643200 B L1 buffer across 64"
    ):
        ttnn.clone(x, dtype=ttnn.float32)
    assert in_use(device) == before


def test_move_goes_up_into_the_hole_and_keeps_values(device: Any) -> None:
    l1 = ttnn.L1_MEMORY_CONFIG
    values = torch.randn(1, 1, 64, 64).bfloat16()
    hole = ttnn.from_torch(values, layout=ttnn.TILE_LAYOUT, device=device, memory_config=l1)
    top = hole.buffer_address()
    x = ttnn.from_torch(values, layout=ttnn.TILE_LAYOUT, device=device, memory_config=l1)
    below = x.buffer_address()
    ttnn.deallocate(hole)
    moved = ttnn.reallocate(x)
    assert below < top == moved.buffer_address()
    assert not x.is_allocated() and torch.equal(ttnn.to_torch(moved), values)
    stays = ttnn.move(moved)
    assert stays.buffer_address() == top and torch.equal(ttnn.to_torch(stays), values)


def test_move_of_shared_memory(device: Any) -> None:
    """An interleaved tensor stays where it is while a view holds its memory; shards are refused."""
    x = ttnn.from_torch(torch.ones(1, 2, 32, 64), layout=ttnn.TILE_LAYOUT, device=device, dtype=ttnn.bfloat16)
    view = ttnn.reshape(x, (1, 1, 64, 64))
    assert ttnn.move(x).buffer_unique_id() == x.buffer_unique_id() and view.is_allocated()
    grid = rectangle(2, 1)
    spec = ttnn.ShardSpec(grid, (32, 64), ttnn.ShardOrientation.ROW_MAJOR)
    config = ttnn.MemoryConfig(ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.BufferType.L1, spec)
    shards = ttnn.to_memory_config(x, config)
    other = ttnn.reshape(shards, (1, 1, 64, 64))
    with pytest.raises(RuntimeError, match="Expect input tensor to be deallocated after move op"):
        ttnn.move(shards)
    assert other.is_allocated()


def test_copies_into_tensors_that_exist(device: Any) -> None:
    values = torch.randn(1, 1, 40, 96).bfloat16()
    x = ttnn.from_torch(values, layout=ttnn.TILE_LAYOUT, device=device)
    for op in (ttnn.copy, ttnn.assign):
        target = ttnn.zeros([1, 1, 40, 96], ttnn.bfloat16, ttnn.TILE_LAYOUT, device, ttnn.L1_MEMORY_CONFIG)
        address = target.buffer_address()
        assert op(x, target) is target and target.buffer_address() == address
        assert torch.equal(ttnn.to_torch(target), values)
    made = ttnn.assign(x, memory_config=ttnn.L1_MEMORY_CONFIG, dtype=ttnn.float32)
    assert made.dtype is ttnn.float32 and torch.equal(ttnn.to_torch(made), values.float())


def test_a_program_that_does_not_fit_below_the_lowest_tensor(device: Any) -> None:
    """Recorded: dataflow buffers stack from the L1 base in DRAM units, and the lowest tensor is the limit."""
    card = ttnn.open_device(device_id=1, l1_small_size=65536)
    try:
        width = 331000
        spec = ttnn.ShardSpec(rectangle(8, 8), (1, width), ttnn.ShardOrientation.ROW_MAJOR)
        config = ttnn.MemoryConfig(ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.BufferType.L1, spec)
        shape = ttnn.Shape([1, 1, 64, width])
        fill = ttnn.allocate_tensor_on_device(shape, ttnn.float32, ttnn.ROW_MAJOR_LAYOUT, card, config)
        x = ttnn.zeros([1, 1, 640, 640], ttnn.bfloat16, ttnn.TILE_LAYOUT, card)
        with pytest.raises(
            RuntimeError,
            match=r"clash with L1 buffers on core range \[0-0 - 7-7\]\. L1 buffer allocated "
            r"at 109600 and static dataflow buffer region ends at 112096",
        ):
            ttnn.clone(x, dtype=ttnn.bfloat8_b)
        assert fill.is_allocated()
    finally:
        ttnn.close_device(card)
