# SPDX-License-Identifier: Apache-2.0
"""One model planned in several ways: other batches, other numbers of chips, rebuilt."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol

from torch import nn

from tt_cnn.builder.overrides import Assignment
from tt_cnn.models.registry import ModelEntry, Resolution, model_entry
from tt_cnn.optimizer.deployment import Deployment
from tt_cnn.optimizer.prediction import Helpers, PlannedNetwork, Prediction, Predictor, Refusal, planned_network
from tt_cnn.virtual.arch import card_by_name


class NetworkPredictor(Predictor, Protocol):
    """A predictor that also knows the time between two inputs."""

    def input_ns(self, assignment: Assignment, executor: str = ...) -> float: ...


@dataclass(frozen=True)
class Rebuilt:
    """A model that was built with its settings, not configured afterwards."""

    prediction: Prediction
    input_ns: float
    """From one input's end to the next one's behind the deployment's executor."""


class NetworkSource(Protocol):
    """Where the networks of a search come from."""

    tolerance: float
    """Share by which two times of the same configuration may differ."""

    @property
    def batch_sizes(self) -> tuple[int, ...]: ...

    @property
    def chips(self) -> int: ...

    @property
    def chip_counts(self) -> tuple[int, ...]: ...

    def network(self, batch_size: int = 1, chips: int | None = None) -> NetworkPredictor: ...

    def rebuilt(self, assignment: Assignment, deployment: Deployment) -> Rebuilt | Refusal: ...


@dataclass
class Networks:
    """Planned ones. Each is made when it is first asked for, and stays until all are closed."""

    model: str
    card: str
    resolution: Resolution | None = None
    precision: str = "tuned"
    reference: nn.Module | None = None
    """The network that is planned where it is not the entry's default one."""
    helpers: Helpers | None = None
    """Who plans what networks expect to be asked for."""
    tolerance: float = 1e-9
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

    @property
    def chip_counts(self) -> tuple[int, ...]:
        """How many chips the images can be distributed over."""
        return (1, self.chips) if self.chips > 1 else (1,)

    def network(self, batch_size: int = 1, chips: int | None = None) -> PlannedNetwork:
        """The model with a batch for each chip, on all chips unless said otherwise."""
        key = (batch_size, chips or self.chips)
        if key not in self._open:
            opened = planned_network(
                self.model,
                self.card,
                self.resolution,
                batch_size,
                self.precision,
                chips=chips or self.chips,
                reference=self.reference,
            )
            self._open[key] = self._held.enter_context(opened)
            if self.helpers is not None:
                self._open[key].take_help(self.helpers)
        return self._open[key]

    def rebuilt(self, assignment: Assignment, deployment: Deployment) -> Rebuilt | Refusal:
        """As `create_tt(..., config=assignment)` makes it, on a card of its own."""
        try:
            with planned_network(
                self.model,
                self.card,
                self.resolution,
                deployment.batch_size,
                self.precision,
                config=assignment,
                chips=deployment.chips,
                reference=self.reference,
            ) as network:
                predicted = network.predict(Assignment())
                if isinstance(predicted, Refusal):
                    return predicted
                return Rebuilt(predicted, network.input_ns(Assignment(), deployment.executor))
        except (ValueError, RuntimeError) as error:
            return Refusal(str(error).split("\n")[0])

    def __enter__(self) -> Networks:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._open.clear()
        self._held.close()
