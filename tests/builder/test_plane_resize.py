# SPDX-License-Identifier: Apache-2.0
"""Images of few channels brought to another size plane by plane, wherever their pixels are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tt_cnn import ttnn
from tt_cnn.builder.plane_resize import PlaneResizeConfiguration, TtPlaneResize
from tt_cnn.builder.upsample import TtUpsample
from tt_cnn.builder.upsample_configuration import UpsampleConfiguration
from tt_cnn.testing.device_time import measured

RESIZES = [
    {"scale_factor": 4, "mode": "bilinear"},
    {"size": (50, 90), "mode": "bilinear", "align_corners": True},
    {"scale_factor": (1.7, 2.0), "mode": "bilinear"},
    {"size": (20, 21), "mode": "nearest"},
    {"size": (70, 40), "mode": "nearest-exact"},
]


@pytest.mark.parametrize("resize", RESIZES, ids=lambda each: "-".join(map(str, each.values())))
@pytest.mark.parametrize("batch, height, width, channels", [(1, 32, 64, 19), (2, 14, 28, 3)])
def test_values_are_torchs(
    resize: dict[str, Any],
    batch: int,
    height: int,
    width: int,
    channels: int,
    where: str,
    place: Callable[..., Any],
    device: Any,
    l1_in_use: Callable[[], int],
) -> None:
    x = torch.randn(batch, channels, height, width).bfloat16().float()
    shape = (height, width, batch, channels)
    torchs = torch.nn.Upsample(**resize)
    configuration = PlaneResizeConfiguration.from_torch(
        torchs, *shape, memory_config=ttnn.DRAM_MEMORY_CONFIG, deallocate_input=True
    )
    given = place(x.permute(0, 2, 3, 1).reshape(1, 1, -1, channels), where)
    output = TtPlaneResize(configuration, device)(given)
    expected = F.interpolate(x, **resize)
    assert not given.is_allocated() and l1_in_use() == 0
    assert tuple(output.shape) == tuple(expected.shape) == (batch, channels, *configuration.output_size)
    torch.testing.assert_close(ttnn.to_torch(output).float(), expected, rtol=0.02, atol=0.03)


def test_few_channels_are_quicker_as_planes(device: Any) -> None:
    def seconds(layer: Any) -> float:
        x = ttnn.from_torch(torch.randn(1, 1, 64 * 64, 3), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
        with measured(device) as time:
            layer(x)
        return time.seconds

    torchs = torch.nn.Upsample(scale_factor=4, mode="bilinear")
    planes = TtPlaneResize(PlaneResizeConfiguration.from_torch(torchs, 64, 64, 1, 3), device)
    pixels = TtUpsample(UpsampleConfiguration.from_torch(torchs, 64, 64, 1, 3, output_layout=ttnn.TILE_LAYOUT), device)
    assert 5 * seconds(planes) < seconds(pixels)
