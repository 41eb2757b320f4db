# SPDX-License-Identifier: Apache-2.0
"""The table of a sharded nearest upsampling: for each core, the runs of input sticks that its output rows repeat."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

_FIELDS = 4
"""Of a run: the source core's two coordinates, first and last stick."""
_ENTRY = 2


@lru_cache(maxsize=1024)
def sharded_table(images: int, height: int, width: int, scale_h: int, rows: int) -> int:
    """Bytes per core. The two data movement processors of a core share its output rows; both get the longest list.

    Columns are repeated on the way out, so positions here are output rows times input columns. A run ends where an
    image row is read again, where the next core's shard begins, and where the next processor takes over.
    """
    total = images * height * scale_h * width
    again = np.arange(images * height * scale_h, dtype=np.int64)
    again = again[again % scale_h != 0] * width
    shards = np.arange(0, images * height * width, rows, dtype=np.int64)
    image_row, column = np.divmod(shards, width)
    repeats = np.arange(scale_h, dtype=np.int64)
    boundaries = ((image_row[:, None] * scale_h + repeats) * width + column[:, None]).reshape(-1)
    shares = _shares(total, rows * scale_h)
    starts = np.sort(np.concatenate([again, boundaries, shares]))
    starts = starts[np.diff(starts, prepend=-1) != 0]
    runs = np.bincount(np.searchsorted(shares, starts, side="right"))
    return 2 * int(runs.max()) * _FIELDS * _ENTRY


def _shares(total: int, a_core: int) -> np.ndarray:
    """Where a processor's share begins: the first of a core has the larger half."""
    if a_core == 1:
        return np.arange(total, dtype=np.int64)
    whole = np.arange(0, total, a_core, dtype=np.int64)
    shares = np.sort(np.concatenate([whole, whole + (a_core + 1) // 2]))
    return shares[shares < total]
