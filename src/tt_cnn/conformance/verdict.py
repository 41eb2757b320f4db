# SPDX-License-Identifier: Apache-2.0
"""What came of comparing one field of one record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Verdict:
    agrees: bool
    recorded: Any
    found: Any
