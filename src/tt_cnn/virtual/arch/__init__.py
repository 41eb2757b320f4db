# SPDX-License-Identifier: Apache-2.0
"""The cards, and machines of several, as data: one file each."""

from __future__ import annotations

import re

from tt_cnn.virtual.arch.card import Card
from tt_cnn.virtual.arch.galaxy import GALAXY
from tt_cnn.virtual.arch.n150 import N150
from tt_cnn.virtual.arch.n300 import N300
from tt_cnn.virtual.arch.p100 import P100
from tt_cnn.virtual.arch.p150 import P150
from tt_cnn.virtual.arch.t3000 import T3000

CARDS: dict[str, Card] = {card.name: card for card in (N150, N300, T3000, GALAXY, P150, P100)}
_WITH_GRID = re.compile(r"(?P<name>\w+)-(?P<columns>\d+)x(?P<rows>\d+)")


def card_by_name(name: str) -> Card:
    """A card by its name, or one with another grid of cores: `p150`, `p150-13x10`."""
    if name in CARDS:
        return CARDS[name]
    found = _WITH_GRID.fullmatch(name)
    if found is None or found["name"] not in CARDS:
        raise ValueError(f"card is {name!r}; the virtual cards are {', '.join(CARDS)}")
    return CARDS[found["name"]].with_grid((int(found["columns"]), int(found["rows"])))


__all__ = ["CARDS", "Card", "card_by_name"]
