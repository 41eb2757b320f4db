# SPDX-License-Identifier: Apache-2.0
"""Convolutions against values recorded from the real kernels: every way of sharding, register and format.

The recordings are cut to 16 output channels and the first rows of the image, on which nothing else depends.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from tt_cnn.virtual.numerics import VectorUnit, host_round, matrix_unit, pack, unary_register
from tt_cnn.virtual.numerics.convolution import (
    Inner,
    Recipe,
    Weights,
    Window,
    compute,
    convolve,
    convolve_natively,
    rounded_bias,
    zeros_between,
)
from tt_cnn.virtual.types.enums import DataType, MathFidelity

DATA = Path(__file__).parents[2] / "golden" / "data"
VALUES = np.load(DATA / "values_convolution.npz")
CASES = [json.loads(line) for line in (DATA / "values_convolution.jsonl").read_text().splitlines()]
TORCH = {None: lambda x: x, "gelu": F.gelu, "relu": F.relu, "sigmoid": torch.sigmoid, "silu": F.silu}
BF16, BF8, F32 = DataType.BFLOAT16, DataType.BFLOAT8_B, DataType.FLOAT32


def recorded(case: dict, name: str) -> torch.Tensor:
    """Float32 as it is, bfloat16 from its bits."""
    values = VALUES[f"{case['id']}.{name}"]
    if values.dtype == np.uint16:
        values = (values.astype(np.uint32) << 16).view(np.float32)
    return torch.from_numpy(values)


def recipe(case: dict) -> Recipe:
    image = VALUES[f"{case['id']}.image"]
    kernel = (case["kernel"], case["kernel"])
    window = Window(kernel, (case["stride"], case["stride"]), tuple(case["padding"]))
    inner = Inner(case["scheme"], kernel, image.shape[-1], case["shard"], case["cores"])
    formats = {name: DataType[case[name]] for name in ("activations", "output", "partials")}
    return Recipe(
        window,
        inner,
        **formats,
        fidelity=MathFidelity[case["fidelity"]],
        fp32_dest=case["fp32_dest"],
        packer_adds=case["packer_adds"],
        block=case["block"],
        reloads_whole=case["program"] == "Matmul",
    )


def activation(case: dict) -> Callable[[torch.Tensor, bool], torch.Tensor] | None:
    name = case["activation"]
    if name is None:
        return None
    # a convolution runs the table of gelu, a matmul the accurate one
    fast = name == "gelu" and case["program"] == "Conv2d"

    def activate(x: torch.Tensor, exact: bool) -> torch.Tensor:
        return unary_register(name, x, unit=VectorUnit(fp32_dest=case["fp32_dest"], approx=fast, exact=exact))

    return activate


def run(case: dict, exact: bool) -> torch.Tensor:
    kind = DataType[case["weights"]]
    weights, bias = Weights(recorded(case, "weight"), kind), rounded_bias(recorded(case, "bias"), kind)
    return convolve(recipe(case), recorded(case, "image"), weights, bias, activation(case), exact=exact)


def label(case: dict) -> str:
    register = "fp32" if case["fp32_dest"] else "bf16"
    adds = "-l1" if case["packer_adds"] else ""
    how = case["scheme"] if case["program"] == "Conv2d" else "matmul"
    return f"{case['id']}-{how}-{case['fidelity']}-{register}{adds}-{case['output'].lower()}-{case['activation']}"


@pytest.mark.parametrize("case", CASES, ids=label)
def test_exact_convolution_equals_the_recorded_one(case: dict) -> None:
    assert torch.equal(run(case, exact=True), recorded(case, "out"))


def test_the_recordings_cover_every_kind() -> None:
    kinds = {(c["scheme"] if c["program"] == "Conv2d" else "matmul", c["packer_adds"], c["fp32_dest"]) for c in CASES}
    assert {(s, a, f) for s in ("height", "block", "width") for a in (True, False) for f in (True, False)} <= kinds
    assert {c["activation"] for c in CASES} >= {None, "relu", "silu", "gelu", "sigmoid"}
    assert {c["fidelity"] for c in CASES} == {"LoFi", "HiFi2", "HiFi3", "HiFi4"}


@pytest.mark.parametrize("followed", [True, False])
@pytest.mark.parametrize("case", CASES, ids=label)
def test_quick_convolution_errs_as_the_recorded_one(
    case: dict, followed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not followed:
        follow_nothing(monkeypatch)
    ours, real = run(case, exact=False), recorded(case, "out")
    window = recipe(case).window
    truth = convolve_natively(window, recorded(case, "image"), recorded(case, "weight"), recorded(case, "bias"))
    truth = TORCH[case["activation"]](truth)

    def error(values: torch.Tensor) -> float:
        return float((values - truth).square().mean().sqrt())

    assert 0.6 < error(ours) / error(real) < 1.6  # wider than for whole tensors: these are few values
    correlation = torch.corrcoef(torch.stack((ours.flatten(), real.flatten())))[0, 1]
    assert correlation >= ((0.9999 if followed else 0.9997) if case["output"] == "BFLOAT16" else 0.999)


def follow_nothing(patch: pytest.MonkeyPatch) -> None:
    """Quick numerics draw all errors of the register."""
    patch.setattr(compute, "FOLLOWED", 0)
    patch.setattr(compute, "FEW_RESULTS", 0)


def normal(*shape: int, seed: int = 5) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("fidelity", [MathFidelity.LoFi, MathFidelity.HiFi2, MathFidelity.HiFi4])
@pytest.mark.parametrize("partials", [BF16, BF8])
@pytest.mark.parametrize("adds", [True, False])
def test_errors_that_are_drawn_are_as_large_as_followed_ones(
    fidelity: MathFidelity, partials: DataType, adds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    follow_nothing(monkeypatch)
    image, weights = host_round(normal(1, 14, 14, 96), BF16), Weights(normal(64, 96, 3, 3) / 29.4, BF8)
    kind = BF16 if adds else partials
    how = Recipe(Window((3, 3)), Inner("height", (3, 3), 96, 96), partials, partials, kind, fidelity, False, adds)
    bias = rounded_bias(torch.zeros(64), BF8)
    followed, quick = (convolve(how, image, weights, bias, exact=exact) for exact in (True, False))
    truth = convolve_natively(how.window, image, weights.values, None)
    ratio = (quick - truth).square().mean().sqrt() / (followed - truth).square().mean().sqrt()
    assert 0.75 < ratio < 1.3
    assert not torch.equal(followed, quick)


@pytest.mark.parametrize("exact", [True, False])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_convolution_is_close_to_torch(exact: bool, data: st.DataObject) -> None:
    kernel = data.draw(st.tuples(*[st.integers(1, 3)] * 2), "kernel")
    stride, dilation = (data.draw(st.tuples(*[st.integers(1, 2)] * 2), name) for name in ("stride", "dilation"))
    padding = data.draw(st.tuples(*[st.integers(0, 2)] * 4), "padding")
    groups, share = data.draw(st.sampled_from([1, 1, 2, 4]), "groups"), data.draw(st.integers(1, 9), "share")
    channels, out = groups * share, groups * data.draw(st.integers(1, 3), "out")
    scheme, cores = data.draw(st.sampled_from([("height", 1), ("block", 2), ("width", 2)]))
    shard = -(-channels // (8 * cores)) * 8 if scheme != "width" else -(-channels // (32 * cores)) * 32
    window = Window(kernel, stride, padding, dilation, replicates=data.draw(st.booleans()))
    inner = Inner(scheme, kernel, channels, shard, cores, whole=data.draw(st.booleans()) and scheme == "block")
    how = Recipe(
        window,
        inner,
        F32,
        F32,
        F32,
        fp32_dest=True,
        packer_adds=data.draw(st.booleans()),
        bias=data.draw(st.booleans()),
        groups=groups,
    )
    image = normal(data.draw(st.integers(1, 2)), 6, 7, channels).bfloat16().float()
    weights = Weights(normal(out, share, *kernel, seed=7), BF16, groups)
    bias = rounded_bias(normal(out, seed=9), BF16) if how.bias else None
    with pytest.MonkeyPatch.context() as patch:
        follow_nothing(patch)
        ours = convolve(how, image, weights, bias, exact=exact)
    ideal = convolve_natively(window, image, weights.values, None if bias is None else bias[:, :out], groups)
    scale = float(ideal.abs().max()) + 1e-6
    assert torch.allclose(ours, ideal, atol=0.01 * scale, rtol=0)  # ten bits in the adder


@pytest.mark.parametrize(
    "inner",
    [
        Inner("height", (3, 2), 5, 8),
        Inner("block", (3, 3), 20, 8, 3),
        Inner("block", (3, 3), 20, 8, 3, whole=True),
        Inner("width", (2, 2), 70, 64, 2, parts=2),
        Inner.of_matmul(40),
    ],
)
def test_rows_of_the_inner_dimension_are_each_there_once(inner: Inner) -> None:
    for rows in (inner.worked_rows(), inner.prepared_rows()):
        held = rows[rows != inner.blank]
        assert sorted(held.tolist()) == list(range(inner.blank))
        assert len(rows) % 32 == 0
    assert inner.depth() * len(inner.pieces()) == len(inner.worked_rows())


def test_weights_come_back_from_their_prepared_matrix() -> None:
    weights = Weights(normal(40, 6, 3, 3), BF8, groups=2)
    inner = Inner("block", (3, 3), 12, 8, 2)
    matrix = weights.prepared(inner)
    assert matrix.shape == (2 * 3 * 32, 64)
    assert torch.equal(Weights.of_prepared(matrix, inner, 40, BF8).dense(), weights.dense())


def test_groups_are_rounded_as_the_dense_matrix_that_they_are_stored_as() -> None:
    """Beside a large weight a small one of another group keeps its bits: zeros stand between them in the matrix."""
    values = torch.tensor([64.0, 0.1]).reshape(2, 1, 1, 1)
    depthwise = Weights(values, BF8, groups=2)
    assert float(depthwise.values[1]) == pytest.approx(0.1, rel=1e-2)
    assert float(Weights(values, BF8).values[1]) == 0.0


def test_a_transposed_convolution_is_one_over_an_image_with_zeros_between() -> None:
    image, values = normal(2, 5, 6, 7), normal(7, 4, 3, 2)
    stride, padding, extra = (2, 3), (1, 0), (1, 2)
    ideal = F.conv_transpose2d(image.permute(0, 3, 1, 2), values, None, stride, padding, extra)
    spread = zeros_between(image, (3, 2), stride, (1, 1, 0, 0), output_padding=extra)
    ours = convolve_natively(Window((3, 2)), spread, values.flip(2, 3).transpose(0, 1), None)
    assert torch.allclose(ours, ideal.permute(0, 2, 3, 1).reshape(-1, 4), atol=1e-5)


def test_the_packer_adds_bfloat16_to_nearest_even() -> None:
    stored, register = torch.tensor([1.0, 1.0, 1.0]), torch.tensor([2.0**-8, 3 * 2.0**-8, 2.0**-7])
    sums = compute.packer_sum(stored, register, BF16)
    assert sums.tolist() == [1.0, 1 + 2.0**-6, 1 + 2.0**-7]
    assert compute.packer_sum(stored, register, F32).tolist() == (stored + register).tolist()


def test_a_float32_register_aligns_a_bias_like_any_other() -> None:
    total = matrix_unit.add(torch.tensor([1.0]), torch.tensor([2.0**-11 + 2.0**-20]), fp32_dest=True)
    assert float(total) == 1.0 + 2.0**-10


def test_a_row_major_output_passes_through_the_format_of_partial_sums() -> None:
    image, weights = host_round(normal(1, 4, 4, 32), BF16), Weights(normal(32, 32, 1, 1), BF16)
    inner = Inner("height", (1, 1), 32, 32)
    tiled, rows = (
        Recipe(Window((1, 1)), inner, F32, F32, BF16, fp32_dest=True, bias=False, untilizes=untilizes)
        for untilizes in (False, True)
    )
    whole = convolve(tiled, image, weights, None)
    assert not torch.equal(whole, pack(whole, BF16))
    assert torch.equal(convolve(rows, image, weights, None), pack(whole, BF16))


def test_small_blocks_without_a_bias_meet_in_the_register_at_the_end() -> None:
    """With the packer adding, the last of three blocks is still added in the register, which is not rounded twice."""
    image, weights = host_round(normal(1, 8, 8, 32), BF16), Weights(normal(32, 32, 3, 1), BF16)
    inner = Inner("height", (3, 1), 32, 32)
    adds, loads = (
        Recipe(Window((3, 1)), inner, BF16, BF16, BF16, packer_adds=adds, bias=False) for adds in (True, False)
    )
    ours, other = convolve(adds, image, weights, None), convolve(loads, image, weights, None)
    assert not torch.equal(ours, other)
    assert torch.corrcoef(torch.stack((ours.flatten(), other.flatten())))[0, 1] > 0.9999
