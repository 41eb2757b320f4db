# SPDX-License-Identifier: Apache-2.0
"""A convolution's sums as the card makes them, some windows at a time, so that these stay in the caches."""

from __future__ import annotations

import ctypes
from functools import lru_cache

import torch
from torch import Tensor

from tt_cnn.virtual.kernel_library import library, pointer
from tt_cnn.virtual.numerics.convolution.compute import follow, in_source
from tt_cnn.virtual.numerics.convolution.recipe import Recipe
from tt_cnn.virtual.numerics.formats import BLOCK, MAGNITUDE_BITS
from tt_cnn.virtual.numerics.primitive import PRIMITIVES

WINDOW_VALUES = 1 << 20
_ZEROS = -1
"""The offset of a run of zeros."""


class _Stretch(ctypes.Structure):
    _fields_ = (("offset", ctypes.c_int64), ("length", ctypes.c_int64))


class _Places(ctypes.Structure):
    """As gathering.h has it."""

    _fields_ = tuple((name, ctypes.c_int64) for name in ("out_height", "out_width", "image", "row", "pixel"))


def followed_sums(image: Tensor, matrix: Tensor, *, recipe: Recipe) -> Tensor:
    if image.device.type != "cpu" or image.dtype is not torch.float32:
        return PRIMITIVES["followed_sums"].function(image, matrix, recipe=recipe)
    padded = recipe.window.padded(image).contiguous()
    batch, height, width, channels = padded.shape
    out_height, out_width = recipe.window.output_size(padded)
    pixels, depth = batch * out_height * out_width, len(recipe.inner.worked_rows())
    whole = are_blocks_whole(recipe, channels)
    if whole:
        padded = in_source(recipe, padded).contiguous()
    stride = recipe.window.stride
    windows = _Places(
        out_height, out_width, height * width * channels, stride[0] * width * channels, stride[1] * channels
    )
    runs = _runs(recipe, width, channels)
    results = matrix.new_empty(pixels, matrix.shape[1])
    at_once = max(1, WINDOW_VALUES // depth)
    for first in range(0, pixels, at_once):
        part = torch.empty(min(at_once, pixels - first), depth)
        sizes = map(ctypes.c_int64, (len(runs), first, len(part), depth))
        threads = ctypes.c_int64(torch.get_num_threads())
        library("units").gather_windows(pointer(padded), ctypes.byref(windows), runs, *sizes, pointer(part), threads)
        results[first : first + len(part)] = follow(recipe, part if whole else in_source(recipe, part), matrix)
    return results


@lru_cache(maxsize=256)
def are_blocks_whole(recipe: Recipe, channels: int) -> bool:
    """Whether numbers that share an exponent in a window share it in the image too, so that each is rounded once."""
    if recipe.activations not in MAGNITUDE_BITS:
        return True
    rows = recipe.inner.worked_rows().view(-1, BLOCK)
    blank = rows == recipe.inner.blank
    aligned = (rows[:, :1] % BLOCK == 0) & (rows == rows[:, :1] + torch.arange(BLOCK))
    return channels % BLOCK == 0 and bool((blank.all(1) | aligned.all(1)).all())


@lru_cache(maxsize=256)
def _runs(recipe: Recipe, width: int, channels: int) -> ctypes.Array[_Stretch]:
    """What a window is made of, in the order in which it is worked through."""
    runs: list[tuple[int, int]] = []
    for number in recipe.inner.worked_rows().tolist():
        offset = _ZEROS
        if number != recipe.inner.blank:
            tap, channel = divmod(number, recipe.inner.channels)
            row, column = divmod(tap, recipe.window.kernel[1])
            down, right = row * recipe.window.dilation[0], column * recipe.window.dilation[1]
            offset = (down * width + right) * channels + channel
        last, length = runs[-1] if runs else (_ZEROS - 1, 0)
        if offset == (_ZEROS if last == _ZEROS else last + length):
            runs[-1] = (last, length + 1)
        else:
            runs.append((offset, 1))
    return (_Stretch * len(runs))(*(_Stretch(*one) for one in runs))
