# SPDX-License-Identifier: Apache-2.0
"""Data-movement ops against torch: any shape, layout, dtype and sharding; memory is given back whatever happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tt_cnn.virtual import ttnn

SETTINGS = settings(max_examples=150, deadline=None, derandomize=True)
SHARDED = {
    "height": ttnn.TensorMemoryLayout.HEIGHT_SHARDED,
    "width": ttnn.TensorMemoryLayout.WIDTH_SHARDED,
    "block": ttnn.TensorMemoryLayout.BLOCK_SHARDED,
}


@pytest.fixture(scope="module")
def card() -> Iterator[Any]:
    device = ttnn.open_device(device_id=0, l1_small_size=65536)
    yield device
    ttnn.close_device(device)


def up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


@st.composite
def places(draw: Any, shape: list[int], layout: Any) -> Any:
    """DRAM, L1, or shards on a small grid."""
    kind = draw(st.sampled_from(["dram", "l1", "height", "width", "block"] if len(shape) > 1 else ["dram", "l1"]))
    if kind == "dram":
        return ttnn.DRAM_MEMORY_CONFIG
    if kind == "l1":
        return ttnn.L1_MEMORY_CONFIG
    unit = 32 if layout == ttnn.TILE_LAYOUT else 1
    rows, columns = up(shape[-2], unit), up(shape[-1], unit)
    for extent in shape[:-2]:
        rows *= extent
    x, y = draw(st.sampled_from([(1, 1), (2, 1), (2, 2), (4, 2)]))
    down, across = {"height": (x * y, 1), "width": (1, x * y), "block": (y, x)}[kind]
    shard = [up(-(-rows // down), unit), up(-(-columns // across), unit)]
    grid = ttnn.CoreRangeSet([ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(x - 1, y - 1))])
    spec = ttnn.ShardSpec(grid, shard, ttnn.ShardOrientation.ROW_MAJOR)
    return ttnn.MemoryConfig(SHARDED[kind], ttnn.BufferType.L1, spec)


EXTENTS = st.sampled_from([1, 2, 3, 5, 8, 16, 24, 32, 33, 48, 64, 96])
DTYPES = [ttnn.bfloat16, ttnn.float32, ttnn.uint32, ttnn.bfloat8_b]


@st.composite
def inputs(draw: Any, ranks: tuple[int, int] = (1, 5)) -> dict[str, Any]:
    rank = draw(st.integers(*ranks))
    shape = [draw(st.integers(1, 3)) for _ in range(max(rank - 2, 0))]
    shape += [draw(EXTENTS) for _ in range(min(rank, 2))]
    layout = draw(st.sampled_from([ttnn.TILE_LAYOUT, ttnn.ROW_MAJOR_LAYOUT]))
    dtype = draw(st.sampled_from(DTYPES if layout == ttnn.TILE_LAYOUT else DTYPES[:-1]))
    return {"shape": shape, "layout": layout, "dtype": dtype, "memory": draw(places(shape, layout))}


def values_of(shape: list[int], dtype: Any) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    if dtype == ttnn.uint32:
        return torch.randint(0, 1000, shape, generator=generator, dtype=torch.int32)
    values = torch.randn(shape, generator=generator)
    return values.bfloat16().float() if dtype == ttnn.bfloat16 else values


def used(card: Any) -> list[tuple[int, int]]:
    """Of memory, without the tables of programs that are cached."""
    card.disable_and_clear_program_cache()
    card.enable_program_cache()
    return [(region.allocated, region.largest_free) for region in card.memory.regions.values()]


def close(found: torch.Tensor, wanted: torch.Tensor, dtype: Any) -> bool:
    if found.shape != wanted.shape:
        return False
    if dtype != ttnn.bfloat8_b:
        return torch.equal(found.to(torch.float64), wanted.to(torch.float64))
    return pcc(found.double().flatten(), wanted.double().flatten()) >= 0.999


def pcc(a: torch.Tensor, b: torch.Tensor) -> float:
    if a.numel() < 2 or a.std() == 0 or b.std() == 0:
        return 1.0 if torch.allclose(a, b, rtol=0.02, atol=0.02) else 0.0
    return float(torch.corrcoef(torch.stack([a, b]))[0, 1])


def check(card: Any, given_: list[dict[str, Any]], call: Callable[..., Any], want: Callable[..., Any]) -> None:
    """A call gives torch's values or a clear refusal, and its memory comes back either way."""
    start = used(card)
    values = [values_of(one["shape"], one["dtype"]) for one in given_]
    try:
        tensors = [
            ttnn.from_torch(v, dtype=one["dtype"], layout=one["layout"], device=card, memory_config=one["memory"])
            for v, one in zip(values, given_, strict=True)
        ]
    except RuntimeError:
        assert used(card) == start
        return
    before = used(card)
    try:
        results = call(*tensors)
    except RuntimeError as error:
        assert str(error)
        assert used(card) == before
        return
    results = results if isinstance(results, list) else [results]
    held = [ttnn.to_torch(t) for t in tensors]
    wanted = want(*(h.to(torch.int32) if h.dtype == torch.uint32 else h.float() for h in held))
    wanted = list(wanted) if isinstance(wanted, (list, tuple)) else [wanted]
    assert len(results) == len(wanted)
    for result, one in zip(results, wanted, strict=True):
        found = ttnn.to_torch(result)
        found = found.to(torch.int32) if found.dtype == torch.uint32 else found.float()
        assert close(found, one, given_[0]["dtype"]), (given_, result.shape, tuple(one.shape))
    del results, result
    assert used(card) == before
    del tensors
    assert used(card) == start


