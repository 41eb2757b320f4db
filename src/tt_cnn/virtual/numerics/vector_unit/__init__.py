# SPDX-License-Identifier: Apache-2.0
"""The vector unit: its arithmetic, and the kernels of the element-wise ops on it.

Kernels follow Wormhole's (TT-NN 0.81.1): the same polynomials, iteration counts and roundings. `unary_ops()` and
`binary_ops()` list them with how far each has been confirmed.
"""

from tt_cnn.virtual.numerics.vector_unit import (  # noqa: F401  (importing a family registers its kernels)
    arithmetic,
    bessel,
    error_function,
    exponential,
    gelu,
    hyperbolic,
    linear_units,
    logarithm,
    logistic,
    pairs,
    power,
    predicates,
    reciprocal,
    rectifiers,
    roots,
    rounding,
    trigonometry,
)
from tt_cnn.virtual.numerics.vector_unit.registry import Entry, Trust, binary_ops, run_binary, run_unary, unary_ops
from tt_cnn.virtual.numerics.vector_unit.unit import VectorUnit

__all__ = ["Entry", "Trust", "VectorUnit", "binary_ops", "run_binary", "run_unary", "unary_ops"]
