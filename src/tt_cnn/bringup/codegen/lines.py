# SPDX-License-Identifier: Apache-2.0
"""Lines of generated code: broken where they are too long, as a formatter would."""

from __future__ import annotations

WIDTH = 120


def broken(opening: str, elements: list[str], closing: str) -> list[str]:
    whole = f"{opening}{', '.join(elements)}{closing}"
    if len(whole) + 8 <= WIDTH:
        return [whole]
    comma = "" if len(elements) == 1 and " for " in elements[0] and not elements[0].startswith("*") else ","
    inside = [line for each in elements for line in _folded_element(each + comma)]
    return [opening, *(f"    {line}" for line in inside), closing]


def _folded_element(text: str) -> list[str]:
    """A comprehension that is too long for a line in two or four of them; a long call an argument a line."""
    if len(text) + 12 <= WIDTH:
        return [text]
    if " for " not in text:
        return [*_argument_by_argument(text.rstrip(","))[:-1], "),"]
    before, _, after = text.partition(" for ")
    if not before.startswith("*("):
        return [before, f"for {after}"]
    return ["*(", f"    {before[2:]}", f"    for {after.removesuffix('),')}", "),"]


def indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def folded(text: str) -> list[str]:
    """A call that is too long for a line, an argument a line."""
    return [text] if len(text) + 8 <= WIDTH else _argument_by_argument(text)


def _argument_by_argument(text: str) -> list[str]:
    start = text.index("(")
    return [text[: start + 1], *(f"    {part}," for part in _split(text[start + 1 : -1])), ")"]


def _split(text: str) -> list[str]:
    """At the commas of the outermost level."""
    parts, depth, current, quoted = [], 0, "", False
    for letter in text:
        if letter == '"':
            quoted = not quoted
        if not quoted and letter in "([{":
            depth += 1
        if not quoted and letter in ")]}":
            depth -= 1
        if letter == "," and depth == 0 and not quoted:
            parts.append(current.strip())
            current = ""
        else:
            current += letter
    return [*parts, current.strip()]
