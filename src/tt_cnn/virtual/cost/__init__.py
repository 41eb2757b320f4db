"""What a card would take: durations of steps, gaps between them, transfers, and both queues' timelines."""

from tt_cnn.virtual.cost.between import gap_ns, transfer_ns
from tt_cnn.virtual.cost.executors import Pass, input_ns
from tt_cnn.virtual.cost.figures import Figures, figures_of, sourced_figures
from tt_cnn.virtual.cost.ideal import fidelity_of
from tt_cnn.virtual.cost.kernel import cost_with, kernel_cost
from tt_cnn.virtual.cost.parts import KernelCost
from tt_cnn.virtual.cost.schedule import Enqueued, Timed, Transfer, schedule

__all__ = [
    "Enqueued",
    "Figures",
    "KernelCost",
    "Pass",
    "Timed",
    "Transfer",
    "cost_with",
    "fidelity_of",
    "figures_of",
    "gap_ns",
    "input_ns",
    "kernel_cost",
    "schedule",
    "sourced_figures",
    "transfer_ns",
]
