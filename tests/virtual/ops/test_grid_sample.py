# SPDX-License-Identifier: Apache-2.0
"""grid_sample: values beside PyTorch, and grids that the real library prepared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tt_cnn.virtual import ttnn
from tt_cnn.virtual.cost.kernel import kernel_cost
from tt_cnn.virtual.devices.device import MeshDevice

POINTS = [[0.0, 0.0], [0.31, -0.77], [0.99, 1.2], [-0.999, 0.5], [1.0, 1.0]]
PREPARED: dict[tuple[str, bool], list[list[int]]] = {
    ("bilinear", False): [
        [2, 3, 16256, 0, 0, 0],
        [0, 4, 16217, 15777, 15757, 15313],
        [5, 6, 0, 0, 0, 0],
        [3, -1, 0, 16065, 0, 15873],
        [4, 6, 16000, 0, 0, 0],
    ],
    ("bilinear", True): [
        [2, 3, 16256, 0, 0, 0],
        [0, 3, 15643, 16129, 15620, 16091],
        [4, 5, 15507, 16149, 0, 0],
        [3, 0, 16255, 15173, 0, 0],
        [4, 6, 16256, 0, 0, 0],
    ],
    ("nearest", False): [[2, 3], [0, 4], [-1, -1], [3, 0], [-1, -1]],
    ("nearest", True): [[2, 3], [0, 4], [4, 6], [3, 0], [4, 6]],
}
"""Bits of what TT-NN 0.81.1 makes of these points for an image of 5 x 7 pixels, by mode and `align_corners`."""


@pytest.fixture(params=["device", "exact", "native"])
def device(request: pytest.FixtureRequest) -> Iterator[MeshDevice]:
    opened = ttnn.open_device(device_id=0, numerics=request.param)
    yield opened
    ttnn.close_device(opened)


@pytest.mark.parametrize(("mode", "align_corners"), PREPARED)
def test_grids_are_prepared_as_the_real_library_does(mode: str, align_corners: bool) -> None:
    grid = ttnn.from_torch(torch.tensor(POINTS).reshape(1, 1, -1, 2), ttnn.float32)
    found = ttnn.prepare_grid_sample_grid(grid, [1, 5, 7, 32], mode=mode, align_corners=align_corners)
    assert (found.dtype, found.layout) == (ttnn.bfloat16, ttnn.ROW_MAJOR_LAYOUT)
    bits = ttnn.to_torch(found).view(torch.int16)
    assert bits.reshape(len(POINTS), -1).tolist() == PREPARED[mode, align_corners]


def sampled(x: torch.Tensor, grid: torch.Tensor, **options: Any) -> torch.Tensor:
    return F.grid_sample(x.permute(0, 3, 1, 2), grid, padding_mode="zeros", **options).permute(0, 2, 3, 1)


@pytest.mark.parametrize("align_corners", [False, True])
def test_samples_are_those_of_torch(device: MeshDevice, align_corners: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, 9, 13, 64, generator=generator).bfloat16().float()
    grid = torch.rand(2, 6, 8, 2, generator=generator) * 2.4 - 1.2  # some points lie outside
    image = ttnn.from_torch(x, ttnn.bfloat16, device=device)
    points, host = ttnn.from_torch(grid, ttnn.float32, device=device), ttnn.from_torch(grid, ttnn.float32)

    def prepared(mode: str) -> Any:
        made = ttnn.prepare_grid_sample_grid(host, list(x.shape), mode=mode, align_corners=align_corners)
        return ttnn.to_device(made, device)

    expected = sampled(x, grid, align_corners=align_corners)
    found = [
        ttnn.grid_sample(image, points, align_corners=align_corners),
        ttnn.grid_sample(image, prepared("bilinear"), use_precomputed_grid=True),
    ]
    for one in found:
        torch.testing.assert_close(ttnn.to_torch(one).float(), expected, rtol=0.02, atol=0.02)
    nearest = ttnn.grid_sample(image, prepared("nearest"), mode="nearest", use_precomputed_grid=True)
    expected = sampled(x, grid, mode="nearest", align_corners=align_corners)
    assert torch.equal(ttnn.to_torch(nearest).float(), expected)


@pytest.mark.parametrize("in_channels", [False, True])
def test_several_points_in_a_row_of_the_grid(card: MeshDevice, in_channels: bool) -> None:
    x, grid = torch.randn(1, 8, 8, 32), torch.rand(1, 4, 8, 2) * 2 - 1
    packed = ttnn.from_torch(grid.reshape(1, 4, 2, 8), ttnn.float32, device=card)
    image = ttnn.from_torch(x, ttnn.bfloat16, device=card)
    found = ttnn.to_torch(ttnn.grid_sample(image, packed, batch_output_channels=in_channels)).float()
    expected = sampled(x, grid, align_corners=False).reshape((1, 4, 2, 128) if in_channels else (1, 4, 8, 32))
    torch.testing.assert_close(found, expected, rtol=0.02, atol=0.02)


def test_more_points_take_longer(card: MeshDevice) -> None:
    def cost(rows: int) -> float:
        image = ttnn.zeros((1, 16, 16, 64), dtype=ttnn.bfloat16, device=card)
        grid = ttnn.zeros((1, rows, 64, 2), dtype=ttnn.bfloat16, device=card)
        with card.record_commands() as commands:
            ttnn.grid_sample(image, grid)
        return kernel_cost(commands[-1].steps[0].step, card.card).ns

    assert cost(64) > 1.5 * cost(16)


def test_grid_samples_are_replayed(card: MeshDevice) -> None:
    image = ttnn.from_torch(torch.randn(1, 8, 8, 32), ttnn.bfloat16, device=card)
    grid = ttnn.from_torch(torch.rand(1, 4, 8, 2) * 2 - 1, ttnn.float32, device=card)
    ttnn.grid_sample(image, grid)
    trace = ttnn.begin_trace_capture(card, cq_id=0)
    output = ttnn.grid_sample(image, grid)
    ttnn.end_trace_capture(card, trace, cq_id=0)
    for _ in range(2):
        other = torch.rand(1, 4, 8, 2) * 2 - 1
        ttnn.copy_host_to_device_tensor(ttnn.from_torch(other, ttnn.float32), grid)
        ttnn.execute_trace(card, trace, cq_id=0, blocking=True)
        expected = ttnn.to_torch(ttnn.grid_sample(image, grid))
        torch.testing.assert_close(ttnn.to_torch(output), expected, rtol=0.02, atol=0.02)
