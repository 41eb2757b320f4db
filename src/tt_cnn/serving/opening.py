# SPDX-License-Identifier: Apache-2.0
"""How a served model is opened: said in values that another process or another machine can be sent.

TT-NN is imported only when a model is opened: a process that gets this may have to choose its card before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

    from tt_cnn.models import ModelEntry
    from tt_cnn.models.running import RunningModel


@dataclass(frozen=True)
class Opening:
    model: str
    """A name of the package's, or a user's own as `module:NAME`."""
    batch_size: int
    weights: str | None
    """As `chosen_weights` takes them."""
    options: Mapping[str, Any]
    """Of `running_model`: the card, the executor, the precision."""

    def entry(self) -> ModelEntry:
        from tt_cnn.models.entry_names import entry_of

        return entry_of(self.model)

    def reference(self) -> nn.Module:
        """The PyTorch model with the weights, as they are now."""
        from tt_cnn.evaluation.weights import chosen_weights

        return chosen_weights(self.entry(), self.weights).reference()

    @contextmanager
    def opened(self, reference: nn.Module | None = None) -> Iterator[RunningModel]:
        """`reference`: the PyTorch model as it was read before."""
        from tt_cnn.models.running import running_model

        model = self.reference() if reference is None else reference
        with running_model(self.entry(), model, batch_size=self.batch_size, **self.options) as running:
            yield running
