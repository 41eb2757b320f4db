# SPDX-License-Identifier: Apache-2.0
"""What the tests of layers share: a card, images on it, and the comparison with torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.builder.placing import PLACES, memory_of
from tt_cnn import ttnn


@pytest.fixture
def device(open_card: Callable[..., Any]) -> Any:
    """An n150 with the card's own numbers, and the L1_SMALL that TT-CNN's tests ask for."""
    torch.manual_seed(0)
    return open_card(l1_small_size=32768, numerics="device")


class Images:
    """Random images as torch has them (NCHW) and as layers take them."""

    def __init__(self, device: Any) -> None:
        self.device = device

    def random(self, *shape: int) -> torch.Tensor:
        """Values that bfloat16 holds."""
        return torch.randn(shape, dtype=torch.bfloat16).float()

    def put(self, nchw: torch.Tensor, flat: bool = False, host: bool = False, **options: Any) -> Any:
        nhwc = nchw.permute(0, 2, 3, 1)
        values = nhwc.reshape(1, 1, -1, nhwc.shape[-1]) if flat else nhwc
        options = {"dtype": ttnn.bfloat16, "layout": ttnn.ROW_MAJOR_LAYOUT, **options}
        return ttnn.from_torch(values.contiguous(), device=None if host else self.device, **options)

    def assert_close(self, expected: torch.Tensor, output: Any, pcc: float = 0.999) -> None:
        """The output, flattened or not, holds these images: alike in pattern, and in size too."""
        batch, channels, height, width = expected.shape
        found = ttnn.to_torch(output).float().reshape(batch, height, width, channels).permute(0, 3, 1, 2)
        pair = torch.stack((expected.detach().flatten().double(), found.flatten().double()))
        correlation = float(torch.corrcoef(pair)[0, 1])
        assert correlation >= pcc, f"PCC {correlation:.6f} is below {pcc}"
        assert abs(float(pair[1].std() / pair[0].std()) - 1) < 0.05


@pytest.fixture
def images(device: Any) -> Images:
    return Images(device)


@pytest.fixture
def l1_in_use(device: Any) -> Callable[[], int]:
    return lambda: int(ttnn.get_memory_view(device, ttnn.BufferType.L1).total_bytes_allocated_per_bank)


@pytest.fixture
def place(device: Any) -> Callable[..., Any]:
    """Rows (1, 1, n, channels) of torch in tiles on the card, spread over its cores as told."""

    def placed(values: torch.Tensor, where: str = "dram", dtype: Any = ttnn.bfloat16) -> Any:
        tensor = ttnn.from_torch(values, dtype=dtype, layout=ttnn.TILE_LAYOUT, device=device)
        return tensor if where == "dram" else ttnn.to_memory_config(tensor, memory_of(values.shape, where))

    return placed


@pytest.fixture(params=PLACES)
def where(request: Any) -> str:
    """Where a tensor is: height or block shards, interleaved in L1 or in DRAM."""
    return str(request.param)
