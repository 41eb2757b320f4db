"""One model planned in several ways: other batches, other numbers of chips."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType

from tt_cnn.models.registry import ModelEntry, Resolution, model_entry
from tt_cnn.optimizer.prediction import PlannedNetwork, planned_network
from tt_cnn.virtual.arch import card_by_name


@dataclass
class Networks:
    """Each network is made when it is first asked for, and stays until all are closed."""

    model: str
    card: str
    resolution: Resolution | None = None
    precision: str = "tuned"
    _open: dict[tuple[int, int], PlannedNetwork] = field(default_factory=dict)
    _held: ExitStack = field(default_factory=ExitStack)

    @property
    def entry(self) -> ModelEntry:
        return model_entry(self.model)

    @property
    def batch_sizes(self) -> tuple[int, ...]:
        return self.entry.batch_sizes

    @property
    def chips(self) -> int:
        """Of the whole card."""
        return card_by_name(self.card).chips

    def network(self, batch_size: int = 1, chips: int | None = None) -> PlannedNetwork:
        """The model with a batch for each chip, on all chips unless said otherwise."""
        key = (batch_size, chips or self.chips)
        if key not in self._open:
            opened = planned_network(
                self.model, self.card, self.resolution, batch_size, self.precision, chips=chips or self.chips
            )
            self._open[key] = self._held.enter_context(opened)
        return self._open[key]

    def __enter__(self) -> Networks:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._open.clear()
        self._held.close()
