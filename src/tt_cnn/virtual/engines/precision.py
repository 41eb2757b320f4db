# SPDX-License-Identifier: Apache-2.0
"""In how many bits compiled replays compute."""

from __future__ import annotations

from dataclasses import dataclass

EIGHT_BITS = ("int8", "fp8")
PRECISIONS = ("float32", *EIGHT_BITS)
GUARD, SAMPLES = 0.99, 4


@dataclass(frozen=True)
class EightBits:
    """Convolutions and products in 8 bits, as long as the outputs' PCC against float32 stays above the guard."""

    name: str = "int8"
    """`int8`: whole numbers, on the CPU. `fp8`: e4m3 numbers, on a GPU."""
    guard: float = GUARD
    samples: int = SAMPLES
    """Different inputs that are replayed as ever first, to learn from. The last is kept to check what was learnt."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.guard <= 1.0:
            raise ValueError(f"guard is {self.guard}; it is a PCC, from 0 to 1")
        if self.samples < 2:
            raise ValueError(f"samples is {self.samples}; one to calibrate on and one to check are needed at least")


def create_precision(name: str, guard: float | None, samples: int | None) -> EightBits | None:
    """None stands for float32, which is 16 bits on a GPU."""
    if name not in PRECISIONS:
        raise ValueError(f"precision is {name!r}; it must be one of {', '.join(PRECISIONS)}")
    if name in EIGHT_BITS:
        return EightBits(name, GUARD if guard is None else guard, SAMPLES if samples is None else samples)
    if guard is not None or samples is not None:
        raise ValueError("guard and samples belong to precision='int8' and 'fp8'; leave them out, or ask for one")
    return None
