# SPDX-License-Identifier: Apache-2.0
"""Which statements programs are drawn from."""

from __future__ import annotations

import warnings
from contextlib import suppress
from typing import Any

from tests.differential import elementwise, lookups, movement, networks
from tests.differential.drawing import Drawing, Family, Taste
from tests.differential.program import Program

FAMILIES: dict[str, Family] = {
    "unary": Family(4, elementwise.unary),
    "binary": Family(5, elementwise.binary),
    "in_place": Family(1.5, elementwise.in_place),
    "freed": Family(0.7, movement.freed),
    "integers": Family(0.7, elementwise.integers),
    "selection": Family(0.5, elementwise.selection),
    "rearrangement": Family(3, movement.rearrangement),
    "sharding": Family(0.8, movement.sharding),
    "joining": Family(1.5, movement.joining),
    "convolution": Family(2, networks.convolution),
    "transposed_convolution": Family(0.4, networks.transposed_convolution),
    "pool": Family(1, networks.pool),
    "upsampling": Family(0.5, networks.upsampling),
    "product": Family(1, networks.product),
    "reduction": Family(1, networks.reduction),
    "ordering": Family(0.3, networks.ordering),
    "normalization": Family(1, networks.normalization),
    "gated": Family(0.3, elementwise.gated),
    "moved": Family(0.4, movement.moved),
    "indexing": Family(0.4, lookups.indexing),
    "sampling": Family(0.3, lookups.sampling),
    "attention": Family(0.4, lookups.attention),
    "of_batches": Family(0.4, lookups.of_batches),
}

STYLES: tuple[tuple[str, ...], ...] = (
    (),
    (),
    ("unary", "binary"),
    ("unary", "binary", "in_place", "freed", "rearrangement", "joining"),
    ("in_place", "ordering", "selection", "integers", "unary", "binary"),
    ("convolution", "transposed_convolution", "pool", "upsampling", "binary", "unary", "joining"),
    ("rearrangement", "joining", "binary", "reduction", "normalization", "product"),
    ("indexing", "sampling", "attention", "of_batches", "gated", "unary", "binary", "moved", "in_place"),
)
"""Programs of all families, and of those whose statements meet in one step of an engine."""


def drawn(seed: int, taste: Taste, ttnn: Any, device: Any) -> Program | None:
    """A program that the card takes."""
    with warnings.catch_warnings(), suppress(ValueError):
        warnings.simplefilter("ignore")
        return Drawing(seed, taste, ttnn, device).program(FAMILIES, STYLES)
    return None
