# SPDX-License-Identifier: Apache-2.0
"""GELU at infinity, also where torch's own has NaN there."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from tt_cnn.virtual import ttnn
from tt_cnn.virtual.numerics import gelu as module
from tt_cnn.virtual.numerics.gelu import gelu

VALUES = torch.tensor([math.inf, -1e30, 0.0, 1.5, 1e30])


@pytest.fixture
def torch_with_nan(monkeypatch):
    right = F.gelu

    def wrong(x, approximate="none"):
        return torch.where(x == math.inf, math.nan, right(x, approximate=approximate))

    monkeypatch.setattr(F, "gelu", wrong)
    module._torch_is_right.cache_clear()
    yield right
    module._torch_is_right.cache_clear()


@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_infinity_stays_infinity_whatever_torch_has(torch_with_nan, dtype, approximate):
    x = VALUES.to(dtype)
    finite = torch_with_nan(x, approximate=approximate)  # torch's own, which has NaN on some processors
    assert torch.equal(gelu(x, approximate), torch.where(x == math.inf, math.inf, finite))


def test_a_replay_and_a_command_have_infinity(torch_with_nan):
    with ttnn.manage_device(0, numerics="native") as device:
        x = ttnn.from_torch(VALUES.repeat(32, 32), layout=ttnn.TILE_LAYOUT, device=device)
        ttnn.gelu(x)
        trace = ttnn.begin_trace_capture(device, cq_id=0)
        y = ttnn.gelu(x)
        ttnn.end_trace_capture(device, trace, cq_id=0)
        for _ in range(3):
            ttnn.execute_trace(device, trace, cq_id=0, blocking=True)
        assert ttnn.to_torch(ttnn.gelu(x))[0, 0] == ttnn.to_torch(y)[0, 0] == math.inf