@SETTINGS
@given(data=st.data(), x=inputs())
def test_concat(card: Any, data: Any, x: dict[str, Any]) -> None:
    dim = data.draw(st.integers(-len(x["shape"]), len(x["shape"]) - 1))
    other = list(x["shape"])
    other[dim] = data.draw(EXTENTS if dim in (-1, len(other) - 1) else st.integers(1, 3))
    second = {**x, "shape": other, "memory": data.draw(places(other, x["layout"]))}
    check(card, [x, second], lambda a, b: ttnn.concat([a, b], dim), lambda a, b: torch.cat([a, b], dim))


@SETTINGS
@given(data=st.data(), x=inputs())
def test_slice_and_getitem(card: Any, data: Any, x: dict[str, Any]) -> None:
    begins = [data.draw(st.integers(0, d - 1)) for d in x["shape"]]
    ends = [data.draw(st.integers(b + 1, d)) for b, d in zip(begins, x["shape"], strict=True)]
    steps = [data.draw(st.sampled_from([1, 1, 1, 2])) for _ in begins]
    index = tuple(slice(b, e, s) for b, e, s in zip(begins, ends, steps, strict=True))
    check(card, [x], lambda a: ttnn.slice(a, begins, ends, steps), lambda a: a[index])
    check(card, [x], lambda a: a[index], lambda a: a[index])


@SETTINGS
@given(data=st.data(), x=inputs())
def test_pad(card: Any, data: Any, x: dict[str, Any]) -> None:
    front = st.just(0) if x["layout"] == ttnn.TILE_LAYOUT else st.integers(0, 2)
    pairs = [(data.draw(front), data.draw(st.sampled_from([0, 1, 5, 32]))) for _ in x["shape"]]
    flat = [amount for pair in reversed(pairs) for amount in pair]
    check(card, [x], lambda a: ttnn.pad(a, pairs, 1.0), lambda a: torch.nn.functional.pad(a, flat, value=1))


