# SPDX-License-Identifier: Apache-2.0
"""Sums of a convolution by the host's own convolution, with the card's errors where they are felt.

* Operands are cut to the bits that the multiplier sees, activations rounded to their tiles' format.
* Sums that lose bits between blocks are rounded there too, block by block for small outputs, for a few groups of
  blocks where there are many.
* A bfloat16 register rounds ties away from zero after every 16 products, and one sum in eight is a tie: results grow
  with the number of roundings. That growth is a factor, known in advance. What else those roundings do is a random
  walk. It is too long to follow, so its size is kept and its direction drawn from the last bits of the sum itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from tt_cnn.virtual.numerics.bits import as_int, keep_mantissa
from tt_cnn.virtual.numerics.convolution.inner import TILE, Piece, merged
from tt_cnn.virtual.numerics.convolution.recipe import Recipe
from tt_cnn.virtual.numerics.convolution.weights import Weights
from tt_cnn.virtual.numerics.convolution.windows import Window
from tt_cnn.virtual.numerics.fidelity import SOURCE_MANTISSA_BITS, effective_operands, split_b
from tt_cnn.virtual.numerics.formats import BLOCK, MAGNITUDE_BITS
from tt_cnn.virtual.numerics.packer import pack
from tt_cnn.virtual.numerics.primitive import is_noting, primitive
from tt_cnn.virtual.types.enums import DataType, MathFidelity

_SMALL = 1 << 16  # sums that are rounded block by block
_FEW = 4  # groups of blocks where there are more sums
# Measured with `matrix_unit.matmul` on normal data, inner dimensions of 32 to 2304: per tile of the inner dimension.
_GROWTH = {MathFidelity.LoFi: 3.4e-4}
_GROWTH_OTHERWISE = 5.2e-4
_SEVEN_BITS = (MathFidelity.LoFi, MathFidelity.HiFi2)  # all that these see of activations
_WALK = 4.0e-3 * 0.37 * 3.0**0.5 / 32768  # of a number drawn from 16 bits, and of |sum| plus the typical one
_SAMPLE = 64  # rows that tell how large a typical sum is
_MIXER = -1640531527  # odd, its bits spread out
_BLOCK_GROWTH, _BLOCK_GROWTH_FLOAT32 = 2.2e-3, 1.0e-3  # of sums stored in a block format, per time


@dataclass(frozen=True)
class Plan:
    """How sums are made of the operands that the multiplier sees."""

    window: Window
    groups: int
    """Of the convolution."""
    pieces: tuple[tuple[Piece, ...], ...]
    """What is added up without loss, group after group."""
    between: tuple[DataType | None, ...]
    """What a sum is rounded to between two of those: as the packer does, or (None) to bfloat16 with ties to even."""
    last: tuple[DataType | None, ...]
    """The same after the last of them."""
    scale: float = 1.0
    """What the weights have been multiplied with."""
    narrow: bool = False
    """What is multiplied with them has at most the bits of bfloat16."""
    walk: float = 0.0
    """How far the roundings within a group carry a sum at random, in parts of a typical sum."""

    @property
    def is_whole(self) -> bool:
        """All is added up at once."""
        return len(self.pieces) == 1


def quick_sums(recipe: Recipe, image: Tensor, weights: Weights) -> Tensor:
    """Register values before the bias: (output pixels, output channels padded to tiles)."""
    image = _tilized(recipe, image)
    pieces = _pieces(recipe, image, weights)
    scale = 1.0 + _growth(recipe, len(pieces))
    every, high = weights.seen(recipe.fidelity, scale)
    walks = not recipe.fp32_dest and recipe.fidelity is not MathFidelity.LoFi
    walk = _WALK * recipe.steps**0.5 if walks else 0.0
    narrow = recipe.activations in MAGNITUDE_BITS or recipe.fidelity in _SEVEN_BITS
    plan = Plan(recipe.window, recipe.groups, pieces, _between(recipe), _between(recipe), scale, narrow, walk)
    seen, rest = _parts(recipe, image)
    values = sums(seen, every, plan=plan) if rest is None else sums(seen, every, rest, high, plan=plan)
    out = values.shape[1]
    return F.pad(values, (0, -out % TILE)) if out % TILE else values


def _sums_shape(image: Sequence[int], weights: Sequence[int], *_: Sequence[int], plan: Plan) -> tuple[int, int]:
    height, width = plan.window.output_hw(image[1], image[2])
    return image[0] * height * width, weights[0]


@primitive("sums", shape=_sums_shape)
def sums(
    image: Tensor, weights: Tensor, rest: Tensor | None = None, high: Tensor | None = None, *, plan: Plan
) -> Tensor:
    """(output pixels, output channels). `rest` of the image meets the `high` part of the weights alone (HiFi3)."""
    own_padding = _own_padding(plan)
    pairs = [(image, weights)] if rest is None or high is None else [(image, weights), (rest, high)]
    padded = [(part if any(own_padding) else plan.window.padded(part), factor) for part, factor in pairs]
    total: Tensor | None = None
    for number, group in enumerate(plan.pieces, 1):
        for piece in group:
            for part, factor in padded:
                product = _product(plan, part, factor, piece, own_padding)
                total = product if total is None else total.add_(product)
        assert total is not None
        for dtype in plan.last if number == len(plan.pieces) else plan.between:
            total = rounded(total, dtype)
    assert total is not None
    return walked(total, plan.walk) if plan.walk else total


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


def _pieces(recipe: Recipe, image: Tensor, weights: Weights) -> tuple[tuple[Piece, ...], ...]:
    pieces = recipe.pieces
    if weights.groups > 1 or not _loses_bits(recipe):
        return _frozen(merged(pieces, 1))
    height, width = recipe.window.stride
    count = image.shape[0] * image.shape[1] * image.shape[2] // (height * width) * weights.values.shape[0]
    return _frozen(merged(pieces, len(pieces) if count <= _SMALL else _FEW))


def _frozen(pieces: list[list[Piece]]) -> tuple[tuple[Piece, ...], ...]:
    return tuple(tuple(group) for group in pieces)


def _own_padding(plan: Plan) -> tuple[int, int]:
    """Padding that torch's convolution can do itself: the same on both sides, of a whole kernel."""
    top, bottom, left, right = plan.window.padding
    plain = top == bottom and left == right and not plan.window.replicates
    whole = all(piece.rows == (0, plan.window.kernel[0]) for group in plan.pieces for piece in group)
    return (top, left) if plain and whole else (0, 0)


