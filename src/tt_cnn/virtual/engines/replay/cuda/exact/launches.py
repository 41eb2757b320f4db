# SPDX-License-Identifier: Apache-2.0
"""Launches of the kernels that follow the card's units: which blocks, how many, and with which operands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from tt_cnn.virtual.engines.replay.cuda.exact import product_kernels, unit_kernels
from tt_cnn.virtual.engines.replay.cuda.exact.places import Places, Stored
from tt_cnn.virtual.engines.replay.kernels.units import repeated_numbers
from tt_cnn.virtual.numerics.fidelity import phases_of
from tt_cnn.virtual.types.enums import MathFidelity

SETTINGS = {"num_warps": 4, "enable_fp_fusion": False}
"""A sum of a product is rounded twice, but where a kernel asks for once."""
NUMBERS, BLOCKS, SURVEYED = 1024, 64, 1024
"""That a program computes, or looks at at a time."""
MANY = 1 << 19
"""Results that fill a GPU with large tiles."""
SMALL = {"SHARES": 2, "BM": 16, "LANES": 16}
NARROW = {"SHARES": 4, "BM": 64, "LANES": 8}
WIDE = {"SHARES": 4, "BM": 32, "LANES": 16}
LARGEST = 1 << 31
"""Places are numbers of 32 bits."""


def follow(
    x: Tensor, w: Tensor, start: Tensor | None, offsets: Tensor, adjacent: bool, places: Places, stored: Stored,
    fidelity: MathFidelity, fp32_dest: bool,
) -> Tensor:  # fmt: skip
    """Register values (rows, columns of w). All tensors are contiguous."""
    columns = w.shape[1]
    found = torch.empty(3 * product_kernels.SURVEYORS.value, dtype=torch.int32, device=x.device)
    y = torch.empty(places.rows, columns, device=x.device)
    begin, starts = (x, False) if start is None else (start, True)
    product_kernels.survey[(product_kernels.SURVEYORS.value,)](
        x, w, begin, found, x.numel(), w.numel(), begin.numel() if starts else 0,
        STARTS=starts, NARROW=not fp32_dest, BLOCK=SURVEYED, **SETTINGS,
    )  # fmt: skip
    for ordinary in (True, False):
        tile = tile_of(places.rows, columns) if ordinary else SMALL
        grid = (-(-places.rows // tile["BM"]) * -(-columns // (tile["SHARES"] * tile["LANES"])),)
        product_kernels.followed[grid](
            x, w, begin, y, offsets, found, places.rows, columns, stored.depth, stored.blocks, places.results,
            places.across, places.image, places.line, places.pixel, len(phases_of(fidelity)),
            STARTS=starts, FP32=fp32_dest, PARTIALS=stored.partials,
            PACKER=stored.packer_adds, BIAS=stored.bias, WHOLE_SUMS=stored.whole_sums, ADJACENT=adjacent,
            ORDINARY=ordinary, **tile, **SETTINGS,
        )  # fmt: skip
    return y


def tile_of(rows: int, columns: int) -> dict[str, int]:
    """What a program computes: see `followed` in product_kernels.py."""
    if rows * columns < MANY:
        return SMALL
    return NARROW if columns <= 32 else WIDE


@lru_cache(maxsize=64)
def in_order(count: int, device: torch.device) -> Tensor:
    """The offsets of a matrix's row."""
    return resident(torch.arange(count, dtype=torch.int32), device)


_kept: ContextVar[list[Tensor] | None] = ContextVar("kept", default=None)


@contextmanager
def keeping() -> Iterator[list[Tensor]]:
    """Within, the tensors are noted that caches hold: a graph that reads them must hold them too."""
    noted: list[Tensor] = []
    token = _kept.set(noted)
    try:
        yield noted
    finally:
        _kept.reset(token)


def kept(value: Tensor) -> Tensor:
    """A tensor out of a cache."""
    holders = _kept.get()
    if holders is not None:
        holders.append(value)
    return value


def resident(values: Tensor, device: torch.device) -> Tensor:
    """On the GPU, for all of its streams."""
    there = values.to(device)
    if device.type == "cuda":
        torch.cuda.current_stream(device).synchronize()
    return there


def rounded(kind: str, x: Tensor, bits: int = 0) -> Tensor:
    x = x.contiguous()
    y = torch.empty_like(x)
    grid = (-(-x.numel() // NUMBERS),)
    unit_kernels.roundings[grid](x, y, x.numel(), KIND=kind, KEPT=bits, BLOCK=NUMBERS, **SETTINGS)
    return y


def blocks(x: Tensor, precise: bool, cut: int) -> Tensor:
    x = x.contiguous()
    y, count = torch.empty_like(x), x.numel() // 16
    unit_kernels.blocks[(-(-count // BLOCKS),)](x, y, count, PRECISE=precise, CUT=cut, BLOCK=BLOCKS, **SETTINGS)
    return y


def looked_up(results: Tensor, x: Tensor) -> Tensor:
    x = x.contiguous()
    y = torch.empty_like(x)
    unit_kernels.look_up[(-(-x.numel() // NUMBERS),)](results, x, y, x.numel(), BLOCK=NUMBERS, **SETTINGS)
    return y


def aligned_sums(a: Tensor, b: Tensor, fp32_dest: bool) -> Tensor:
    return _each(unit_kernels.aligned_sums, {"A": a, "B": b}, FP32=fp32_dest)


def products(a: Tensor, b: Tensor, fidelity: MathFidelity, fp32_dest: bool, exact: bool) -> Tensor:
    settings = {"PHASES": len(phases_of(fidelity)), "FP32": fp32_dest, "EXACT": exact}
    return _each(unit_kernels.products, {"A": a, "B": b}, **settings)


def multiply_adds(a: Tensor, b: Tensor, c: Tensor, vectors: tuple[bool, bool, bool]) -> Tensor:
    settings = {f"{name}_VECTOR": one for name, one in zip("ABC", vectors, strict=True)}
    return _each(unit_kernels.multiply_adds, {"A": a, "B": b, "C": c}, **settings)


def _each(kernel: Any, operands: dict[str, Tensor], **settings: Any) -> Tensor:
    shape = torch.broadcast_shapes(*(one.shape for one in operands.values()))
    held = {name: repeated_numbers(one, shape) for name, one in operands.items()}
    y = torch.empty(shape, device=held["A"].device)
    periods = [one.numel() for one in held.values()]
    settings |= {f"{name}_SINGLE": one.numel() == 1 for name, one in held.items()}
    grid = (-(-y.numel() // NUMBERS),)
    kernel[grid](*held.values(), y, y.numel(), *periods, **settings, BLOCK=NUMBERS, **SETTINGS)
    return y
