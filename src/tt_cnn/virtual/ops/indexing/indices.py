# SPDX-License-Identifier: Apache-2.0
"""Tensors whose values are positions in another one."""

from __future__ import annotations

import torch

from tt_cnn.virtual.errors.card_error import ValuesError


def checked_indices(indices: torch.Tensor, count: int, op: str) -> torch.Tensor:
    """Row numbers that are there. A card goes wherever they point to; here the queue tells, when it sees the values."""
    whole = indices.to(torch.int64)
    if whole.numel() and not (int(whole.min()) >= 0 and int(whole.max()) < count):
        raise ValuesError(
            f"ttnn.{op} was given indices from {int(whole.min())} to {int(whole.max())} for {count} rows.",
            "  a card would use whatever lies there in its memory",
        )
    return whole
