# SPDX-License-Identifier: Apache-2.0
"""Tensors given for results hold the results, and other parameters that were ignored change what they should."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.virtual.ops.image_cards import NUMERICS, card, image, in_use
from tt_cnn.virtual import ttnn

TILE, ROWS = ttnn.TILE_LAYOUT, ttnn.ROW_MAJOR_LAYOUT


@pytest.fixture(params=NUMERICS)
def device(request: Any) -> Iterator[ttnn.MeshDevice]:
    with card(request.param) as opened:
        yield opened


def put(device: Any, values: torch.Tensor, dtype: Any = ttnn.bfloat16, layout: Any = TILE) -> ttnn.Tensor:
    return ttnn.from_torch(values, dtype, layout=layout, device=device)


def room(device: Any, *shape: int, dtype: Any = ttnn.bfloat16, layout: Any = TILE) -> ttnn.Tensor:
    """A tensor that holds something else."""
    return put(device, torch.full(shape, 7), dtype, layout)


def values(tensor: ttnn.Tensor) -> torch.Tensor:
    return ttnn.to_torch(tensor).float()


def grid(*corners: tuple[int, int]) -> ttnn.CoreRangeSet:
    first, last = corners
    return ttnn.CoreRangeSet([ttnn.CoreRange(ttnn.CoreCoord(*first), ttnn.CoreCoord(*last))])


def test_gather_writes_out(device: Any) -> None:
    x, index = image(1, 1, 64, 128), torch.randint(0, 128, (1, 1, 64, 64))
    source, places, out = put(device, x), put(device, index, ttnn.uint16), room(device, 1, 1, 64, 64)
    before = in_use(device)
    returned = ttnn.gather(source, 3, places, out=out)
    assert torch.equal(values(out), x.gather(3, index)) and returned.buffer_address() == out.buffer_address()
    assert in_use(device) == before


def test_sort_writes_out(device: Any) -> None:
    x = torch.randperm(128).float().expand(1, 1, 64, 128).contiguous()
    out = room(device, 1, 1, 64, 128), room(device, 1, 1, 64, 128, dtype=ttnn.uint16)
    ttnn.sort(put(device, x), out=out)
    expected = x.sort()
    assert torch.equal(values(out[0]), expected.values) and torch.equal(values(out[1]), expected.indices.float())


def test_sort_of_one_element_writes_out(device: Any) -> None:
    x = image(1, 1, 64, 1)
    out = room(device, 1, 1, 64, 1), room(device, 1, 1, 64, 1, dtype=ttnn.uint16)
    ttnn.sort(put(device, x), out=out)
    assert torch.equal(values(out[0]), x) and not values(out[1]).any()


@pytest.mark.parametrize("layout", [ROWS, TILE], ids=str)
@pytest.mark.parametrize("dim", [3, 1])
def test_argmax_writes_its_output_tensor(device: Any, layout: Any, dim: int) -> None:
    x = image(2, 4, 64, 128)
    shape = [size for i, size in enumerate(x.shape) if i != dim]
    out = room(device, *shape, dtype=ttnn.uint32, layout=ROWS)
    ttnn.argmax(put(device, x, layout=layout), dim=dim, output_tensor=out)
    assert torch.equal(values(out), x.argmax(dim).float())


@pytest.mark.parametrize("shape", [(1, 1, 64, 128), (64, 128)])
def test_topk_writes_its_output_tensor(device: Any, shape: tuple[int, ...]) -> None:
    x = torch.stack([torch.randperm(128) for _ in range(64)]).float().reshape(shape)
    sizes = (*shape[:-1], 32)
    out = room(device, *sizes), room(device, *sizes, dtype=ttnn.uint16)
    ttnn.topk(put(device, x), 32, output_tensor=out)
    expected = x.topk(32)
    assert torch.equal(values(out[0]), expected.values) and torch.equal(values(out[1]), expected.indices.float())


def test_topk_returns_the_numbers_that_it_is_given(device: Any) -> None:
    x = torch.stack([torch.randperm(128) for _ in range(64)]).float().reshape(1, 1, 64, 128)
    names = torch.arange(1000, 1128).expand(1, 1, 64, 128).contiguous()
    _, found = ttnn.topk(put(device, x), 32, indices_tensor=put(device, names, ttnn.uint16))
    assert torch.equal(values(found), x.topk(32).indices.float() + 1000)


def test_a_stable_topk_takes_equal_elements_in_their_order(device: Any) -> None:
    found = ttnn.topk(put(device, torch.zeros(1, 1, 32, 128)), 32, stable=True)[1]
    assert torch.equal(values(found), torch.arange(32.0).expand(1, 1, 32, 32))


@pytest.mark.parametrize(("shape", "layout"), [((1, 32, 128), ROWS), ((1, 1, 32, 128), ROWS), ((1, 32, 128), TILE)])
def test_embedding_writes_its_output_tensor(device: Any, shape: tuple[int, ...], layout: Any) -> None:
    table, index = image(512, 128), torch.randint(0, 512, (1, 32))
    out = room(device, *shape, layout=layout)
    given = put(device, index, ttnn.uint32, ROWS), put(device, table, layout=ROWS)
    returned = ttnn.embedding(*given, layout=layout, output_tensor=out, padding_idx=3)
    assert torch.equal(values(out).reshape(1, 32, 128), table[index]) and list(returned.shape) == [1, 32, 128]


def test_batch_norm_writes_its_output(device: Any) -> None:
    x, mean, variance = image(1, 32, 32, 32), image(1, 32, 1, 1), image(1, 32, 1, 1, seed=1).abs() + 1
    out = room(device, 1, 32, 32, 32)
    ttnn.batch_norm(put(device, x), running_mean=put(device, mean), running_var=put(device, variance), output=out)
    expected = F.batch_norm(x, mean.flatten(), variance.flatten())
    assert (values(out) - expected).abs().max() < 0.05


@pytest.mark.parametrize("op", ["gather", "sort", "topk", "cumsum"])
def test_outputs_that_ttnn_leaves_unwritten_are_warned_of(op: str) -> None:
    """Recorded: for another dimension than the last, TT-NN transposes copies of what it is given."""
    x = torch.randperm(64 * 128).reshape(1, 1, 64, 128).remainder(2 if op == "cumsum" else 97).float()
    with card() as device, pytest.warns(UserWarning, match=f"ttnn.{op} leaves the tensor that was given"):
        source = put(device, x)
        if op == "gather":
            out = (room(device, 1, 1, 32, 128),)
            index = torch.randint(0, 64, (1, 1, 32, 128))
            found = ttnn.gather(source, 2, put(device, index, ttnn.uint16), out=out[0])
            expected = x.gather(2, index)
        elif op == "cumsum":
            out = (room(device, 1, 1, 64, 128),)
            found, expected = ttnn.cumsum(source, 3, out=out[0]), x.cumsum(3)
        else:
            rows = 64 if op == "sort" else 32
            out = room(device, 1, 1, rows, 128), room(device, 1, 1, rows, 128, dtype=ttnn.uint16)
            found = (ttnn.sort(source, 2, out=out) if op == "sort" else ttnn.topk(source, 32, 2, output_tensor=out))[0]
            expected = x.sort(2).values if op == "sort" else x.topk(32, 2).values
        assert torch.equal(values(found), expected) and (values(out[0]) == 7).all()


@pytest.mark.parametrize("dim", [3, 2, 1, [2, 3]], ids=str)
@pytest.mark.parametrize("op", ["sum", "mean"])
def test_reductions_have_the_layout_that_is_asked_for(device: Any, op: str, dim: Any) -> None:
    x = torch.randint(-8, 8, (1, 4, 64, 64)).float()
    source = put(device, x)
    found = getattr(ttnn, op)(source, dim, output_layout=ROWS)
    assert found.layout is ROWS and torch.equal(values(found), values(getattr(ttnn, op)(source, dim)))


@pytest.mark.parametrize("op", ["sum", "mean", "max"])
def test_fast_reductions_of_float32_lose_bits(op: str) -> None:
    """On the matrix unit, which does not hold all of them."""
    x = torch.rand(1, 1, 32, 64) + 1
    with card() as device:
        source = put(device, x, ttnn.float32)
        slow, fast = (values(getattr(ttnn, op)(source, 3, fast_and_approximate_mode=mode)) for mode in (False, True))
    expected = x.amax(3) if op == "max" else getattr(x, op)(3)
    assert (slow - expected).abs().max() <= (fast - expected).abs().max() < 0.2
    if op != "max":
        assert not torch.equal(slow, fast)


def test_softmax_in_place_follows_its_program(device: Any) -> None:
    x = image(1, 1, 512, 128)
    shard = ttnn.ShardSpec(grid((0, 0), (7, 0)), [64, 128], ttnn.ShardOrientation.ROW_MAJOR)
    config = ttnn.MemoryConfig(ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.BufferType.L1, shard)
    tensor = ttnn.to_memory_config(put(device, x), config)
    program = ttnn.SoftmaxShardedMultiCoreProgramConfig(
        compute_with_storage_grid_size=ttnn.CoreCoord(8, 1), subblock_w=2, block_h=2, block_w=4
    )
    ttnn.softmax_in_place(tensor, program_config=program)
    assert (values(tensor) - x.softmax(-1)).abs().max() < 0.02


def test_group_norm_is_in_place_unless_told_otherwise(device: Any) -> None:
    x = image(1, 1, 1024, 256)
    shard = ttnn.ShardSpec(grid((0, 0), (3, 3)), [256, 64], ttnn.ShardOrientation.ROW_MAJOR)
    config = ttnn.MemoryConfig(ttnn.TensorMemoryLayout.BLOCK_SHARDED, ttnn.BufferType.L1, shard)
    tensor = ttnn.to_memory_config(put(device, x, layout=ROWS), config)
    expected = F.group_norm(x.reshape(1, 1024, 256).mT, 8).mT.reshape(x.shape)
    out = ttnn.group_norm(tensor, num_groups=8, core_grid=ttnn.CoreGrid(y=4, x=4))
    assert out.buffer_address() == tensor.buffer_address() and (values(tensor) - expected).abs().max() < 0.05
    with pytest.raises(RuntimeError, match="Tile layout requires non-inplace tensors"):
        ttnn.group_norm(put(device, x), num_groups=8)


def test_columns_share_exponents_where_asked() -> None:
    x = torch.tensor([1.0, 100.0]).repeat(16).expand(32, 32).contiguous()
    plain = ttnn.to_torch(ttnn.from_torch(x, ttnn.bfloat4_b, layout=TILE))
    turned = ttnn.to_torch(ttnn.from_torch(x, ttnn.bfloat4_b, layout=TILE, col_tilize=True))
    assert not torch.equal(plain, x) and torch.equal(turned, ttnn.to_torch(ttnn.from_torch(x.mT, ttnn.bfloat4_b)))
    assert (turned[::2] == 1).all()
    with pytest.raises(RuntimeError, match="requires BFP dtype"):
        ttnn.from_torch(x, ttnn.bfloat16, col_tilize=True)


def test_sigmoid_of_columns_leaves_the_right_half_of_tiles(device: Any) -> None:
    x = image(1, 1, 64, 64)
    found = values(ttnn.sigmoid(put(device, x), vector_mode=2))
    left = torch.arange(64) % 32 < 16
    assert torch.equal(found[..., ~left], x[..., ~left]) and (found - x.sigmoid())[..., left].abs().max() < 0.01


REFUSED = {
    "scatter": lambda x, i: ttnn.scatter(x, 3, i, x, reduce="add"),
    "add": lambda x, _: ttnn.add(x, x, sub_device_id=0),
    "matmul": lambda x, _: ttnn.matmul(x, x, global_cb=object()),
    "synchronize_device": lambda x, _: ttnn.synchronize_device(x.device(), sub_device_ids=[0]),
    "record_event": lambda x, _: ttnn.record_event(x.device(), 0, [0]),
    "topk": lambda x, i: ttnn.topk(x, 8, 2, indices_tensor=i),
}


@pytest.mark.parametrize("op", REFUSED)
def test_what_is_not_followed_is_refused_by_name(op: str) -> None:
    with card() as device:
        x, index = put(device, image(1, 1, 64, 64)), put(device, torch.zeros(1, 1, 64, 64), ttnn.uint16)
        before = in_use(device)
        with pytest.raises(NotImplementedError, match=rf"the virtual card has no ttnn.{op}\(\w+=\).*Leave it out"):
            REFUSED[op](x, index)
        assert in_use(device) == before


def test_a_card_is_not_opened_with_what_is_not_followed() -> None:
    for opening in (ttnn.open_device, ttnn.open_mesh_device):
        with pytest.raises(NotImplementedError, match="worker_l1_size"):
            opening(worker_l1_size=1000)


def test_nothing_is_said_of_outputs_that_are_written() -> None:
    with warnings.catch_warnings(), card() as device:
        warnings.simplefilter("error", UserWarning)
        out = room(device, 1, 1, 64, 32), room(device, 1, 1, 64, 32, dtype=ttnn.uint16)
        ttnn.topk(put(device, image(1, 1, 64, 128)), 32, output_tensor=out)


def test_where_refuses_an_output_of_another_shape(device: ttnn.MeshDevice) -> None:
    x, small = (put(device, image(1, 1, 32, width), layout=TILE) for width in (32, 1))
    with pytest.raises(RuntimeError, match="Ternary operation requires its shape to match the computed shape"):
        ttnn.where(x, x, x, output_tensor=small)


def test_the_smaller_rank_keeps_the_sum_in_place(device: ttnn.MeshDevice) -> None:
    x = torch.arange(40.0 * 33).remainder(64).reshape(40, 33)
    held = put(device, x)
    ttnn.sub_(held, put(device, torch.ones(1, 1, 1, 1)))
    assert torch.equal(ttnn.to_torch(held), (x - 1).bfloat16())
