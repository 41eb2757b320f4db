# SPDX-License-Identifier: Apache-2.0
"""The programs of a convolution: what was decided about one, for its numbers, its time and its reports."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod
from typing import NamedTuple

from tt_cnn.virtual.arch import Card
from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.tensix import FLOP_PER_CYCLE, PHASES
from tt_cnn.virtual.ops.conv2d.blocks import Blocks, Compute
from tt_cnn.virtual.ops.matmul.weight_layout import WeightLayout
from tt_cnn.virtual.ops.sliding_window.window import SlidingWindow
from tt_cnn.virtual.planning.program import Program, Step
from tt_cnn.virtual.types.enums import DataType, MathFidelity
from tt_cnn.virtual.types.geometry import div_up
from tt_cnn.virtual.types.unary import UnaryOpType


class CoreRoles(NamedTuple):
    """How many cores send tilized activations, and how many fetch weights from DRAM; to how many others each sends."""

    activation_senders: int
    activation_receivers: int
    weight_senders: int
    weight_receivers: int


@dataclass(frozen=True, kw_only=True)
class ConvProgram(Program):
    """What the programs of all ways of sharding have. A core works through `row_blocks` blocks of rows, each of them
    in `inner_blocks` steps along the weights' rows."""

    op: str = "Conv2d"
    factory: str = "Conv2dShardedProgramFactory"
    window: SlidingWindow
    in_channels: int
    out_channels: int
    groups: int
    blocks: Blocks
    inner_blocks: int
    roles: CoreRoles
    compute: Compute
    activation: tuple[UnaryOpType, tuple[float, ...]] | None
    has_bias: bool
    partials: DataType
    """The format of partial sums."""
    splits_reader: bool
    """Two processors of a core read activations; the second then fetches weights."""
    forced_split_reader: bool | None
    """As the call asks for it: TT-NN's program cache tells programs apart by this too."""
    double_activations: bool
    double_weights: bool
    full_inner: bool
    reuses_activations: bool
    tables_in_dram: bool
    row_major: bool
    weights: WeightLayout

    @property
    def row_blocks(self) -> int:
        return div_up(self.blocks.out_h, self.blocks.act_h)

    @property
    def fidelity(self) -> MathFidelity:
        return self.compute.fidelity

    def ideal_cycles(self, step: Step, card: Card, figures: Figures) -> int:
        """All cores of the card count, and groups do not."""
        flops = 2 * self._products
        return ceil(flops / (card.cores * FLOP_PER_CYCLE) * PHASES[self.fidelity])

    @property
    def _products(self) -> int:
        return self.in_channels * prod(self.window.window) * self.window.output_pixels * self.out_channels

    def multiply_adds(self, step: Step) -> int:
        products = self._products // self.groups
        if self.window.transposed:  # zeros between pixels do not count
            return products * self.window.batch * prod(self.window.input_hw) // self.window.output_pixels
        return products

    def dram_bytes(self, step: Step) -> int:
        """The weights; the bias is not counted."""
        weight = step.inputs[1].spec
        return weight.num_pages * weight.page_bytes
