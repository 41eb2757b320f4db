# SPDX-License-Identifier: Apache-2.0
"""A convolution from an image to packed values, in one of three ways.

What the kernels do (`conv_bmm_tilize`, `bmm_large_block_zm_fused_bias_activation`), and what of it was found from the
recorded values, which all agree in every element:

1. Windows are tilized into `activations`, the packer rounding them.
2. Blocks of the inner dimension are multiplied one after the other. Between two of them the register is packed to
   `partials` and loaded again. With `packer_adds` the packer adds a block's sum to what lies in L1 instead: in float32
   as it is, in bfloat16 rounded to nearest even. Without a bias the last block is added in the register even then.
3. A bias is added by the matrix unit to the packed sum, with its alignment, also in float32 registers.
4. The activation works on the register, ReLU in the packer. Then the register is packed to the output's format.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from tt_cnn.virtual.numerics import matrix_unit
from tt_cnn.virtual.numerics.convolution.inner import TILE
from tt_cnn.virtual.numerics.convolution.quick import quick_sums, quickly_biased
from tt_cnn.virtual.numerics.convolution.recipe import Recipe
from tt_cnn.virtual.numerics.convolution.weights import Weights
from tt_cnn.virtual.numerics.convolution.windows import Window
from tt_cnn.virtual.numerics.fidelity import phases_of, to_source
from tt_cnn.virtual.numerics.packer import pack
from tt_cnn.virtual.numerics.primitive import primitive
from tt_cnn.virtual.types.enums import DataType

Activate = Callable[[Tensor, bool], Tensor]
"""From register values to register values, followed exactly or not."""

FOLLOWED = 1 << 23
"""Products up to which quick numerics follow the register too (layers of whole models are larger). Its roundings make
up most of a small result's error; only following them gives the same ones, and what the next layers make of them."""

FOLLOWED_IN_BFLOAT16 = 1 << 27
FEW_RESULTS = 1 << 14
"""A register of bfloat16 rounds after every addition: sums in it are followed further, up to `FOLLOWED_IN_BFLOAT16`
products, where there are few of them. Such results are of convolutions that are looked at one by one, not of the layers
that fill a model's time. On the recorded values and networks 241 of 245 outputs agree without this, 244 with."""

_WINDOW_VALUES = 1 << 24


def convolve(
    recipe: Recipe,
    image: Tensor,
    weights: Weights,
    bias: Tensor | None,
    activate: Activate | None = None,
    *,
    exact: bool = True,
) -> Tensor:
    """Packed values (output pixels, output channels) of an image (batch, height, width, channels).

    `bias` is a padded row in its format (`rounded_bias`).
    """
    exact = exact or _is_followed(recipe, image, weights)
    if exact:
        register = _followed_sums(image, weights.worked(recipe.inner), recipe=recipe)
        if bias is not None:
            stored = packed_in_source(register, recipe.partials)
            register = matrix_unit.add(stored, bias, fp32_dest=recipe.fp32_dest)
    else:
        register = quick_sums(recipe, image, weights)
        if bias is not None:
            register = quickly_biased(recipe, register, bias)
    if activate is not None:
        register = activate(register, exact)
    if recipe.untilizes:
        register = packed_in_source(register, recipe.partials)
    return pack(register, recipe.output)[:, : weights.values.shape[0]]


def convolve_natively(window: Window, image: Tensor, weights: Tensor, bias: Tensor | None, groups: int = 1) -> Tensor:
    """The same in the host's float32, weights as (out, in / groups, height, width)."""
    result = F.conv2d(
        window.padded(image).permute(0, 3, 1, 2),
        weights.to(image.dtype),
        None,
        window.stride,
        0,
        window.dilation,
        groups,
    )
    values = result.permute(0, 2, 3, 1).reshape(-1, weights.shape[0])
    return values if bias is None else values + bias.reshape(1, -1)


def _is_followed(recipe: Recipe, image: Tensor, weights: Weights) -> bool:
    pixels = image.shape[0] * image.shape[1] * image.shape[2] // (recipe.window.stride[0] * recipe.window.stride[1])
    columns = -(-weights.values.shape[0] // TILE) * TILE
    results = pixels * columns
    few = results <= FEW_RESULTS and not recipe.fp32_dest
    products = results * len(recipe.inner.worked_rows()) * len(phases_of(recipe.fidelity))
    return products <= (FOLLOWED_IN_BFLOAT16 if few else FOLLOWED)


def _followed_shape(image: Sequence[int], matrix: Sequence[int], *, recipe: Recipe) -> tuple[int, int]:
    height, width = recipe.window.output_hw(image[1], image[2])
    return image[0] * height * width, matrix[1]


@primitive("followed_sums", shape=_followed_shape)
def _followed_sums(image: Tensor, matrix: Tensor, *, recipe: Recipe) -> Tensor:
    """Register values after the last block (of stored sums where the packer has added them up)."""
    rows = recipe.inner.worked_rows().to(image.device)
    windows = F.pad(recipe.window.matrix(image), (0, 1))
    at_once = max(1, _WINDOW_VALUES // len(rows))
    parts = (in_source(recipe, part[:, rows]) for part in windows.split(at_once))
    return torch.cat([follow(recipe, part, matrix) for part in parts])


def in_source(recipe: Recipe, windows: Tensor) -> Tensor:
    """Activations as they stand in a source register."""
    return packed_in_source(windows, recipe.activations)


def packed_in_source(x: Tensor, dtype: DataType) -> Tensor:
    """Packed values as they come back into a source register: narrow ones as they are, without denormals."""
    packed = pack(x, dtype)
    return to_source(packed, dtype) if dtype is DataType.FLOAT32 else packed


def follow(recipe: Recipe, windows: Tensor, matrix: Tensor) -> Tensor:
    """Register values after the last block, of windows and weights as they stand in source registers."""
    stored: Tensor | None = None
    register = windows
    depth = recipe.depth
    starts = range(0, len(matrix), depth)
    for start in starts:
        in_register = not recipe.packer_adds or (not recipe.bias and start == starts[-1])
        block = slice(start, start + depth)
        register = matrix_unit.matmul(
            windows[:, block],
            matrix[block],
            recipe.fidelity,
            fp32_dest=recipe.fp32_dest,
            register=_reloaded(recipe, stored) if in_register else None,
        )
        if stored is not None and not in_register:
            register = packer_sum(stored, register, recipe.partials)
        stored = pack(register, recipe.partials)
    return register


def _reloaded(recipe: Recipe, stored: Tensor | None) -> Tensor | None:
    if stored is None or recipe.reloads_whole:
        return stored
    return to_source(stored, recipe.partials)


def packer_sum(stored: Tensor, register: Tensor, dtype: DataType) -> Tensor:
    """What the packer leaves in L1 when it adds: in bfloat16 rounded to nearest even."""
    total = stored + pack(register, dtype)
    return total if dtype is DataType.FLOAT32 else total.to(torch.bfloat16).to(torch.float32)