@SETTINGS
@given(data=st.data(), x=inputs())
def test_reshape(card: Any, data: Any, x: dict[str, Any]) -> None:
    volume = torch.Size(x["shape"]).numel()
    first = data.draw(st.sampled_from([d for d in range(1, min(volume, 96) + 1) if volume % d == 0]))
    shape = data.draw(st.sampled_from([[first, volume // first], [1, volume // first, first], [-1, first], [volume]]))
    check(card, [x], lambda a: ttnn.reshape(a, shape), lambda a: a.reshape(shape))


@SETTINGS
@given(data=st.data(), x=inputs((2, 5)))
def test_permute_and_transpose(card: Any, data: Any, x: dict[str, Any]) -> None:
    dims = data.draw(st.permutations(range(len(x["shape"]))))
    check(card, [x], lambda a: ttnn.permute(a, dims), lambda a: a.permute(*dims))
    check(card, [x], lambda a: ttnn.transpose(a, dims[0], dims[1]), lambda a: a.transpose(dims[0], dims[1]))


@SETTINGS
@given(data=st.data(), x=inputs((2, 4)))
def test_split_and_chunk(card: Any, data: Any, x: dict[str, Any]) -> None:
    dim = data.draw(st.integers(0, len(x["shape"]) - 1))
    size = data.draw(st.integers(1, x["shape"][dim]))
    check(card, [x], lambda a: ttnn.split(a, size, dim), lambda a: a.split(size, dim))
    check(card, [x], lambda a: ttnn.chunk(a, 3, dim), lambda a: a.chunk(3, dim))


@SETTINGS
@given(data=st.data(), x=inputs((2, 4)))
def test_repeat_expand_roll(card: Any, data: Any, x: dict[str, Any]) -> None:
    times = [data.draw(st.sampled_from([1, 1, 2, 3])) for _ in x["shape"]]
    dim = data.draw(st.integers(0, len(times) - 1))
    shift = data.draw(st.integers(-40, 40))
    check(card, [x], lambda a: ttnn.repeat(a, times), lambda a: a.repeat(times))
    check(card, [x], lambda a: ttnn.repeat_interleave(a, 2, dim), lambda a: a.repeat_interleave(2, dim))
    check(card, [x], lambda a: ttnn.roll(a, shift, dim), lambda a: a.roll(shift, dim))
    narrow = {**x, "shape": [1, *x["shape"][1:]], "memory": ttnn.DRAM_MEMORY_CONFIG}
    shape = [3, *x["shape"][1:]]
    check(card, [narrow], lambda a: ttnn.expand(a, shape), lambda a: a.expand(shape))


@SETTINGS
@given(data=st.data(), x=inputs((1, 4)))
def test_squeezing_and_stacking(card: Any, data: Any, x: dict[str, Any]) -> None:
    dim = data.draw(st.integers(0, len(x["shape"])))
    check(card, [x], lambda a: ttnn.unsqueeze(a, dim), lambda a: a.unsqueeze(dim))
    check(card, [x], ttnn.squeeze, torch.squeeze)
    plain = {**x, "memory": ttnn.DRAM_MEMORY_CONFIG}
    check(card, [plain, plain], lambda a, b: ttnn.stack([a, b], dim), lambda a, b: torch.stack([a, b], dim))


@SETTINGS
@given(data=st.data())
def test_fold_packs_patches_into_channels(card: Any, data: Any) -> None:
    n, rows, columns, c = (data.draw(st.sampled_from(some)) for some in ([1, 2], [2, 4, 8], [4, 8], [3, 4, 8, 16]))
    sh, sw = data.draw(st.sampled_from([(2, 2), (1, 2), (2, 1)]))
    shape = [n, rows, columns, c]
    layout = data.draw(st.sampled_from([ttnn.TILE_LAYOUT, ttnn.ROW_MAJOR_LAYOUT]))
    x = {"shape": shape, "layout": layout, "dtype": ttnn.bfloat16, "memory": data.draw(places(shape, layout))}

    def patches(a: torch.Tensor) -> torch.Tensor:
        parts = a.reshape(n, rows // sh, sh, columns // sw, sw, c).permute(0, 1, 3, 2, 4, 5)
        return parts.reshape(n, rows // sh, columns // sw, sh * sw * c)

    check(card, [x], lambda a: ttnn.fold(a, sh, sw), patches)


def test_groups_are_joined_one_after_the_other(card: Any) -> None:
    """`groups` interleaves parts of two height-sharded tensors, as grouped convolutions need it."""
    a, b = torch.arange(64 * 64.0).reshape(1, 1, 64, 64), -torch.arange(64 * 32.0).reshape(1, 1, 64, 32)
    a, b = a.bfloat16().float(), b.bfloat16().float()

    def shards(width: int) -> Any:
        grid = ttnn.CoreRangeSet([ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(1, 0))])
        spec = ttnn.ShardSpec(grid, [32, width], ttnn.ShardOrientation.ROW_MAJOR)
        return ttnn.MemoryConfig(SHARDED["height"], ttnn.BufferType.L1, spec)

    tensors = [
        ttnn.from_torch(v, dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT, device=card, memory_config=shards(w))
        for v, w in ((a, 64), (b, 32))
    ]
    joined = ttnn.to_torch(ttnn.concat(tensors, -1, groups=2, memory_config=shards(96))).float()
    assert torch.equal(joined, torch.cat([a[..., :32], b[..., :16], a[..., 32:], b[..., 16:]], -1))


def test_a_view_shares_memory_and_a_copy_does_not(card: Any) -> None:
    x = ttnn.from_torch(torch.zeros(1, 1, 64, 32), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=card)
    assert ttnn.reshape(x, [1, 2, 32, 32]).buffer_address() == x.buffer_address()
    assert x.reshape(2, 32, 32).buffer_address() == x.buffer_address()
    assert ttnn.reshape(x, [1, 1, 32, 64]).buffer_address() != x.buffer_address()


def test_slices_can_land_in_a_given_tensor(card: Any) -> None:
    values = torch.arange(64 * 32.0).reshape(1, 1, 64, 32).bfloat16()
    x = ttnn.from_torch(values, layout=ttnn.ROW_MAJOR_LAYOUT, device=card)
    out = ttnn.from_torch(torch.zeros(1, 1, 10, 32).bfloat16(), layout=ttnn.ROW_MAJOR_LAYOUT, device=card)
    address = out.buffer_address()
    result = ttnn.slice(x, [0, 0, 5, 0], [1, 1, 15, 32], output_tensor=out)
    assert result.buffer_address() == address
    assert torch.equal(ttnn.to_torch(out), values[:, :, 5:15])


def test_the_map_of_a_reshape_stays_while_its_program_is_cached(card: Any) -> None:
    """Seen on TT-NN 0.81.1, mocked n150: 2176 B a bank of DRAM after the first call, none more after the second."""
    x = ttnn.zeros((1, 1, 96, 80), layout=ttnn.TILE_LAYOUT, device=card)
    before = used(card)
    dram = card.memory.regions[ttnn.BufferType.DRAM]
    held = dram.allocated
    for _ in range(2):
        ttnn.deallocate(ttnn.reshape(x, (1, 1, 80, 96)))
        assert dram.allocated == held + 2176
    assert used(card) == before
    card.disable_and_clear_program_cache()
    ttnn.deallocate(ttnn.reshape(x, (1, 1, 80, 96)))
    assert dram.allocated == held
    card.enable_program_cache()
