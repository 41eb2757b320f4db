# SPDX-License-Identifier: Apache-2.0
"""where, gather, scatter, sort and embedding do what torch's do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tests.virtual.ops.test_matmul_values import free, put, random
from tt_cnn.virtual import ttnn


@pytest.fixture
def card() -> Iterator[ttnn.MeshDevice]:
    opened = ttnn.open_device(device_id=0)
    yield opened
    ttnn.close_device(opened)


def exact(*shape: int, seed: int = 0) -> torch.Tensor:
    return random(*shape, seed=seed).to(torch.bfloat16).float()


def places(card: ttnn.MeshDevice, values: torch.Tensor, dtype: ttnn.DataType = ttnn.uint32) -> ttnn.Tensor:
    return ttnn.from_torch(values.to(torch.int32), dtype, layout=ttnn.TILE_LAYOUT, device=card)


@pytest.mark.parametrize("scalars", [(), (1,), (2,), (1, 2)])
def test_where_takes_tensors_and_numbers(card: ttnn.MeshDevice, scalars: tuple[int, ...]) -> None:
    before = free(card)
    condition, yes, no = (exact(1, 1, 40, 50, seed=s) for s in range(3))
    condition = (condition > 0).float()
    chosen = [v if i not in scalars else float(i) for i, v in ((1, yes), (2, no))]
    given = [put(card, v) if isinstance(v, torch.Tensor) else v for v in chosen]
    out = ttnn.to_torch(ttnn.where(put(card, condition), *given)).float()
    one, two = (v if isinstance(v, torch.Tensor) else torch.tensor(v) for v in chosen)
    assert torch.equal(out, torch.where(condition != 0, one, two))
    del given
    assert free(card) == before


@pytest.mark.parametrize("dim", [-1, 2, 1])
def test_gather_and_scatter_follow_torch(card: ttnn.MeshDevice, dim: int) -> None:
    x = exact(1, 3, 40, 64)
    shape = list(x.shape)
    shape[dim] = 2
    index = torch.stack([torch.randperm(x.shape[dim])[:2] for _ in range(x.numel() // x.shape[dim])])
    index = index.reshape(*[s for i, s in enumerate(shape) if i != dim % 4], 2).movedim(-1, dim)
    found = ttnn.to_torch(ttnn.gather(put(card, x), dim, places(card, index))).float()
    assert torch.equal(found, x.gather(dim, index))
    source = exact(*shape, seed=4)
    scattered = ttnn.scatter(put(card, x), dim, places(card, index, ttnn.int32), put(card, source))
    assert torch.equal(ttnn.to_torch(scattered).float(), x.scatter(dim, index, source))


@pytest.mark.parametrize("dim", [-1, 2])
def test_of_the_values_that_scatter_writes_to_one_place_the_last_stays(card: ttnn.MeshDevice, dim: int) -> None:
    generator = torch.Generator().manual_seed(0)
    x, source = (torch.randn(1, 2, 32, 32, generator=generator).bfloat16().float() for _ in range(2))
    index = torch.randint(0, 9, x.shape, generator=generator)
    expected = x.clone()
    for i in range(32):
        at = [slice(None)] * 4
        at[dim] = slice(i, i + 1)
        expected.scatter_(dim, index[tuple(at)], source[tuple(at)])
    scattered = ttnn.scatter(put(card, x), dim, places(card, index, ttnn.int32), put(card, source))
    assert torch.equal(ttnn.to_torch(scattered).float(), expected)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dim", [-1, 1])
def test_sort_returns_values_and_places(card: ttnn.MeshDevice, dim: int, descending: bool) -> None:
    x = exact(1, 4, 33, 64)
    values, indices = ttnn.sort(put(card, x), dim=dim, descending=descending)
    expected = x.sort(dim, descending=descending).values
    assert torch.equal(ttnn.to_torch(values).float(), expected)
    assert torch.equal(x.gather(dim, ttnn.to_torch(indices).long()), expected)


@pytest.mark.parametrize("layout", [None, ttnn.TILE_LAYOUT])
def test_embedding_looks_rows_up(card: ttnn.MeshDevice, layout: ttnn.Layout | None) -> None:
    table, numbers = exact(100, 64), torch.randint(0, 100, (2, 32))
    rows = ttnn.from_torch(table, ttnn.bfloat16, device=card)
    out = ttnn.embedding(ttnn.from_torch(numbers.to(torch.int32), ttnn.uint32, device=card), rows, layout=layout)
    assert torch.equal(ttnn.to_torch(out).float(), table[numbers])
