# SPDX-License-Identifier: Apache-2.0
"""Convolutions as the card's kernels compute them: a matrix product over windows, block by block.

`convolve` takes an image, `Weights` and a `Recipe` and gives what the packer stores. It follows every rounding
(`exact`), or takes the host's own convolution on the operands that the matrix unit sees and rounds where that is felt.
`convolve_natively` is plain float32.
"""

from tt_cnn.virtual.numerics.convolution.compute import convolve, convolve_natively
from tt_cnn.virtual.numerics.convolution.inner import Inner
from tt_cnn.virtual.numerics.convolution.recipe import Recipe
from tt_cnn.virtual.numerics.convolution.weights import Weights, rounded_bias
from tt_cnn.virtual.numerics.convolution.windows import Window, zeros_between

__all__ = [
    "Inner",
    "Recipe",
    "Weights",
    "Window",
    "convolve",
    "convolve_natively",
    "rounded_bias",
    "zeros_between",
]
