# SPDX-License-Identifier: Apache-2.0
"""`tt-cnn devices`: the cards, and which TT-NN is in use."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from tt_cnn.cli.console import say
from tt_cnn.cli.tables import Column, Listing, texts

AsJson = Annotated[bool, typer.Option("--json", help="Print the cards as JSON.")]


def devices(as_json: AsJson = False) -> None:
    """Show the virtual cards and which TT-NN is in use.

    `from tt_cnn import ttnn` gives that one. TT_CNN_RUNTIME chooses: virtual, ttnn (the real library), or auto, the
    default (the real one where it sees a card, else the virtual one). The virtual card is an n150 unless TT_CNN_CARD
    names another, or open_device is given card=.
    """
    from tt_cnn import runtime
    from tt_cnn.virtual.arch import CARDS
    from tt_cnn.virtual.devices.opening import default_card

    default = default_card().name
    in_use = runtime.describe()
    if as_json:
        cards = {name: asdict(card) | {"arch": card.arch_name} for name, card in CARDS.items()}
        print(json.dumps({"in_use": in_use, "default_card": default, "cards": cards}))
        return
    say(f"in use: {in_use}, as {default} unless another is asked for")
    table = Listing(
        (
            *texts("card", "architecture", "chips"),
            Column("grid", right=True),
            Column("L1 per core", right=True),
            Column("of it free", right=True, expendable=2),
            Column("DRAM per chip", right=True, expendable=1),
            Column("clock", right=True, expendable=3),
        )
    )
    for card in CARDS.values():
        table.add(
            card.name,
            card.arch_name,
            str(card.chips),
            f"{card.grid[0]}x{card.grid[1]}",
            f"{card.l1_size // 1024} KB",
            f"{(card.l1_size - card.l1_base) // 1024} KB",
            f"{card.dram_banks} x {card.dram_bank_size / 2**30:.2f} GB",
            f"{card.clock_ghz:g} GHz",
            bold=card.name == default,
        )
    table.show()
    say("open one with ttnn.open_device(device_id=0, card='p150'), or set TT_CNN_CARD")
    say("with other cores: ttnn.open_device(device_id=0, card='p150', grid=(13, 10)), or card='p150-13x10'")
