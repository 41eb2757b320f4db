# SPDX-License-Identifier: Apache-2.0
"""The rules of all advice: other forms of one call. An op proposes them; whoever asks judges each by planning it.

Errors name those that fit into the memory that the call found, findings of a profile those that save time, and the
optimiser tries them on the whole model. None of them decides again what could be changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tt_cnn.virtual.arch import Card
from tt_cnn.virtual.planning.program import Step
from tt_cnn.virtual.types.tensor_spec import Spec

Purpose = Literal["room", "time"]
"""What a change may win: L1, or time."""
ROOM: frozenset[Purpose] = frozenset({"room"})
TIME: frozenset[Purpose] = frozenset({"time"})
EITHER = ROOM | TIME


@dataclass(frozen=True)
class CallSite:
    """A call as the rules see it."""

    card: Card
    specs: Sequence[Spec]
    """Of its tensors on the card."""
    attributes: Mapping[str, Any]
    """All other arguments, as its plan takes them."""
    steps: Sequence[Step] = ()
    """What it dispatches; none where it was refused."""
    constants: frozenset[int] = frozenset()
    """Tensors that stay from one input to the next, weights say, by their number."""


@dataclass(frozen=True)
class Alternative:
    """Another form of a call."""

    kind: str
    """What is changed: of several changes of one kind (block heights, say) one is named, the first or the best."""
    words: str
    """As a user would type it."""
    attributes: Mapping[str, Any]
    """Those of the plan that change."""
    change: Mapping[str, Any]
    """The same as arguments of TT-NN, or fields of its configuration, by their names."""
    purposes: frozenset[Purpose] = ROOM
    specs: Mapping[int, Spec] = field(default_factory=dict)
    """Tensors that would be given in another form, by their number."""
    caution: str = ""
    """What it may cost."""

    @property
    def lossless(self) -> bool:
        """Whether all values stay the same."""
        return not self.caution


MEASURE = "Measure the PCC again afterwards."
"""The caution of changes of precision."""
