# SPDX-License-Identifier: Apache-2.0
"""What all programs of a matmul step decide; `programs.py` has a type for each of TT-NN's factories."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil, prod

from tt_cnn.virtual.arch import Card
from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.tensix import FLOP_PER_CYCLE, PHASES
from tt_cnn.virtual.ops.matmul.configs import Activation, ProgramConfig
from tt_cnn.virtual.ops.matmul.problem import Compute
from tt_cnn.virtual.ops.matmul.weight_layout import WeightLayout
from tt_cnn.virtual.planning.program import Program, Step
from tt_cnn.virtual.types.enums import DataType, MathFidelity


@dataclass(frozen=True)
class Route:
    """How a matrix comes to the cores: so many read it at a time (none what is at hand), and each of them sends what
    it has on to so many others."""

    readers: int
    receivers: int = 0


@dataclass(frozen=True, kw_only=True)
class MatmulProgram(Program):
    """What all factories decide."""

    op: str = "Matmul"
    config: ProgramConfig
    """The user's, the convolution's or the library's own."""
    compute: Compute
    inner: int
    """Tiles of the inner dimension."""
    transpose_a: bool = False
    transpose_b: bool = False
    adds_bias: bool = False
    accumulates: bool = False
    """The packer adds up partial sums in L1."""
    partials: DataType
    """What partial sums are stored in."""
    channels: int = field(compare=False)
    """What the layer sums over for an element of the output; a grouped convolution those of a group."""
    weights: WeightLayout | None = None
    """How a convolution's weights stand in the right matrix."""

    @property
    def activation(self) -> Activation | None:
        """Applied before the result is stored."""
        return self.config.activation

    @property
    def depth(self) -> int:
        """Tiles of the inner dimension that are multiplied before partial sums are stored."""
        return self.config.block_k

    @property
    def fidelity(self) -> MathFidelity:
        return self.compute.fidelity

    @property
    def routes(self) -> tuple[Route, Route]:
        """How the left and the right matrix come to the cores: here each reads its own."""
        cores = self.cores.num_cores()
        return Route(cores), Route(cores)

    def ideal_cycles(self, step: Step, card: Card, figures: Figures) -> int:
        inner = step.inputs[0].spec.shape[-2 if self.transpose_a else -1]
        flops = 2 * prod(step.outputs[0].spec.shape) * inner
        return ceil(flops / (card.cores * FLOP_PER_CYCLE) * PHASES[self.fidelity])

    def multiply_adds(self, step: Step) -> int:
        return prod(step.outputs[0].spec.shape) * self.channels
