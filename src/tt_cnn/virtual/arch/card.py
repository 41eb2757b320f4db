# SPDX-License-Identifier: Apache-2.0
"""What the virtual card needs to know of a real one."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tt_cnn.virtual.types.enums import Arch
from tt_cnn.virtual.types.kept_hash import kept_hash

_MOST_CORES = {Arch.WORMHOLE_B0: (8, 10), Arch.BLACKHOLE: (14, 10)}
"""Columns and rows of Tensix cores on a chip, before any is harvested or taken for dispatch."""


@kept_hash
@dataclass(frozen=True)
class Card:
    name: str
    arch: Arch
    arch_name: str
    chips: int
    grid: tuple[int, int]
    """Columns and rows of cores that ops may use, a chip."""
    l1_size: int
    """Bytes of L1 in a core."""
    l1_base: int
    """First L1 address that is not reserved for firmware and kernel configuration (TT-NN 0.81.1)."""
    dram_banks: int
    dram_bank_size: int
    """Bytes of a DRAM bank that can be allocated."""
    dram_base: int
    """First DRAM address that is not reserved."""
    l1_alignment: int
    dram_alignment: int
    clock_ghz: float
    links: int = 1
    """To the host. Each serves its share of the chips: the first of them directly, the others over ethernet."""
    tensix_dispatch_grid: tuple[int, int] | None = None
    """The smaller grid left when dispatch runs on worker cores, where the default is ethernet cores."""

    @property
    def cores(self) -> int:
        return self.grid[0] * self.grid[1]

    @property
    def model(self) -> str:
        """The name without a chosen grid."""
        return self.name.split("-")[0]

    def with_grid(self, grid: tuple[int, int]) -> Card:
        """The same card with other cores for ops, as harvested boards and dispatch settings leave them."""
        columns, rows = grid
        most = _MOST_CORES[self.arch]
        if not (0 < columns <= most[0] and 0 < rows <= most[1]):
            raise ValueError(f"grid is {columns}x{rows}; a {self.model} has up to {most[0]}x{most[1]} cores")
        if (columns, rows) == self.grid:
            return self
        return replace(self, name=f"{self.model}-{columns}x{rows}", grid=(columns, rows), tensix_dispatch_grid=None)

    def with_tensix_dispatch(self) -> Card:
        return replace(self, grid=self.tensix_dispatch_grid) if self.tensix_dispatch_grid else self
