"""What max and average pools are called with."""

from __future__ import annotations

from collections.abc import Sequence

from tt_cnn.virtual.ops.sliding_window.window import Pair


def pair(values: Sequence[int], name: str) -> Pair:
    numbers = tuple(int(v) for v in values)
    if len(numbers) != 2:
        raise TypeError(f"{name} is {list(numbers)}; it takes two numbers (height, width)")
    return numbers
