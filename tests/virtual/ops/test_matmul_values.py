# SPDX-License-Identifier: Apache-2.0
"""What matmul and linear compute: against recorded kernels, against torch, batched, turned, biased, activated."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tt_cnn.virtual import ttnn

DATA = Path(__file__).parents[2] / "golden" / "data"
VALUES = np.load(DATA / "values_matmul.npz")
CASES = [json.loads(line)["case"] for line in (DATA / "values_matmul.jsonl").read_text().splitlines()]
LEAST = {ttnn.bfloat16: 0.9999, ttnn.bfloat8_b: 0.999, ttnn.float32: 0.9999}


@pytest.fixture
def device() -> Iterator[ttnn.MeshDevice]:
    card = ttnn.open_device(device_id=0)
    yield card
    ttnn.close_device(card)


@pytest.fixture
def exact_device() -> Iterator[ttnn.MeshDevice]:
    card = ttnn.open_device(device_id=0, numerics="exact")
    yield card
    ttnn.close_device(card)


def put(card: ttnn.MeshDevice, values: torch.Tensor, dtype: ttnn.DataType = ttnn.bfloat16) -> ttnn.Tensor:
    return ttnn.from_torch(values, dtype, layout=ttnn.TILE_LAYOUT, device=card)


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape)))


def pcc(a: torch.Tensor, b: torch.Tensor) -> float:
    return float(torch.corrcoef(torch.stack((a.flatten().double(), b.flatten().double())))[0, 1])


def free(card: ttnn.MeshDevice) -> tuple[int, int]:
    """Bytes a bank that tensors hold in L1 and DRAM; tables of cached programs go with the programs."""
    card.clear_program_cache()
    kinds = (ttnn.BufferType.L1, ttnn.BufferType.DRAM)
    l1, dram = (ttnn.get_memory_view(card, kind).total_bytes_allocated_per_bank for kind in kinds)
    return l1, dram


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_exact_products_equal_the_recorded_ones(exact_device: ttnn.MeshDevice, case: dict) -> None:
    a = case["args"]
    config = ttnn.init_device_compute_kernel_config(
        exact_device.arch(),
        math_fidelity=getattr(ttnn.MathFidelity, a["math_fidelity"]),
        math_approx_mode=True,
        fp32_dest_acc_en=a["fp32_dest_acc_en"],
        packer_l1_acc=a["packer_l1_acc"],
    )
    left, right = (
        put(exact_device, torch.from_numpy(VALUES[f"{case['id']}.in{i}"]), getattr(ttnn, a[key]))
        for i, key in enumerate(("dtype", "dtype_b"))
    )
    out = ttnn.matmul(left, right, dtype=getattr(ttnn, a["output_dtype"]), compute_kernel_config=config)
    assert torch.equal(ttnn.to_torch(out).float(), torch.from_numpy(VALUES[f"{case['id']}.out"]).float())


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    m=st.integers(1, 130),
    k=st.integers(1, 200),
    n=st.integers(1, 130),
    batch=st.sampled_from([(), (1, 1), (1, 3), (2, 2)]),
    dtype=st.sampled_from([ttnn.bfloat16, ttnn.bfloat8_b, ttnn.float32]),
    turned=st.sampled_from([(False, False), (True, False), (False, True)]),
    both=st.booleans(),
)
def test_products_are_close_to_torch(
    device: ttnn.MeshDevice,
    m: int,
    k: int,
    n: int,
    batch: tuple[int, ...],
    dtype: ttnn.DataType,
    turned: tuple[bool, bool],
    both: bool,
) -> None:
    before = free(device)
    a = random(*batch, m, k).to(torch.bfloat16).float()
    b = random(*(batch if both else ()), k, n, seed=1).to(torch.bfloat16).float()
    if len(a.shape) != len(b.shape):
        b = b.reshape((1,) * (len(a.shape) - 2) + (k, n))
    left = put(device, a.transpose(-1, -2) if turned[0] else a, dtype)
    right = put(device, b.transpose(-1, -2) if turned[1] else b, dtype)
    config = ttnn.init_device_compute_kernel_config(
        device.arch(), math_fidelity=ttnn.MathFidelity.HiFi4, fp32_dest_acc_en=True
    )
    out = ttnn.matmul(
        left, right, transpose_a=turned[0], transpose_b=turned[1], compute_kernel_config=config, dtype=dtype
    )
    found = ttnn.to_torch(out).float()
    assert found.shape == (a @ b).shape
    exact = ttnn.to_torch(left).float(), ttnn.to_torch(right).float()
    sides = [x.transpose(-1, -2) if t else x for x, t in zip(exact, turned, strict=True)]
    expected = sides[0] @ sides[1]
    if expected.numel() > 16:
        assert pcc(found, expected) > LEAST[dtype] - 1e-5
    del out, left, right
    assert free(device) == before


@pytest.mark.parametrize("memory", ["DRAM_MEMORY_CONFIG", "L1_MEMORY_CONFIG"])
@pytest.mark.parametrize("activation", [None, "relu", "silu", "sigmoid"])
def test_linear_adds_a_bias_and_activates(device: ttnn.MeshDevice, memory: str, activation: str | None) -> None:
    x, w, bias = random(1, 1, 60, 96), random(1, 1, 96, 70), random(1, 1, 1, 70)
    out = ttnn.linear(
        put(device, x),
        put(device, w),
        bias=put(device, bias),
        activation=activation,
        memory_config=getattr(ttnn, memory),
    )
    expected = x @ w + bias
    if activation is not None:
        expected = getattr(torch.nn.functional, activation)(expected)
    assert pcc(ttnn.to_torch(out), expected) > 0.9995


def test_a_program_config_fuses_bias_and_activation(device: ttnn.MeshDevice) -> None:
    """The classifier of ResNet50: width-sharded activations, one row of tiles."""
    x, w, bias = random(1, 1, 32, 2048), random(1, 1, 2048, 1024), random(1, 1, 1, 1024)
    grid = ttnn.CoreRangeSet([ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(7, 3))])
    shards = ttnn.ShardSpec(grid, [32, 64], ttnn.ShardOrientation.ROW_MAJOR)
    config = ttnn.MemoryConfig(ttnn.TensorMemoryLayout.WIDTH_SHARDED, ttnn.BufferType.L1, shards)
    left = ttnn.from_torch(x, ttnn.bfloat8_b, layout=ttnn.TILE_LAYOUT, device=device, memory_config=config)
    program = ttnn.MatmulMultiCoreReuseMultiCast1DProgramConfig(
        compute_with_storage_grid_size=ttnn.CoreCoord(8, 4),
        in0_block_w=2,
        out_subblock_h=1,
        out_subblock_w=1,
        per_core_M=1,
        per_core_N=1,
        fuse_batch=True,
        fused_activation=ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU),
        mcast_in0=True,
    )
    out = ttnn.linear(
        left,
        put(device, w, ttnn.bfloat8_b),
        bias=put(device, bias, ttnn.bfloat8_b),
        program_config=program,
        memory_config=ttnn.L1_WIDTH_SHARDED_MEMORY_CONFIG,
        dtype=ttnn.bfloat16,
    )
    assert out.memory_config().shard_spec.shape == [32, 32]
    assert pcc(ttnn.to_torch(out), torch.relu(x @ w + bias)) > 0.99


def test_one_left_matrix_meets_all_matrices_of_a_batch(device: ttnn.MeshDevice) -> None:
    a, b = random(1, 1, 40, 64), random(1, 5, 64, 50)
    out = ttnn.matmul(put(device, a), put(device, b))
    assert tuple(out.shape) == (1, 5, 40, 50)
    assert pcc(ttnn.to_torch(out), a @ b) > 0.9995


def test_addmm_scales_and_adds(device: ttnn.MeshDevice) -> None:
    c, a, b = random(64, 96), random(64, 32), random(32, 96)
    out = ttnn.addmm(put(device, c), put(device, a), put(device, b), alpha=0.5, beta=2.0)
    assert pcc(ttnn.to_torch(out), torch.addmm(c, a, b, beta=2.0, alpha=0.5)) > 0.9995


def test_refused_products_leave_memory_as_it_was(device: ttnn.MeshDevice) -> None:
    a, b = put(device, random(32, 64)), put(device, random(32, 64))
    before = free(device)
    with pytest.raises(RuntimeError, match="Mismatch: width=64 height=32"):
        ttnn.matmul(a, b)
    row_major = ttnn.from_torch(random(64, 32), ttnn.bfloat16, device=device)
    with pytest.raises(RuntimeError, match="Inputs to matmul must be tilized"):
        ttnn.matmul(a, row_major)
    del row_major
    with pytest.raises(TypeError, match="incompatible function arguments"):
        ttnn.matmul(a)
    assert free(device) == before


def test_native_numerics_multiplies_as_torch_does() -> None:
    card = ttnn.open_device(device_id=0, numerics="native")
    a, b = random(64, 80).to(torch.bfloat16).float(), random(80, 40).to(torch.bfloat16).float()
    found = ttnn.to_torch(ttnn.matmul(put(card, a, ttnn.float32), put(card, b, ttnn.float32)))
    torch.testing.assert_close(found, a @ b)
    ttnn.close_device(card)
