# SPDX-License-Identifier: Apache-2.0
"""Where a model does not fit, its error names all calls that do not, not only the first.

The model is made once more on a card that only plans, and goes on there as if each of them had fitted. That is done
when the error is read.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tt_cnn import runtime, ttnn
from tt_cnn.models.without_values import WithoutValues

_TOLD = "_tt_cnn_others_told"
_MOST_NAMED = 8


def telling_all_misfits(call: Callable[..., Any]) -> Callable[..., Any]:
    """A model's `__call__` whose errors for want of memory tell of the other misfits. What fits runs as it did."""

    @functools.wraps(call)
    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return call(self, *args, **kwargs)
        except RuntimeError as error:
            if runtime.is_virtual():
                _tell_others(self, error)
            raise

    return called


def _tell_others(model: Any, error: RuntimeError) -> None:
    from tt_cnn.virtual.devices.planning_card import PlanningCard
    from tt_cnn.virtual.errors.card_error import DoesNotFit

    device, again = model.device, model.again
    asks_itself = isinstance(device, PlanningCard)  # who plans a model asks for all misfits, or for none
    if not isinstance(error, DoesNotFit) or again is None or asks_itself or hasattr(error, _TOLD):
        return
    setattr(error, _TOLD, True)
    if not device.advises:
        return
    card, chips, l1_small = device.card.name, device.chips, device.l1_small_size
    own, refused = error.explanation, error.call

    def lines() -> list[str]:
        said = own() if own is not None else []
        try:
            others = [name for name in _misfits(again, card, chips, l1_small) if name != refused]
        except Exception as fault:  # the refusal must be reported all the same, and the fault with it
            return [
                *said,
                f"  a fault of tt-cnn, please report it: {type(fault).__name__} of planning the rest: {fault}",
            ]
        return [*said, *_told(others)]

    error.explanation = lines


def _told(others: list[str]) -> list[str]:
    if not others:
        return []
    count = "1 other call does" if len(others) == 1 else f"{len(others)} other calls do"
    more = [f"    and {len(others) - _MOST_NAMED} more"] if len(others) > _MOST_NAMED else []
    named = [f"    {name}" for name in others[:_MOST_NAMED]]
    return [
        f"  {count} not fit either, were those before changed to fit (tt-cnn memory says what would):",
        *named,
        *more,
    ]


def _misfits(again: Callable[[Any], Any], card: str, chips: int, l1_small_size: int) -> list[str]:
    """The calls that do not fit into an empty card, in their order."""
    from tt_cnn.virtual.devices.planning_card import PlanningCard
    from tt_cnn.virtual.errors.card_error import CardError, DoesNotFit

    device = PlanningCard(card, l1_small_size, chips=chips)
    try:
        with WithoutValues():
            model = again(device)
        if model is None:
            return []
        device.misfits = []
        found: list[DoesNotFit] = device.misfits
        with ttnn.command_queue(0):
            try:
                model(model.place(model.blank_input()))
            except CardError as error:  # of another kind: what comes after it is not known
                found += [error] if isinstance(error, DoesNotFit) else []
        return list(dict.fromkeys(error.call for error in found if error.call))
    finally:
        device.close()
