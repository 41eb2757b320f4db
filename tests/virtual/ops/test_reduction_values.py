# SPDX-License-Identifier: Apache-2.0
"""Reductions: against recorded kernels and against torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.virtual.ops.test_matmul_values import free, pcc, put, random
from tests.virtual.ops.test_normalization_values import CASES, VALUES
from tt_cnn.virtual import ttnn

SUMS = [case for case in CASES if case["op"] in ("sum", "mean")]


@pytest.fixture(params=["device", "exact"])
def card(request: pytest.FixtureRequest) -> Iterator[ttnn.MeshDevice]:
    opened = ttnn.open_device(device_id=0, numerics=request.param)
    yield opened
    ttnn.close_device(opened)


@pytest.mark.parametrize("case", SUMS, ids=lambda case: f"{case['op']}-{case['id']}")
def test_exact_sums_equal_the_recorded_ones(case: dict) -> None:
    card = ttnn.open_device(device_id=0, numerics="exact")
    x = put(card, torch.from_numpy(VALUES[f"{case['id']}.in0"]), getattr(ttnn, case["args"]["dtype"]))
    found = ttnn.to_torch(getattr(ttnn, case["op"])(x, dim=-1)).float()
    ttnn.close_device(card)
    assert torch.equal(found, torch.from_numpy(VALUES[f"{case['id']}.out"]).float())


@pytest.mark.parametrize("layout", [ttnn.TILE_LAYOUT, ttnn.ROW_MAJOR_LAYOUT])
@pytest.mark.parametrize("op", ["sum", "mean", "max", "min"])
def test_tall_columns_are_reduced_in_slices(card: ttnn.MeshDevice, op: str, layout: ttnn.Layout) -> None:
    """750 rows are 24 rows of tiles, the last one not full: more than one core's share of a column."""
    x = random(2, 1, 750, 40)
    found = ttnn.to_torch(getattr(ttnn, op)(ttnn.from_torch(x, ttnn.float32, layout=layout, device=card), dim=2))
    reduced = {"max": torch.amax, "min": torch.amin}.get(op, getattr(torch, op))(x.float(), 2)
    assert torch.allclose(found.float(), reduced, rtol=2e-3, atol=2e-3)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    op=st.sampled_from(["sum", "mean", "max", "min", "var", "std"]),
    shape=st.tuples(st.integers(1, 2), st.integers(1, 3), st.integers(2, 70), st.integers(2, 70)),
    dim=st.sampled_from([-1, -2, 0, 1, (2, 3), (0, 1), None]),
    keepdim=st.booleans(),
    dtype=st.sampled_from([ttnn.bfloat16, ttnn.bfloat8_b, ttnn.float32]),
)
def test_reductions_are_close_to_torch(
    card: ttnn.MeshDevice, op: str, shape: tuple[int, ...], dim: object, keepdim: bool, dtype: ttnn.DataType
) -> None:
    before = free(card)
    tensor = put(card, random(*shape) + 1, dtype)
    x = ttnn.to_torch(tensor).float()
    count = x.numel() if dim is None else torch.ones(shape).sum(dim).max().item()
    if op in ("var", "std") and count < 2:
        return
    out = getattr(ttnn, op)(tensor, dim=list(dim) if isinstance(dim, tuple) else dim, keepdim=keepdim)
    dims = tuple(range(4)) if dim is None else dim
    function = {"max": torch.amax, "min": torch.amin}.get(op) or getattr(torch, op)
    expected = function(x, dims, keepdim=keepdim)
    found = ttnn.to_torch(out).float().reshape(expected.shape)
    assert tuple(out.shape) == tuple(expected.shape)
    room = {ttnn.bfloat16: 0.02, ttnn.bfloat8_b: 0.06, ttnn.float32: 0.02}[dtype]
    torch.testing.assert_close(found, expected, rtol=room, atol=room * max(1.0, float(expected.abs().max())))
    del out, tensor
    assert free(card) == before


@pytest.mark.parametrize("shape", [(2, 3, 64, 49), (1, 1, 20, 30)])
@pytest.mark.parametrize("dims", [(1,), (2, 3), (0, 1), (1, 3), (0, 1, 2, 3)])
@pytest.mark.parametrize("op", ["sum", "mean", "max"])
def test_the_scalar_counts_once(card: ttnn.MeshDevice, op: str, dims: tuple[int, ...], shape: tuple[int, ...]) -> None:
    x = (random(*shape) + 1).to(torch.bfloat16).float()
    found = ttnn.to_torch(getattr(ttnn, op)(put(card, x), dim=list(dims), scalar=0.3, keepdim=True)).float()
    expected = 0.3 * (torch.amax if op == "max" else getattr(torch, op))(x, dims, keepdim=True)
    torch.testing.assert_close(found, expected, rtol=0.02, atol=0.02)


