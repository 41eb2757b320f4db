"""The cards, as data: one file a card."""

from __future__ import annotations

from tt_cnn.virtual.arch.card import Card
from tt_cnn.virtual.arch.n150 import N150
from tt_cnn.virtual.arch.n300 import N300
from tt_cnn.virtual.arch.p150 import P150

CARDS: dict[str, Card] = {card.name: card for card in (N150, N300, P150)}


def card_by_name(name: str) -> Card:
    if name not in CARDS:
        raise ValueError(f"card is {name!r}; the virtual cards are {', '.join(CARDS)}")
    return CARDS[name]


__all__ = ["CARDS", "Card", "card_by_name"]
