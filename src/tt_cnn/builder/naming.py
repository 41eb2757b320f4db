# SPDX-License-Identifier: Apache-2.0
"""The name of the layer that runs, for the errors of the virtual card."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from tt_cnn import runtime


def named(name: str) -> AbstractContextManager[None]:
    """Calls inside are reported under the name. The real TT-NN has no such thing: there it does nothing."""
    if not name or not runtime.is_virtual():
        return nullcontext()
    from tt_cnn.virtual.errors.card_error import layer

    return layer(name)
