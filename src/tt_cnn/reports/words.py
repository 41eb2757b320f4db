# SPDX-License-Identifier: Apache-2.0
"""Numbers with their nouns."""

from __future__ import annotations


def counted(number: int, what: str, plural: str = "") -> str:
    """`1 step`, `2 steps`; `plural` where an s does not make it one."""
    return f"{number:,} {what if number == 1 else plural or what + 's'}".replace(",", " ")


def amount(number: int) -> str:
    """`56.58 G`, `44.57 M`, `58,450`: parameters and multiply-adds, the same in all documents."""
    for size, unit in ((1e9, "G"), (1e6, "M")):
        if number >= size:
            return f"{number / size:.2f} {unit}"
    return f"{number:,}"
