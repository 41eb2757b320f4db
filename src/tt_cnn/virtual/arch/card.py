"""What the virtual card needs to know of a real one."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tt_cnn.virtual.types.enums import Arch
from tt_cnn.virtual.types.kept_hash import kept_hash


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
    tensix_dispatch_grid: tuple[int, int] | None = None
    """The smaller grid left when dispatch runs on worker cores, where the default is ethernet cores."""

    @property
    def cores(self) -> int:
        return self.grid[0] * self.grid[1]

    def with_tensix_dispatch(self) -> Card:
        return replace(self, grid=self.tensix_dispatch_grid) if self.tensix_dispatch_grid else self
