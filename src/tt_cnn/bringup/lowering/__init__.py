# SPDX-License-Identifier: Apache-2.0
"""From the torch graph to statements on layers."""

from tt_cnn.bringup.lowering import choices, elementwise, fallback, images, joins, matrices, movement, registered
from tt_cnn.bringup.lowering.lowering import RULES, Lowering, Unsupported, lowers
from tt_cnn.bringup.lowering.program import Program
from tt_cnn.bringup.passes import prepare
from tt_cnn.bringup.torch_graph import TorchGraph

__all__ = ["RULES", "Lowering", "Program", "Unsupported", "lower", "lowers"]

_FAMILIES = (choices, elementwise, fallback, images, joins, matrices, movement, registered)
"""They register their rules when they are imported."""


def lower(graph: TorchGraph) -> Program:
    """The whole model; the graph is changed by the passes."""
    return Lowering(prepare(graph)).run()
