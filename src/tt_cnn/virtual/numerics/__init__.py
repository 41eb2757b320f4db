# SPDX-License-Identifier: Apache-2.0
"""The card's numbers: formats, the packer, the matrix unit's fidelity and the vector unit's functions, in torch.

Pure functions of float32 tensors (on any device) that hold what a tile or a register holds. They know nothing of
layouts, buffers or queues; block formats only ask that the last dimension is a row of tiles, padded to 16.
"""

from tt_cnn.virtual.numerics import fidelity, matrix_unit
from tt_cnn.virtual.numerics.elementwise import (
    binary,
    binary_register,
    runs_on_matrix_unit,
    unary,
    unary_register,
)
from tt_cnn.virtual.numerics.formats import BLOCK, INTEGER_CARRIERS, host_round, to_integer
from tt_cnn.virtual.numerics.packer import pack
from tt_cnn.virtual.numerics.typecast import typecast
from tt_cnn.virtual.numerics.vector_unit import VectorUnit, binary_ops, run_binary, run_unary, unary_ops

__all__ = [
    "BLOCK",
    "INTEGER_CARRIERS",
    "VectorUnit",
    "binary",
    "binary_ops",
    "binary_register",
    "fidelity",
    "host_round",
    "matrix_unit",
    "pack",
    "run_binary",
    "run_unary",
    "runs_on_matrix_unit",
    "to_integer",
    "typecast",
    "unary",
    "unary_ops",
    "unary_register",
]
