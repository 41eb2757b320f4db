"""Sums of a convolution by the host's own convolution, with the card's errors where they are felt.

* Operands are cut to the bits that the multiplier sees, activations rounded to their tiles' format.
* Sums that lose bits between blocks are rounded there too, block by block for small outputs, for a few groups of
  blocks where there are many.
* A bfloat16 register rounds ties away from zero after every 16 products, and one sum in eight is a tie: results grow
  with the number of roundings. That growth is a factor, known in advance. What else those roundings do is a random
  walk. It is too long to follow, so its size is kept and its direction drawn from the last bits of the sum itself.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from tt_cnn.virtual.numerics.bits import as_int, keep_mantissa
from tt_cnn.virtual.numerics.convolution.inner import TILE, Piece, merged
from tt_cnn.virtual.numerics.convolution.recipe import Recipe
from tt_cnn.virtual.numerics.convolution.weights import Weights
from tt_cnn.virtual.numerics.fidelity import SOURCE_MANTISSA_BITS, effective_operands, split_b
from tt_cnn.virtual.numerics.formats import BLOCK, MAGNITUDE_BITS
from tt_cnn.virtual.numerics.packer import pack
from tt_cnn.virtual.types.enums import DataType, MathFidelity

_SMALL = 1 << 16  # sums that are rounded block by block
_FEW = 4  # groups of blocks where there are more sums
# Measured with `matrix_unit.matmul` on normal data, inner dimensions of 32 to 2304: per tile of the inner dimension.
_GROWTH = {MathFidelity.LoFi: 3.4e-4}
_GROWTH_OTHERWISE = 5.2e-4
_WALK = 4.0e-3 * 0.37 * 3.0**0.5 / 32768  # of a number drawn from 16 bits, and of |sum| plus the typical one
_SAMPLE = 64  # rows that tell how large a typical sum is
_MIXER = -1640531527  # odd, its bits spread out
_BLOCK_GROWTH, _BLOCK_GROWTH_FLOAT32 = 2.2e-3, 1.0e-3  # of sums stored in a block format, per time


def quick_sums(recipe: Recipe, image: Tensor, weights: Weights) -> Tensor:
    """Register values before the bias: (output pixels, output channels padded to tiles)."""
    image = _tilized(recipe, image)
    groups = _groups(recipe, image, weights)
    scale = 1.0 + _growth(recipe, len(groups))
    parts = _parts(recipe, image)
    every, high = weights.seen(recipe.fidelity, scale)
    own_padding = _own_padding(recipe, groups)
    padded = [part if part is None or any(own_padding) else recipe.window.padded(part) for part in parts]
    total: Tensor | None = None
    for pieces in groups:
        for piece in pieces:
            product = _product(recipe, padded[0], every, piece, own_padding)
            if padded[1] is not None:
                product = product + _product(recipe, padded[1], high, piece, own_padding)
            total = product if total is None else total.add_(product)
        total = _rounded_between(recipe, total)
    assert total is not None
    if not recipe.fp32_dest and recipe.fidelity is not MathFidelity.LoFi:
        total = _walked(total, recipe)
    return total


def _parts(recipe: Recipe, image: Tensor) -> tuple[Tensor, Tensor | None]:
    """What the multiplier sees of activations: with all weights, and (HiFi3) with their high part alone."""
    if recipe.activations in MAGNITUDE_BITS:
        return image, None  # seven bits: all of it is the high part
    operands = effective_operands(image, image, recipe.fidelity)
    return split_b(image) if operands is None else (operands[1], None)


def _growth(recipe: Recipe, groups: int) -> float:
    """By how much ties make a sum larger, without those that are met between groups of blocks."""
    growth = 0.0 if recipe.fp32_dest else _GROWTH.get(recipe.fidelity, _GROWTH_OTHERWISE) * recipe.steps
    if recipe.partials in MAGNITUDE_BITS:
        skipped = len(recipe.pieces) - groups
        growth += skipped * (_BLOCK_GROWTH_FLOAT32 if recipe.fp32_dest else _BLOCK_GROWTH)
    return growth


def _tilized(recipe: Recipe, image: Tensor) -> Tensor:
    """The image in the format of tiles. Blocks share exponents along a window's row: here along channels alone."""
    if recipe.activations in MAGNITUDE_BITS:
        channels = image.shape[-1]
        image = pack(F.pad(image, (0, -channels % BLOCK)), recipe.activations)[..., :channels]
    return keep_mantissa(image.contiguous(), SOURCE_MANTISSA_BITS) if recipe.activations is DataType.FLOAT32 else image


