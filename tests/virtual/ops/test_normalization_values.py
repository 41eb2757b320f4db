# SPDX-License-Identifier: Apache-2.0
"""Softmax and norms: against recorded kernels and against torch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as functional
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.virtual.ops.test_matmul_values import free, pcc, put, random
from tt_cnn.virtual import ttnn

GOLDEN = Path(__file__).parents[2] / "golden" / "data"
VALUES = np.load(GOLDEN / "values_rows.npz")
CASES = [json.loads(line)["case"] for line in (GOLDEN / "values_rows.jsonl").read_text().splitlines()]
SOFTMAX = [case for case in CASES if case["op"] == "softmax"]


@pytest.fixture(params=["device", "exact"])
def card(request: pytest.FixtureRequest) -> Iterator[ttnn.MeshDevice]:
    opened = ttnn.open_device(device_id=0, numerics=request.param)
    yield opened
    ttnn.close_device(opened)


@pytest.mark.parametrize("case", SOFTMAX, ids=lambda case: case["id"])
def test_exact_softmax_is_the_recorded_one(case: dict) -> None:
    card = ttnn.open_device(device_id=0, numerics="exact")
    x = put(card, torch.from_numpy(VALUES[f"{case['id']}.in0"]), getattr(ttnn, case["args"]["dtype"]))
    real = torch.from_numpy(VALUES[f"{case['id']}.out"]).float()
    found = ttnn.to_torch(ttnn.softmax(x, dim=-1)).float()
    ttnn.close_device(card)
    assert torch.equal(found, real)


def test_exact_layer_norm_is_the_recorded_one() -> None:
    (case,) = [case for case in CASES if case["op"] == "layer_norm"]
    card = ttnn.open_device(device_id=0, numerics="exact")
    x = put(card, torch.from_numpy(VALUES[f"{case['id']}.in0"]), ttnn.bfloat16)
    found = ttnn.to_torch(ttnn.layer_norm(x)).float()
    ttnn.close_device(card)
    assert torch.equal(found, torch.from_numpy(VALUES[f"{case['id']}.out"]).float())


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    shape=st.tuples(st.integers(1, 2), st.integers(1, 3), st.integers(1, 70), st.integers(2, 100)),
    dim=st.sampled_from([-1, -2, 1]),
)
def test_softmax_is_close_to_torch(card: ttnn.MeshDevice, shape: tuple[int, ...], dim: int) -> None:
    before = free(card)
    x = random(*shape)
    out = ttnn.softmax(put(card, x), dim=dim)
    expected = x.to(torch.bfloat16).float().softmax(dim)
    assert torch.allclose(ttnn.to_torch(out).float(), expected, atol=0.02, rtol=0.05)
    del out
    assert free(card) == before


@pytest.mark.parametrize("width", [32, 84, 256])
@pytest.mark.parametrize("affine", [False, True])
def test_layer_norm_is_close_to_torch(card: ttnn.MeshDevice, width: int, affine: bool) -> None:
    x, weight, bias = random(1, 2, 50, width), random(1, width), random(1, width, seed=5)
    options = {"weight": put(card, weight), "bias": put(card, bias)} if affine else {}
    out = ttnn.layer_norm(put(card, x), epsilon=1e-5, **options)
    scale, shift = (weight[0], bias[0]) if affine else (None, None)
    assert pcc(ttnn.to_torch(out), functional.layer_norm(x, (width,), scale, shift)) > 0.9999


def test_rms_norm_is_close_to_torch(card: ttnn.MeshDevice) -> None:
    x, weight = random(1, 1, 64, 128), random(1, 128)
    out = ttnn.rms_norm(put(card, x), epsilon=1e-5, weight=put(card, weight))
    assert pcc(ttnn.to_torch(out), functional.rms_norm(x, (128,), weight[0], 1e-5)) > 0.9995


def test_batch_norm_is_close_to_torch(card: ttnn.MeshDevice) -> None:
    x, mean, weight, bias = random(2, 8, 7, 9), *(random(1, 8, 1, 1, seed=s) for s in (1, 2, 3))
    variance = random(1, 8, 1, 1, seed=4).abs() + 0.5
    out = ttnn.batch_norm(
        put(card, x),
        running_mean=put(card, mean),
        running_var=put(card, variance),
        weight=put(card, weight),
        bias=put(card, bias),
    )
    statistics = [t.flatten() for t in (mean, variance, weight, bias)]
    assert pcc(ttnn.to_torch(out), functional.batch_norm(x, *statistics)) > 0.9999


def test_batch_norm_in_training_is_torchs_with_its_running_statistics(card: ttnn.MeshDevice) -> None:
    x, mean = random(2, 8, 7, 9), random(1, 8, 1, 1, seed=1)
    variance = random(1, 8, 1, 1, seed=2).abs() + 0.5
    x, mean, variance = (value.float() for value in (x, mean, variance))
    moved = {"running_mean": put(card, mean, ttnn.float32), "running_var": put(card, variance, ttnn.float32)}
    out = ttnn.batch_norm(put(card, x, ttnn.float32), training=True, momentum=0.25, **moved)
    own, spread = mean.flatten(), variance.flatten()
    expected = functional.batch_norm(x, own, spread, training=True, momentum=0.25)
    assert torch.allclose(ttnn.to_torch(out), expected, atol=1e-4)
    assert torch.allclose(ttnn.to_torch(moved["running_mean"]).flatten(), own, atol=1e-5)
    assert torch.allclose(ttnn.to_torch(moved["running_var"]).flatten(), spread, atol=1e-5)


def test_group_norm_is_close_to_torch(card: ttnn.MeshDevice) -> None:
    x, weight, bias = random(1, 1, 256, 128), random(128), random(128, seed=2)
    rows = [
        ttnn.from_torch(ttnn.create_group_norm_weight_bias_rm(t, 128, 1), ttnn.bfloat16, device=card)
        for t in (weight, bias)
    ]
    out = ttnn.group_norm(put(card, x), num_groups=32, epsilon=1e-5, weight=rows[0], bias=rows[1], inplace=False)
    expected = functional.group_norm(x.reshape(1, 256, 128).transpose(1, 2), 32, weight, bias)
    assert pcc(ttnn.to_torch(out), expected.transpose(1, 2)) > 0.9999


def test_softmax_in_place_writes_over_its_input(card: ttnn.MeshDevice) -> None:
    x = random(1, 1, 32, 64)
    tensor = put(card, x)
    address = tensor.buffer_address()
    out = ttnn.softmax_in_place(tensor)
    assert out.buffer_address() == address
    assert pcc(ttnn.to_torch(tensor), x.softmax(-1)) > 0.999
