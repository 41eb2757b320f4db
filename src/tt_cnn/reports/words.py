"""Numbers with their nouns."""

from __future__ import annotations


def counted(number: int, what: str, plural: str = "") -> str:
    """`1 step`, `2 steps`; `plural` where an s does not make it one."""
    return f"{number:,} {what if number == 1 else plural or what + 's'}".replace(",", " ")
