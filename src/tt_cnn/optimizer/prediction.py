# SPDX-License-Identifier: Apache-2.0
"""A model whose layers can be configured again and again, and what the card is predicted to take for each way.

Everything is planned and nothing computed: a prediction takes milliseconds. Where `TT_CNN_RUNTIME=ttnn` has a card, the
same search can measure instead: whatever has `predict` will do (`Predictor`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from torch import nn

from tt_cnn import ttnn
from tt_cnn.builder.configuration import Configuration
from tt_cnn.builder.layer import layer_that_failed
from tt_cnn.builder.overrides import Assignment, with_settings
from tt_cnn.models.registry import Resolution
from tt_cnn.models.tt_model import TtModel
from tt_cnn.reports.collection import no_collection
from tt_cnn.reports.l1_picture import l1_use
from tt_cnn.reports.profiling import (
    PlannedModel,
    configurations_of,
    planned_model,
    profile_commands,
    run_executor,
)
from tt_cnn.reports.recording import Recorded, recorded
from tt_cnn.reports.records import Profile
from tt_cnn.virtual.arch import Card
from tt_cnn.virtual.cost.kernel import kernel_cost
from tt_cnn.virtual.memory.memory import OutOfMemory
from tt_cnn.virtual.queues.queue import Command
from tt_cnn.virtual.types.enums import BufferType

_PROGRAM = re.compile(r" in program \d+")
"""TT-NN counts the programs of a process: the number says nothing of the assignment."""


@dataclass(frozen=True)
class Prediction:
    """What one input takes on the card."""

    device_ns: float
    """All kernels, without the gaps between them."""
    steps: int
    layer_ns: Mapping[str, float] = field(compare=False)
    """Of each layer, in the order of the calls; what runs outside of layers is under the empty name."""
    l1_peak: int = 0
    """Bytes of a core's L1 in use at the fullest step."""
    images: int = 1
    """Of one input, on all chips."""


@dataclass(frozen=True)
class Refusal:
    """Why the card, or a configuration's own rules, do not take an assignment."""

    reason: str
    """The first line of the error."""
    layer: str = ""

    def __str__(self) -> str:
        return f"{self.layer}: {self.reason}" if self.layer else self.reason


class Predictor(Protocol):
    """What a search needs of a model."""

    configurations: Mapping[str, Configuration]
    """Of all layers as the model's own code has them, by name."""
    card: Card
    """Whose grid of cores candidates are made for."""

    def predict(self, assignment: Assignment) -> Prediction | Refusal: ...


@dataclass(frozen=True)
class NetworkForm:
    """In which a model is planned."""

    batch_size: int
    chips: int


@runtime_checkable
class Expecting(Protocol):
    """A predictor that is told what it will be asked for, as far as that is known: others may plan it meanwhile."""

    def expect(self, assignments: Iterable[Assignment]) -> None: ...


class Helpers(Protocol):
    """Who plans for a network what it expects to be asked for."""

    def join(self, form: NetworkForm, own: Callable[[], Prediction | Refusal]) -> None:
        """A network of this form begins; `own` is what it plans of no settings at all."""

    def expect(self, form: NetworkForm, assignments: Iterable[Assignment]) -> None: ...

    def planned(self, form: NetworkForm, assignment: Assignment) -> Prediction | Refusal | None:
        """None where the network must plan it itself."""


