# SPDX-License-Identifier: Apache-2.0
"""What an actor of Ray's does for `zoo.py`: the rows of architectures, one after the other.

Apart from `zoo_rows.py`, whose code has a part in the version of every row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bringup_rows import Row
from zoo_rows import Tried, architecture_rows


@contextmanager
def rows() -> Iterator[Callable[[list[tuple[str, list[str], Tried]]], list[list[Row]]]]:
    yield lambda asked: [list(architecture_rows(*each)) for each in asked]
