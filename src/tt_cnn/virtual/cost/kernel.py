# SPDX-License-Identifier: Apache-2.0
"""The time of a dispatched step."""

from __future__ import annotations

from tt_cnn.virtual.arch import Card
from tt_cnn.virtual.cost.bands import band_of
from tt_cnn.virtual.cost.figures import Figures, figures_of
from tt_cnn.virtual.cost.ideal import ideal_of
from tt_cnn.virtual.cost.parts import KernelCost
from tt_cnn.virtual.planning.program import Step


def kernel_cost(step: Step, card: Card) -> KernelCost:
    """Predicted duration of a step's kernels on a card. Steps are immutable, so the answer is kept with the step."""
    known: tuple[Card, KernelCost] | None = getattr(step, "_kernel_cost", None)
    if known is None or known[0] is not card:
        known = card, cost_with(step, card, figures_of(card))
        object.__setattr__(step, "_kernel_cost", known)  # a frozen dataclass, as `lazy` does it
    return known[1]


def cost_with(step: Step, card: Card, figures: Figures) -> KernelCost:
    """The same by other figures than the card's own."""
    cycles = step.program.time(step, figures)
    ideal = ideal_of(step, card, figures)
    ns = figures.ns
    launch = figures.launch_ns if step.cores.num_cores() > 1 else figures.launch_alone_ns
    duration = launch + ns(cycles.total)
    band = band_of(step.program.op, card)
    return KernelCost(
        ns=duration,
        matrix_ns=ns(cycles.matrix),
        vector_ns=ns(cycles.vector),
        unpack_pack_ns=ns(cycles.unpack_pack),
        dram_ns=ns(cycles.dram),
        noc_ns=ns(cycles.noc),
        launch_ns=launch,
        drain_ns=ns(cycles.drain),
        pm_ideal_ns=ideal.ideal_ns,
        pm_compute_ns=ideal.compute_ns,
        pm_bandwidth_ns=ideal.bandwidth_ns,
        low_ns=band.low * duration,
        high_ns=band.high * duration,
    )