def _product(plan: Plan, image: Tensor, weights: Tensor, piece: Piece, own_padding: tuple[int, int]) -> Tensor:
    window, (top, bottom) = plan.window, piece.rows
    first, last = piece.channels[0], min(piece.channels[1], image.shape[-1])
    out = weights.shape[0]
    if plan.groups == 1 and last - first < image.shape[-1]:
        weights, image = weights[:, first:last], image[..., first:last]
    if bottom - top < window.kernel[0]:
        height = window.output_size(image)[0]
        start = top * window.dilation[0]
        image = image[:, start : (bottom - 1) * window.dilation[0] + (height - 1) * window.stride[0] + 1]
        weights = weights[:, :, top:bottom]
    if window.touches_each_pixel_once and plan.groups == 1:
        return image.reshape(-1, last - first) @ weights.reshape(out, -1).T
    nchw = image.permute(0, 3, 1, 2)
    result = F.conv2d(nchw, weights, None, window.stride, own_padding, window.dilation, plan.groups)
    return result.permute(0, 2, 3, 1).reshape(-1, out)


def _between(recipe: Recipe) -> tuple[DataType | None, ...]:
    if not _loses_bits(recipe):
        return ()
    if recipe.packer_adds:
        return (None,)
    # a bfloat16 register makes every other of its values a tie for the block formats
    return (recipe.partials,) if recipe.fp32_dest else (DataType.BFLOAT16, recipe.partials)


def rounded(total: Tensor, dtype: DataType | None) -> Tensor:
    """Sums (pixels, channels) between two groups of blocks; they are used up."""
    if dtype is None:
        return total.to(torch.bfloat16).to(torch.float32)
    channels = total.shape[1]
    if dtype in MAGNITUDE_BITS and channels % BLOCK:
        return pack(F.pad(total, (0, -channels % BLOCK)), dtype, inplace=True)[:, :channels].contiguous()
    return pack(total, dtype, inplace=True)


def walked(total: Tensor, walk: float) -> Tensor:
    """The sums (pixels, channels) after a random walk of roundings: its steps are as long as the sum has grown by then.

    A typical sum is the root of the mean square of some rows, the columns that fill the last tile counted.
    """
    sample = total[:: max(1, len(total) // _SAMPLE)]
    columns = -(-total.shape[1] // TILE) * TILE
    size = total.abs().add_(sample.square().sum().div_(len(sample) * columns).sqrt_())
    drawn = (as_int(total) * _MIXER).bitwise_right_shift_(16).to(torch.float32)
    return torch.addcmul(total, drawn, size, value=walk)


def quickly_biased(recipe: Recipe, total: Tensor, bias: Tensor) -> Tensor:
    """Register values after the bias. `total` is used up."""
    if not recipe.fp32_dest:
        total = pack(total, DataType.BFLOAT16, inplace=True)
    if recipe.partials is not DataType.BFLOAT16 or recipe.fp32_dest:
        total = pack(total, recipe.partials, inplace=True)
    register = total + bias if is_noting() else total.add_(bias)
    return register if recipe.fp32_dest else pack(register, DataType.BFLOAT16, inplace=True)
