# SPDX-License-Identifier: Apache-2.0
"""Where the command was given, for actors: users' modules and files are found there as by the command."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class Driver:
    folder: str
    path: tuple[str, ...]
    """Of modules."""

    @classmethod
    def here(cls) -> Driver:
        return cls(os.getcwd(), tuple(sys.path))

    def follow(self) -> None:
        """Be in its folder and import from its path, as far as this machine has them."""
        if os.path.isdir(self.folder):
            os.chdir(self.folder)
        sys.path.extend(each for each in self.path if each not in sys.path and os.path.exists(each))
