# SPDX-License-Identifier: Apache-2.0
"""Cells of CSV files: what a spreadsheet would run as a formula stays text, numbers stay numbers."""

from __future__ import annotations

from typing import Any

_STARTS = tuple("=+-@\t\r\n＝＋－＠")
"""What makes a spreadsheet take a text for a formula, the wide forms of East Asian keyboards too."""


def cell(value: Any) -> Any:
    """A value as it may stand in a cell. A quote before a text says to spreadsheets that it is one."""
    if not isinstance(value, str) or not value.startswith(_STARTS) or _is_number(value):
        return value
    return f"'{value}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text == text.strip()
