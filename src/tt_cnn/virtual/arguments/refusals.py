# SPDX-License-Identifier: Apache-2.0
"""Parameters of TT-NN that change nothing are reported, those that the virtual card does not follow are refused."""

from __future__ import annotations

import warnings
from typing import Any


def warn_unwritten(operation: str, name: str, when: str) -> None:
    """TT-NN 0.81.1 takes a tensor for the result and leaves it as it is; so does the virtual card, and says so."""
    warnings.warn(
        f"ttnn.{operation} leaves the tensor that was given as {name} unwritten {when}, as TT-NN 0.81.1 does: use the "
        "tensor that is returned",
        stacklevel=5,
    )


def refuse_unfollowed(operation: str, **given: Any) -> None:
    """`given`: parameters whose default is None or False."""
    for name, value in given.items():
        if value is not None and value is not False:
            raise NotImplementedError(
                f"the virtual card has no ttnn.{operation}({name}=); it was given a {type(value).__name__}. Leave it "
                "out to take TT-NN's default"
            )


def checked_pair(operation: str, name: str, given: Any) -> tuple[Any, ...]:
    """Two tensors for values and indices, or none."""
    if given is None:
        return ()
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise TypeError(f"ttnn.{operation}(): {name} takes two tensors, for values and indices; it was given {given!r}")
    return tuple(given)
