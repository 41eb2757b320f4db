# SPDX-License-Identifier: Apache-2.0
"""Programs that pass over rows of tiles several times: norms, softmax, reductions.

Their compute kernels make one pass after the other over tiles that stay in L1: a product or sum with another tile, or a
sum along the row. Readers and writers take a block of tiles at a time and wait for it. All cores begin with the same
step at the same time, so what they read or write first they ask of the DRAM banks together; later rows spread.
"""

from __future__ import annotations

from dataclasses import dataclass

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.network import Way, in_l1_shards, transaction_cycles
from tt_cnn.virtual.cost.tensix import PHASES, unpack_cycles
from tt_cnn.virtual.types.enums import DataType, Layout, MathFidelity
from tt_cnn.virtual.types.geometry import TILE_SIZE, div_up
from tt_cnn.virtual.types.tensor_spec import Spec


@dataclass(frozen=True)
class Passes:
    """A compute kernel's passes, by its fidelity and its registers' width."""

    figures: Figures
    fidelity: MathFidelity
    fp32: bool

    @property
    def tile_bytes(self) -> int:
        """Of a tile between passes."""
        return (DataType.FLOAT32 if self.fp32 else DataType.BFLOAT16).tile_bytes

    @property
    def _wide(self) -> float:
        """Tiles between passes are twice as large in float32."""
        if not self.fp32:
            return 0.0
        return unpack_cycles(self.figures, DataType.FLOAT32) - unpack_cycles(self.figures, DataType.BFLOAT16)

    @property
    def _phases(self) -> float:
        return (PHASES[self.fidelity] - 1) * self.figures.product_cycles

    @property
    def plain(self) -> float:
        """A tile plus or less another, or copied."""
        return self.figures.pass_cycles + self._wide

    @property
    def product(self) -> float:
        """A tile times another, element by element: once for each phase of the fidelity."""
        return self.plain + self._phases

    @property
    def total(self) -> float:
        """A tile added to the sums, or compared with the maxima, of its rows."""
        return self.figures.reduce_tile_cycles + self._wide + self._phases


@dataclass(frozen=True)
class Stream:
    """Tiles between a core and a tensor, a block of them under way before the kernel waits."""

    spec: Spec
    tiles: float
    block: int
    shared: bool = False
    """All cores read the same ones, in the same order."""

    def alone(self, figures: Figures, read: bool = True) -> float:
        """Cycles of one core that has the memory to itself."""
        if in_l1_shards(self.spec):
            return 0.0
        dram = self.spec.memory_config.is_dram()
        if read:
            latency = figures.dram_latency_cycles if dram else figures.l1_latency_cycles
        else:
            latency = figures.dram_write_latency_cycles if dram else figures.l1_write_latency_cycles
        way = Way.DRAM if dram else Way.L1_READ if read else Way.L1_WRITE
        if self.spec.layout is Layout.ROW_MAJOR:
            # a row of 32 values for each tile: fetched, waited for, and its second half put into its own face
            size = TILE_SIZE * self.spec.dtype.element_bytes
            turned = transaction_cycles(figures, Way.LOCAL, size / 2)
            return self.tiles * (latency + transaction_cycles(figures, way, size, figures.page_cycles) + turned)
        moved = self.tiles * transaction_cycles(figures, way, self.spec.page_bytes, figures.page_cycles)
        return moved + div_up(int(self.tiles), self.block) * latency

    def crowded(self, figures: Figures, cores: float, read: bool = True) -> float:
        """Cycles of the banks, or of the network, where `cores` cores do the same."""
        if in_l1_shards(self.spec):
            return 0.0
        page = self.spec.page_bytes
        if not self.spec.memory_config.is_dram():
            return cores * self.tiles * page / figures.network_total_bytes_per_cycle
        access = figures.dram_read_access_bytes if read else figures.dram_write_access_bytes
        slower = figures.shared_pages_factor if self.shared else 1.0
        if self.spec.layout is Layout.ROW_MAJOR:
            page, slower = TILE_SIZE * self.spec.dtype.element_bytes, 1.0
        return cores * self.tiles * (page + access) * slower / figures.dram_total_bytes_per_cycle

    def together(self, figures: Figures, cores: float, read: bool = True) -> float:
        """Cycles where all cores begin at the same time."""
        return max(self.alone(figures, read), self.crowded(figures, cores, read))


def width_of(spec: Spec) -> int:
    """Tiles of a row."""
    return spec.padded_shape[-1] // TILE_SIZE if len(spec.shape) else 1


def rows_per_core(rows: int, cores: int) -> tuple[int, float]:
    """Rows of the core with the most, and rows of an average core."""
    return div_up(rows, max(1, cores)), rows / max(1, cores)


def drained(figures: Figures, out: Spec, block: int) -> float:
    """The last block on its way out after all is computed."""
    return Stream(out, block, block).alone(figures, read=False)
