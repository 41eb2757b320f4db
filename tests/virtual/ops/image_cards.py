# SPDX-License-Identifier: Apache-2.0
"""Opening cards and comparing images, for the tests of ops on images."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from tt_cnn.virtual import ttnn

NUMERICS = ("exact", "device", "native")


@contextmanager
def card(numerics: str = "device") -> Iterator[ttnn.MeshDevice]:
    opened = ttnn.open_device(device_id=0, l1_small_size=65536, numerics=numerics)
    try:
        yield opened
    finally:
        ttnn.close_device(opened)


def image(*shape: int, seed: int = 0) -> torch.Tensor:
    """Random numbers that bfloat16 holds."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape))).bfloat16().float()


def put(device: ttnn.MeshDevice, values: torch.Tensor, **options: Any) -> ttnn.Tensor:
    return ttnn.from_torch(values, dtype=ttnn.bfloat16, device=device, **options)


def pcc(a: torch.Tensor, b: torch.Tensor) -> float:
    return float(torch.corrcoef(torch.stack((a.flatten().double(), b.flatten().double())))[0, 1])


def in_use(device: ttnn.MeshDevice) -> tuple[int, int]:
    """Bytes of L1 and DRAM a bank that tensors hold; tables of cached programs go with the programs."""
    device.clear_program_cache()
    kinds = (ttnn.BufferType.L1, ttnn.BufferType.DRAM)
    l1, dram = (ttnn.get_memory_view(device, kind).total_bytes_allocated_per_bank for kind in kinds)
    return l1, dram