class PlannedNetwork:
    """A model on a planning card."""

    def __init__(self, planned: PlannedModel) -> None:
        self.planned = planned
        self.device = planned.device
        self.card = planned.device.card
        self.model: TtModel = planned.model
        self.layers = dict(self.model.layers)
        self.configurations: Mapping[str, Configuration] = {
            name: layer.configuration for name, layer in self.layers.items()
        }
        self.parameters = planned.parameters
        self.predictions = 0
        """How many assignments were planned."""
        self._settings: dict[str, Mapping[str, Any]] = {}
        self._known: dict[Assignment, Prediction | Refusal] = {}
        self._helpers: Helpers | None = None
        self._host_input, self._input_config = planned.host_input(), self.model.l1_input_memory_config

    def predict(self, assignment: Assignment) -> Prediction | Refusal:
        """The kernels of one input with these settings in place of the model's own."""
        if assignment not in self._known:
            self.predictions += 1
            helped = self._helpers.planned(self.form, assignment) if self._helpers is not None else None
            self._known[assignment] = helped or self._plan(assignment)
        return self._known[assignment]

    def _plan(self, assignment: Assignment) -> Prediction | Refusal:
        return self._configure(assignment) or self._run()

    @property
    def form(self) -> NetworkForm:
        return NetworkForm(self.model.batch_size, self.model.chips)

    def take_help(self, helpers: Helpers) -> None:
        self._helpers = helpers
        own = Assignment()
        helpers.join(self.form, lambda: self._known.get(own) or self._plan(own))

    def expect(self, assignments: Iterable[Assignment]) -> None:
        """What `predict` will be asked for next, as far as it is known. Without helpers nothing is done with it."""
        if self._helpers is not None:
            self._helpers.expect(self.form, (one for one in assignments if one not in self._known))

    def profile(self, assignment: Assignment) -> Profile:
        """All that is known of one input's commands: calls as they were made, memory, rows."""
        return profile_commands(
            self.record(assignment),
            self.device,
            name=self.planned.entry.name,
            traced=True,
            batch_size=self.model.batch_size,
            configurations=configurations_of(self.model),
        )

    def record(self, assignment: Assignment) -> list[Recorded]:
        """The planned calls of one input, in order."""
        self._must_configure(assignment)
        with ttnn.command_queue(0), recorded(self.device) as notes:
            self._call_model()
        return [note for note in notes if note.command.plan is not None]

    def input_ns(self, assignment: Assignment, executor: str = "trace+2cq") -> float:
        """From one input's end to the next one's behind an executor, transfers and gaps included.

        No executor takes several inputs: of a model that has them it is the kernels alone.
        """
        if isinstance(self._host_input, tuple):
            predicted = self.predict(assignment)
            assert isinstance(predicted, Prediction)
            return predicted.device_ns
        self._must_configure(assignment)
        return run_executor(self.planned, executor).timeline.input_ns

    def _must_configure(self, assignment: Assignment) -> None:
        """As when the model was just made: tables of other assignments' programs are dropped."""
        refusal = self._configure(assignment)
        if refusal is not None:
            raise ValueError(f"{refusal.layer}: {refusal.reason}")
        self.device.clear_program_cache()

    def _configure(self, assignment: Assignment) -> Refusal | None:
        """Give every layer its settings; only those that differ from the last assignment's are touched."""
        unknown = [name for name in assignment if name not in self.layers]
        if unknown:
            raise ValueError(f"there is no layer {unknown[0]!r}")
        for name, layer in self.layers.items():
            wanted = assignment.get(name, {})
            if wanted == self._settings.get(name, {}):
                continue
            try:
                configuration = with_settings(self.configurations[name], wanted, name)
            except ValueError as error:
                return Refusal(str(error).split("\n")[0], name)
            layer.configure(configuration)
            self._settings[name] = wanted
        return None

    def _run(self, without_tables: bool = False) -> Prediction | Refusal:
        """Tensors of a refused run go with its error. What stays are programs and their tables in L1_SMALL: where those
        of other assignments have filled it, they are dropped and the run begins again (`without_tables`)."""
        commands: list[Command] = []
        self.device.listeners.append(commands.append)
        try:
            self._call_model()
        except (RuntimeError, ValueError, TypeError) as error:  # as TT-NN refuses; faults of ours are of another kind
            full = isinstance(error, OutOfMemory) and error.region.name is BufferType.L1_SMALL
            if full and not without_tables:
                error.__traceback__ = None  # it holds tensors of the run
                self.device.clear_program_cache()
                return self._run(without_tables=True)
            first = str(error.args[0] if error.args else error).split("\n")[0]
            return Refusal(_PROGRAM.sub("", first), layer_that_failed(error))
        finally:
            self.device.listeners.remove(commands.append)
        return self._read(commands)

    def _call_model(self) -> None:
        wanted = self.model.l1_input_memory_config
        if wanted != self._input_config:  # a layer's settings may decide in which form the model takes its input
            self._host_input, self._input_config = self.planned.host_input(), wanted
        placed = self.model.place_host_input(self._host_input)
        outputs = self.model(placed)
        for tensor in outputs if isinstance(outputs, (tuple, list)) else (outputs,):
            ttnn.deallocate(tensor)
        for tensor in placed if isinstance(placed, tuple) else (placed,):
            if not tensor.is_allocated():
                raise ValueError("the model gave its input back, which is the pipeline's")
            ttnn.deallocate(tensor)

    def _read(self, commands: list[Command]) -> Prediction:
        layers: dict[str, float] = {}
        total, steps = 0.0, 0
        for command in commands:
            ns = sum(kernel_cost(placed.step, self.device.card).ns for placed in command.steps)
            layers[command.layer] = layers.get(command.layer, 0.0) + ns
            total += ns
            steps += len(command.steps)
        size = self.device.card.l1_size - self.device.card.l1_base
        peak = size - min((use.free for use in l1_use(commands, self.device.card)), default=size)
        return Prediction(total, steps, layers, peak, self.model.batch_size * self.model.chips)


@contextmanager
def planned_network(
    name: str,
    card: str,
    resolution: Resolution | None = None,
    batch_size: int = 1,
    precision: str = "tuned",
    *,
    config: Assignment | None = None,
    chips: int | None = None,
    reference: nn.Module | None = None,
) -> Iterator[PlannedNetwork]:
    """A model of the registry, ready to be configured; built with `config`, and on all chips or as many as `chips`."""
    options: dict[str, Any] = {"config": config, "chips": chips, "reference": reference}
    with planned_model(name, card, resolution, batch_size, precision, **options) as planned, no_collection():
        planned.device.advises = False  # nobody reads what a refused candidate could be changed to
        yield PlannedNetwork(planned)
