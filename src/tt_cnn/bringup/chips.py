# SPDX-License-Identifier: Apache-2.0
"""The chip that a model is brought up on, for cards of several chips that each run it."""

from __future__ import annotations

from tt_cnn.virtual.arch import CARDS, Card, card_by_name


def one_chip_of(card: str) -> str:
    """The card of one chip that a model is brought up on for this one, each of whose chips runs it."""
    wanted = card_by_name(card)
    if wanted.chips == 1:
        return card
    alike = (each for each in CARDS.values() if each.chips == 1 and _chip(each) == _chip(wanted))
    found = next(alike, None)
    if found is None:
        raise ValueError(
            f"{card} has {wanted.chips} chips, and there is no card with one of them to bring a model up on"
        )
    return found.name


def _chip(card: Card) -> tuple[object, ...]:
    return (card.arch_name, card.grid, card.l1_size, card.l1_base, card.dram_banks)
