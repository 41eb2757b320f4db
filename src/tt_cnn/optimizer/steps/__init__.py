# SPDX-License-Identifier: Apache-2.0
"""The steps of the search, one file each; importing this package registers them."""

from tt_cnn.optimizer.steps import (
    batch,
    conv2d,
    devices,
    findings,
    fusing,
    input_form,
    linear,
    memory,
    pipeline,
    pools,
    precision,
    sharding,
)
from tt_cnn.optimizer.steps.base import STEPS, OptimizationStep, register_step

ORDER = (
    "devices",
    "batch",
    "fusing",
    "input",
    "findings",
    "pools",
    "sharding",
    "memory",
    "linear",
    "conv2d",
    "precision",
    "pipeline",
)
"""In which they run: what changes the network most comes first. Steps that users register come after them."""

for _name in ORDER:
    STEPS[_name] = STEPS.pop(_name)

__all__ = [
    "STEPS",
    "OptimizationStep",
    "batch",
    "conv2d",
    "devices",
    "findings",
    "fusing",
    "input_form",
    "linear",
    "memory",
    "pipeline",
    "pools",
    "precision",
    "register_step",
    "sharding",
]
