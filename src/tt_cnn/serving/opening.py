# SPDX-License-Identifier: Apache-2.0
"""How a served model is opened: said in values that another process or another machine can be sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tt_cnn.evaluation.weights import chosen_weights
from tt_cnn.models.entry_names import entry_of
from tt_cnn.models.running import RunningModel, running_model


@dataclass(frozen=True)
class Opening:
    model: str
    """A name of the package's, or a user's own as `module:NAME`."""
    batch_size: int
    weights: str | None
    """As `chosen_weights` takes them."""
    options: Mapping[str, Any]
    """Of `running_model`: the card, the executor, the precision."""

    @contextmanager
    def opened(self) -> Iterator[RunningModel]:
        entry = entry_of(self.model)
        reference = chosen_weights(entry, self.weights).reference()
        with running_model(entry, reference, batch_size=self.batch_size, **self.options) as running:
            yield running
