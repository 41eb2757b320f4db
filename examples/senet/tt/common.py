"""What the tests and the demo share: the card, and the model on it beside PyTorch."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tt_cnn.models.registry import create_tt, registered
from tt_cnn.models.running import opened_card
from tt_cnn.runtime import is_virtual

CARD = "n150"
"""The virtual card that the settings in config.py were made for."""


@contextmanager
def model_on_card(executor: str = "plain") -> Iterator[tuple[Any, Any]]:
    """The reference, and the model made from it on a card that is closed at the end."""
    from .. import ENTRY

    reference = ENTRY.reference()
    card = CARD if is_virtual() else None
    with registered(ENTRY), opened_card(ENTRY, card=card, executor=executor) as device:
        yield reference, create_tt(ENTRY.name, device, reference, batch_size=ENTRY.batch_sizes[0])
