# SPDX-License-Identifier: Apache-2.0
"""conv2d against torch over shapes, kernels, strides, paddings, groups, layouts and dtypes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tt_cnn.virtual import ttnn

LAYOUTS = [None, "HEIGHT_SHARDED", "BLOCK_SHARDED", "WIDTH_SHARDED"]
LIMITS = {ttnn.bfloat16: 0.9995, ttnn.bfloat8_b: 0.998}
"""Operands and results are rounded to the dtype; sums are kept in float32."""


@pytest.fixture(scope="module")
def card() -> Iterator[Any]:
    with ttnn.manage_device(0, card="n150", l1_small_size=65536, hazards="raise") as device:
        yield device


@st.composite
def convolutions(draw: Any) -> dict[str, Any]:
    groups = draw(st.sampled_from([1, 1, 1, 2, 4]))
    kernel = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    return {
        "batch": draw(st.integers(1, 2)),
        "size": draw(st.tuples(st.integers(4, 14), st.integers(4, 14))),
        "channels": (groups * draw(st.integers(1, 24)), groups * draw(st.integers(1, 24))),
        "kernel": kernel,
        "stride": draw(st.tuples(st.integers(1, 2), st.integers(1, 2))),
        "padding": (draw(st.integers(0, kernel[0] // 2)), draw(st.integers(0, kernel[1] // 2))),
        "groups": groups,
        "dtype": draw(st.sampled_from([ttnn.bfloat16, ttnn.bfloat8_b])),
        "tiled": draw(st.booleans()),
        "layout": draw(st.sampled_from(LAYOUTS)),
        "l1": draw(st.booleans()),
        "bias": draw(st.booleans()),
    }


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=convolutions(), seed=st.integers(0, 99))
def test_results_are_those_of_torch(card: Any, case: dict[str, Any], seed: int) -> None:
    torch.manual_seed(seed)
    (h, w), (cin, cout), groups = case["size"], case["channels"], case["groups"]
    x = torch.randn(case["batch"], cin, h, w)
    weight = torch.randn(cout, cin // groups, *case["kernel"])
    bias = torch.randn(cout) if case["bias"] else None
    expected = torch.nn.functional.conv2d(x, weight, bias, case["stride"], case["padding"], groups=groups)
    tiled = case["tiled"] or case["dtype"] is ttnn.bfloat8_b
    layout = case["layout"] and getattr(ttnn.TensorMemoryLayout, case["layout"])
    try:
        result, (out_h, out_w) = ttnn.conv2d(
            input_tensor=ttnn.from_torch(
                x.permute(0, 2, 3, 1).reshape(1, 1, -1, cin),
                dtype=case["dtype"],
                layout=ttnn.TILE_LAYOUT if tiled else ttnn.ROW_MAJOR_LAYOUT,
                device=card,
            ),
            weight_tensor=ttnn.from_torch(weight),
            bias_tensor=None if bias is None else ttnn.from_torch(bias.reshape(1, 1, 1, cout)),
            device=card,
            in_channels=cin,
            out_channels=cout,
            batch_size=case["batch"],
            input_height=h,
            input_width=w,
            kernel_size=case["kernel"],
            stride=case["stride"],
            padding=case["padding"],
            groups=groups,
            conv_config=ttnn.Conv2dConfig(weights_dtype=ttnn.bfloat16, shard_layout=layout),
            compute_config=ttnn.WormholeComputeKernelConfig(
                math_fidelity=ttnn.MathFidelity.HiFi4, fp32_dest_acc_en=True, packer_l1_acc=True
            ),
            slice_config=ttnn.Conv2dL1FullSliceConfig if case["l1"] else None,
            return_output_dim=True,
        )
    except RuntimeError as error:
        assert str(error)
        return
    assert (out_h, out_w) == tuple(expected.shape[2:])
    rows = ttnn.to_torch(result).float()[:, :, : case["batch"] * out_h * out_w]
    found = rows.reshape(case["batch"], out_h, out_w, cout).permute(0, 3, 1, 2)
    if expected.numel() > 64:
        pair = torch.stack([expected.flatten(), found.flatten()]).double()
        assert torch.corrcoef(pair)[0, 1] > LIMITS[case["dtype"]]
