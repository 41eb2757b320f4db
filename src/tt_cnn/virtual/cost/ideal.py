# SPDX-License-Identifier: Apache-2.0
"""`PM IDEAL`, `PM COMPUTE`, `PM BANDWIDTH`: upstream's performance models, by its rules and with its peculiarities.

Rules of ttnn/core/operation.cpp and of the ops' `create_op_performance_model`. Ops without a model of their own get one
cycle. What goes with a tensor's bytes ignores the exponents of block formats, as upstream does.
"""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from tt_cnn.virtual.arch import Card
from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.planning.program import Step
from tt_cnn.virtual.types.enums import DataType
from tt_cnn.virtual.types.tensor_spec import Spec


class Ideal(NamedTuple):
    ideal_ns: float
    compute_ns: float
    bandwidth_ns: float


def element_bytes(dtype: DataType) -> int:
    """`Tensor::element_size`: a byte for both block formats."""
    return 1 if dtype.is_block_float else dtype.element_bytes


def ideal_of(step: Step, card: Card, figures: Figures) -> Ideal:
    compute = ceil(step.program.ideal_cycles(step, card, figures) / card.clock_ghz)
    bandwidth = max([_bandwidth_ns(slot.spec, figures) for slot in (*step.inputs, *step.outputs)], default=1.0)
    return Ideal(max(compute, bandwidth), compute, bandwidth)


def _bandwidth_ns(spec: Spec, figures: Figures) -> float:
    """A tensor in DRAM at the peak rate (GiB, by upstream's arithmetic); one in L1 counts a nanosecond."""
    if not spec.memory_config.is_dram():
        return 1.0
    return spec.volume * element_bytes(spec.dtype) / figures.pm_dram_gib_per_s / 2**30 * 1e9
