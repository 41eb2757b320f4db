# SPDX-License-Identifier: Apache-2.0
"""Mish in its quick form: where it may stand, what it computes, and what it saves."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tt_cnn import ttnn
from tt_cnn.builder import Conv2dConfiguration, TtConv2d
from tt_cnn.optimizer.moves import moves_of
from tt_cnn.testing.device_time import measured

MISH = ttnn.UnaryWithParam(ttnn.UnaryOpType.MISH, 0.0)


def configured(kernel: int, activation: Any = MISH, **settings: Any) -> tuple[Conv2dConfiguration, torch.nn.Conv2d]:
    conv = torch.nn.Conv2d(32, 64, kernel, padding=kernel // 2)
    made = Conv2dConfiguration.from_torch(
        conv, input_height=32, input_width=32, batch_size=1, activation=activation, **settings
    )
    return made, conv


@pytest.mark.parametrize("kernel", [1, 3], ids=["as an op", "in the kernel"])
def test_it_is_a_parabola_between_two_lines_and_quicker(kernel: int, device: Any) -> None:
    x = torch.randn(1, 32, 32, 32).bfloat16().float() * 2
    seconds = {}
    for hard in (False, True):
        configuration, conv = configured(kernel, hard_mish=hard, math_fidelity=ttnn.MathFidelity.HiFi4)
        given = ttnn.from_torch(
            x.permute(0, 2, 3, 1).reshape(1, 1, -1, 32), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device
        )
        with measured(device) as time:
            output = TtConv2d(configuration, device)(given)
        seconds[hard] = time.seconds
        before = conv(x)
        wanted = before * (0.5 * before + 1).clamp(0, 1) if hard else F.mish(before)
        found = ttnn.to_torch(output).float().reshape(1, 32, 32, 64).permute(0, 3, 1, 2)
        assert torch.allclose(found, wanted, atol=0.05, rtol=0.02)
    assert seconds[True] < 0.8 * seconds[False]


def test_only_mish_has_a_quick_form() -> None:
    with pytest.raises(ValueError, match="hard_mish is True; it must be False with activation"):
        configured(3, ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU), hard_mish=True)


def test_the_search_turns_it_like_the_dials_of_precision() -> None:
    def turned(activation: Any) -> list[str]:
        return [str(move) for move in moves_of("conv", configured(3, activation)[0]) if "Mish" in str(move)]

    assert turned(MISH) == ["hard Mish on in conv"]
    assert not turned(ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU)) and not turned(None)