def test_argmax_and_topk_find_places(card: ttnn.MeshDevice) -> None:
    x = random(1, 2, 33, 80).to(torch.bfloat16).float()
    assert torch.equal(ttnn.to_torch(ttnn.argmax(put(card, x), dim=-1)).long(), x.argmax(-1))
    values, indices = ttnn.topk(put(card, x), 5)
    expected = x.topk(5)
    assert torch.equal(ttnn.to_torch(values).float(), expected.values)
    assert torch.equal(x.gather(-1, ttnn.to_torch(indices).long()), expected.values)


@pytest.mark.parametrize("shape", [(2, 33, 40), (33, 40), (1, 1, 40, 33)])
def test_topk_of_other_ranks_and_short_rows(card: ttnn.MeshDevice, shape: tuple[int, ...]) -> None:
    x = random(*shape).to(torch.bfloat16).float()
    for dim in (-1, -2):
        values, indices = ttnn.topk(put(card, x), 5, dim)
        expected = x.topk(5, dim)
        assert torch.equal(ttnn.to_torch(values).float(), expected.values)
        assert torch.equal(x.gather(dim, ttnn.to_torch(indices).long()), expected.values)


def test_argmax_of_everything_may_keep_its_dimensions(card: ttnn.MeshDevice) -> None:
    x = random(2, 3, 40).to(torch.bfloat16).float()
    rows = ttnn.from_torch(x, dtype=ttnn.bfloat16, device=card)
    found = ttnn.argmax(rows, keepdim=True)
    assert tuple(found.shape) == (1, 1, 1) and ttnn.to_torch(found).item() == x.argmax().item()


@pytest.mark.parametrize("op", ["var", "std"])
def test_one_element_has_no_spread(card: ttnn.MeshDevice, op: str) -> None:
    x = put(card, random(1, 2, 33, 40))
    out = ttnn.to_torch(getattr(ttnn, op)(x, dim=0))
    assert tuple(out.shape) == (2, 33, 40) and out.isnan().all()
    assert not ttnn.to_torch(getattr(ttnn, op)(x, dim=0, correction=False)).any()


@pytest.mark.parametrize("shape", [(), (0, 32), (2, 0, 32)])
def test_cumsum_of_nothing_is_a_copy(card: ttnn.MeshDevice, shape: tuple[int, ...]) -> None:
    with card.record_commands() as commands:
        out = ttnn.cumsum(put(card, torch.ones(shape)), dim=5, dtype=ttnn.float32, memory_config=ttnn.L1_MEMORY_CONFIG)
    assert [step.step.op for command in commands for step in command.steps] == ["Clone"]
    assert out.dtype == ttnn.bfloat16 and out.memory_config() == ttnn.L1_MEMORY_CONFIG
    assert torch.equal(ttnn.to_torch(out).float(), torch.ones(shape))


def test_cumsum_and_prod_follow_torch(card: ttnn.MeshDevice) -> None:
    x = random(1, 1, 40, 50)
    assert pcc(ttnn.to_torch(ttnn.cumsum(put(card, x), dim=-1)), x.cumsum(-1)) > 0.9999
    small = 1 + 0.01 * random(2, 3, 8, 16)
    assert pcc(ttnn.to_torch(ttnn.prod(put(card, small, ttnn.float32), dim=1)), small.prod(1)) > 0.9999


@pytest.mark.parametrize(("op", "message"), [("sum", "Unsupported dim 5 at index 0"), ("mean", "rank 4")])
def test_bad_dimensions_are_refused(card: ttnn.MeshDevice, op: str, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        getattr(ttnn, op)(put(card, random(1, 1, 32, 32)), dim=5)


@pytest.mark.parametrize("call", ["prod", "cumsum", "var", "std"])
def test_sums_in_the_order_of_the_host_are_left_to_the_engine(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine on a GPU has them computed on the CPU in `exact` numerics."""
    card = ttnn.open_device(device_id=0, numerics="exact", engine="torch")
    seen: list[str] = []

    def in_host_order(function: Callable[..., Sequence[torch.Tensor]]) -> Callable[..., Sequence[torch.Tensor]]:
        return lambda *values: seen.append(call) or function(*values)

    monkeypatch.setattr(card.engine, "in_host_order", in_host_order)
    x = ttnn.from_torch(torch.randn(1, 1, 32, 32), dtype=ttnn.float32, layout=ttnn.TILE_LAYOUT, device=card)
    options = {"dim": -1} if call != "prod" else {}
    ttnn.to_torch(getattr(ttnn, call)(x, **options))
    ttnn.to_torch(ttnn.relu(x))
    ttnn.close_device(card)
    assert seen == [call]
