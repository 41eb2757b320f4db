# SPDX-License-Identifier: Apache-2.0
"""Memories that the tests of layers put their tensors into, and the comparison of rows with torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from tt_cnn import ttnn
from tt_cnn.builder import ShardedStrategyConfiguration

PLACES = ("height", "block", "l1", "dram")


def memory_of(shape: Sequence[int], where: str) -> Any:
    """Whole tiles on as many of 8 x 8 cores as there are."""
    if where in ("l1", "dram"):
        return ttnn.L1_MEMORY_CONFIG if where == "l1" else ttnn.DRAM_MEMORY_CONFIG
    rows, columns = math.prod(shape[:-2]) * -(-shape[-2] // 32), -(-shape[-1] // 32)
    if where == "height":
        height = -(-rows // 64)
        cores = ShardedStrategyConfiguration.get_core_grid_from_num_cores(-(-rows // height), 8, 8)
        spec = ttnn.ShardSpec(cores, [32 * height, 32 * columns], ttnn.ShardOrientation.ROW_MAJOR)
        return ttnn.MemoryConfig(ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.BufferType.L1, spec)
    height, width = -(-rows // 8), -(-columns // 8)
    end = ttnn.CoreCoord(-(-columns // width) - 1, -(-rows // height) - 1)
    cores = ttnn.CoreRangeSet([ttnn.CoreRange(ttnn.CoreCoord(0, 0), end)])
    spec = ttnn.ShardSpec(cores, [32 * height, 32 * width], ttnn.ShardOrientation.ROW_MAJOR)
    return ttnn.MemoryConfig(ttnn.TensorMemoryLayout.BLOCK_SHARDED, ttnn.BufferType.L1, spec)


def assert_rows(expected: torch.Tensor, output: Any, pcc: float = 0.999) -> None:
    """The output holds these values: alike in pattern, and in size too."""
    found = ttnn.to_torch(output).float()
    assert found.numel() == expected.numel(), f"{tuple(found.shape)} for {tuple(expected.shape)}"
    pair = torch.stack((expected.detach().flatten().double(), found.flatten().double()))
    correlation = float(torch.corrcoef(pair)[0, 1])
    assert correlation >= pcc, f"PCC {correlation:.6f} is below {pcc}"
    assert abs(float(pair[1].std() / pair[0].std()) - 1) < 0.05