def _loses_bits(recipe: Recipe) -> bool:
    if recipe.partials is DataType.FLOAT32:
        return False
    return recipe.fp32_dest or recipe.packer_adds or recipe.partials is not DataType.BFLOAT16


def _groups(recipe: Recipe, image: Tensor, weights: Weights) -> list[list[Piece]]:
    pieces = recipe.pieces
    if weights.groups > 1 or not _loses_bits(recipe):
        return merged(pieces, 1)
    height, width = recipe.window.stride
    sums = image.shape[0] * image.shape[1] * image.shape[2] // (height * width) * weights.values.shape[0]
    return merged(pieces, len(pieces) if sums <= _SMALL else _FEW)


def _own_padding(recipe: Recipe, groups: list[list[Piece]]) -> tuple[int, int]:
    """Padding that torch's convolution can do itself: the same on both sides, of a whole kernel."""
    top, bottom, left, right = recipe.window.padding
    plain = top == bottom and left == right and not recipe.window.replicates
    whole = all(piece.rows == (0, recipe.window.kernel[0]) for pieces in groups for piece in pieces)
    return (top, left) if plain and whole else (0, 0)


def _product(
    recipe: Recipe, image: Tensor | None, weights: Tensor, piece: Piece, own_padding: tuple[int, int]
) -> Tensor:
    assert image is not None
    window, (top, bottom) = recipe.window, piece.rows
    first, last = piece.channels[0], min(piece.channels[1], image.shape[-1])
    out = weights.shape[0]
    if recipe.groups == 1 and last - first < image.shape[-1]:
        weights, image = weights[:, first:last], image[..., first:last]
    if bottom - top < window.kernel[0]:
        height = window.output_size(image)[0]
        start = top * window.dilation[0]
        image = image[:, start : (bottom - 1) * window.dilation[0] + (height - 1) * window.stride[0] + 1]
        weights = weights[:, :, top:bottom]
    if window.touches_each_pixel_once and recipe.groups == 1:
        values = image.reshape(-1, last - first) @ weights.reshape(out, -1).T
    else:
        nchw = image.permute(0, 3, 1, 2)
        result = F.conv2d(nchw, weights, None, window.stride, own_padding, window.dilation, recipe.groups)
        values = result.permute(0, 2, 3, 1).reshape(-1, out)
    return F.pad(values, (0, -out % TILE)) if out % TILE else values


def _rounded_between(recipe: Recipe, total: Tensor | None) -> Tensor:
    assert total is not None
    if not _loses_bits(recipe):
        return total
    if recipe.packer_adds:
        return total.to(torch.bfloat16).to(torch.float32)
    # a bfloat16 register makes every other of its values a tie for the block formats
    register = total if recipe.fp32_dest else pack(total, DataType.BFLOAT16, inplace=True)
    return pack(register, recipe.partials, inplace=True)


def _walked(total: Tensor, recipe: Recipe) -> Tensor:
    """The sums after a random walk of roundings: its steps are as long as the sum has grown by then."""
    sample = total[:: max(1, len(total) // _SAMPLE)]
    size = total.abs().add_(sample.square().mean().sqrt_())
    drawn = (as_int(total) * _MIXER).bitwise_right_shift_(16).to(torch.float32)
    return torch.addcmul(total, drawn, size, value=_WALK * recipe.steps**0.5)


def quickly_biased(recipe: Recipe, sums: Tensor, bias: Tensor) -> Tensor:
    """Register values after the bias. `sums` are used up."""
    if not recipe.fp32_dest:
        sums = pack(sums, DataType.BFLOAT16, inplace=True)
    if recipe.partials is not DataType.BFLOAT16 or recipe.fp32_dest:
        sums = pack(sums, recipe.partials, inplace=True)
    register = sums.add_(bias)
    return register if recipe.fp32_dest else pack(register, DataType.BFLOAT16, inplace=True)
