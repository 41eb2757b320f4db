# SPDX-License-Identifier: Apache-2.0
"""Primitives of the numerics on a GPU: by kernels that follow the card's units, with the bits that the CPU has.

Functions of bfloat16 registers are looked up in tables that the CPU has made. What is no more than the host's own
arithmetic (sums in its order, functions that the card's kernel is not known of) is the host's here too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tt_cnn.virtual.engines.replay.cuda.exact import launches
from tt_cnn.virtual.engines.replay.cuda.exact.launches import LARGEST
from tt_cnn.virtual.engines.replay.cuda.exact.places import Places, Stored, offsets_of, stored_between
from tt_cnn.virtual.engines.replay.kernels.gathering import are_blocks_whole
from tt_cnn.virtual.engines.replay.kernels.tables import table_of
from tt_cnn.virtual.numerics.convolution.compute import in_source
from tt_cnn.virtual.numerics.convolution.recipe import Recipe
from tt_cnn.virtual.numerics.formats import BLOCK, MAGNITUDE_BITS
from tt_cnn.virtual.numerics.matrix_unit import TILE
from tt_cnn.virtual.numerics.primitive import PRIMITIVES
from tt_cnn.virtual.numerics.vector_unit import Trust, VectorUnit, binary_ops, unary_ops
from tt_cnn.virtual.numerics.vector_unit.registry import has_stand_in
from tt_cnn.virtual.types.enums import DataType, MathFidelity

ROUNDINGS = ("to_bfloat16", "round_away", "round_even", "stored", "cut", "flush_denormals")
OF_THE_HOST = ("total", "window_sums", "product")
"""Sums in the order of the host."""


def suits(*operands: Tensor) -> bool:
    return all(x.is_cuda and x.dtype is torch.float32 and 0 < x.numel() < LARGEST for x in operands)


def followed_product(
    x: Tensor, w: Tensor, register: Tensor | None = None, *, fidelity: MathFidelity, fp32_dest: bool
) -> Tensor:
    given = [x, w] if register is None else [x, w, register]
    if not suits(*given) or x.shape[0] * w.shape[1] >= LARGEST:
        return PRIMITIVES["followed_product"].function(*given, fidelity=fidelity, fp32_dest=fp32_dest)
    return multiplied(x, w, register, fidelity, fp32_dest)


def multiplied(x: Tensor, w: Tensor, register: Tensor | None, fidelity: MathFidelity, fp32_dest: bool) -> Tensor:
    deeper = -x.shape[1] % TILE
    x, w = F.pad(x, (0, deeper)).contiguous(), F.pad(w, (0, 0, 0, deeper)).contiguous()
    begin = None if register is None else register.contiguous()
    (rows, inner), offsets = x.shape, launches.kept(launches.in_order(x.shape[1], x.device))
    places, stored = Places.of_matrix(rows, inner), Stored(inner)
    return launches.follow(x, w, begin, offsets, True, places, stored, fidelity, fp32_dest)


def followed_sums(image: Tensor, matrix: Tensor, *, recipe: Recipe) -> Tensor:
    """Without a matrix of windows, where numbers that share an exponent in a window share it in the image."""
    stored = stored_between(recipe, len(matrix))
    if stored is None or not suits(image, matrix) or not are_blocks_whole(recipe, image.shape[-1]):
        return PRIMITIVES["followed_sums"].function(image, matrix, recipe=recipe)
    return summed(image, matrix, recipe, stored)


def summed(image: Tensor, matrix: Tensor, recipe: Recipe, stored: Stored) -> Tensor:
    padded = in_source(recipe, recipe.window.padded(image).contiguous()).contiguous()
    places = Places.of_windows(recipe, padded.shape)
    offsets, adjacent = _offsets(recipe, padded.shape[2], padded.shape[3], image.device)
    return launches.follow(
        padded,
        matrix.contiguous(),
        None,
        launches.kept(offsets),
        adjacent,
        places,
        stored,
        recipe.fidelity,
        recipe.fp32_dest,
    )


@lru_cache(maxsize=256)
def _offsets(recipe: Recipe, width: int, channels: int, device: torch.device) -> tuple[Tensor, bool]:
    offsets, adjacent = offsets_of(recipe, width, channels)
    return launches.resident(offsets, device), adjacent


def rounding(name: str) -> Callable[..., Tensor]:
    def run(x: Tensor, *, bits: int = 0, **options: Any) -> Tensor:
        if not suits(x):
            return PRIMITIVES[name].function(x, **({"bits": bits} if bits else {}), **options)
        return launches.rounded(name, x, bits)

    return run


def to_blocks(x: Tensor, *, dtype: DataType, precise: bool, inplace: bool = False) -> Tensor:
    if not suits(x) or x.shape[-1] % BLOCK:
        return PRIMITIVES["to_blocks"].function(x, dtype=dtype, precise=precise, inplace=inplace)
    return launches.blocks(x, precise, 7 - MAGNITUDE_BITS[dtype])


def aligned_sum(a: Tensor, b: Tensor, *, fp32_dest: bool) -> Tensor:
    if not suits(a, b):
        return PRIMITIVES["aligned_sum"].function(a, b, fp32_dest=fp32_dest)
    return launches.aligned_sums(a, b, fp32_dest)


def product_of_each(a: Tensor, b: Tensor, *, fidelity: MathFidelity, fp32_dest: bool, exact: bool) -> Tensor:
    if not suits(a, b):
        return PRIMITIVES["multiplied"].function(a, b, fidelity=fidelity, fp32_dest=fp32_dest, exact=exact)
    return launches.products(a, b, fidelity, fp32_dest, exact)


def partially_fused(a: Tensor, b: Tensor, c: Tensor, *, vectors: tuple[bool, bool, bool]) -> Tensor:
    if not suits(a, b, c):
        return PRIMITIVES["partially_fused"].function(a, b, c, vectors=vectors)
    return launches.multiply_adds(a, b, c, vectors)


def unary(x: Tensor, *, name: str, params: tuple[float, ...], unit: VectorUnit) -> Tensor:
    if not suits(x) or has_stand_in(name, unit):
        return PRIMITIVES["unary"].function(x, name=name, params=params, unit=unit)
    if not unit.fp32_dest:
        return launches.looked_up(launches.kept(_table(name, params, repr(params), unit, x.device)), x)
    if unary_ops()[name].trust is Trust.IDEAL:
        return on_host("unary")(x, name=name, params=params, unit=unit)
    return PRIMITIVES["unary"].function(x, name=name, params=params, unit=unit)


@lru_cache(maxsize=256)
def _table(name: str, params: tuple[float, ...], written: str, unit: VectorUnit, device: torch.device) -> Tensor:
    return launches.resident(table_of(name, params, written, unit), device)


def binary(a: Tensor, b: Tensor, *, name: str, unit: VectorUnit) -> Tensor:
    run = on_host("binary") if binary_ops()[name].trust is Trust.IDEAL else PRIMITIVES["binary"].function
    return run(a, b, name=name, unit=unit)


def on_host(name: str) -> Callable[..., Tensor]:
    def run(*operands: Tensor, **parameters: Any) -> Tensor:
        result = PRIMITIVES[name].function(*(one.cpu() for one in operands), **parameters)
        return result.to(operands[0].device)

    return run


FOLLOWED: dict[str, Callable[..., Tensor]] = {
    "followed_product": followed_product,
    "followed_sums": followed_sums,
    "to_blocks": to_blocks,
    "aligned_sum": aligned_sum,
    "multiplied": product_of_each,
    "partially_fused": partially_fused,
    "unary": unary,
    "binary": binary,
    **{name: rounding(name) for name in ROUNDINGS},
    **{name: on_host(name) for name in OF_THE_HOST},
}
