# SPDX-License-Identifier: Apache-2.0
"""`ttnn.SDPAProgramConfig`: the grid and the chunks of an attention program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_DEFAULT_CHUNK = 32


@dataclass(kw_only=True, eq=False)
class SDPAProgramConfig:
    """How `scaled_dot_product_attention` divides its work. All fields can be set after construction."""

    compute_with_storage_grid_size: Any
    sub_core_grids: Any = None
    q_chunk_size: int
    k_chunk_size: int
    exp_approx_mode: bool | None = None
    max_cores_per_head_batch: int = 16
    max_k_splits: int = 1
    matmul_math_fidelity: Any = None
    segmented_accumulation: bool = False

    def frozen(self) -> SDPAChunks:
        grid = self.compute_with_storage_grid_size
        x, y = (grid.x, grid.y) if hasattr(grid, "x") else grid
        return SDPAChunks(self.q_chunk_size, self.k_chunk_size, (x, y))


@dataclass(frozen=True)
class SDPAChunks:
    """What planning knows of it: rows of queries and of keys that a core works on at a time, and the grid."""

    queries: int = _DEFAULT_CHUNK
    keys: int = _DEFAULT_CHUNK
    grid: tuple[int, int] | None = None
