"""A model whose layers can be configured again and again, and what the card is predicted to take for each way.

Everything is planned and nothing computed: a prediction takes milliseconds. Where `TT_CNN_RUNTIME=ttnn` has a card, the
same search can measure instead: whatever has `predict` will do (`Predictor`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

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
from tt_cnn.reports.recording import recorded
from tt_cnn.reports.records import Profile
from tt_cnn.virtual.cost.kernel import kernel_cost
from tt_cnn.virtual.errors.card_error import CardError
from tt_cnn.virtual.queues.queue import Command


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


@dataclass(frozen=True)
class Refusal:
    """Why the card, or a configuration's own rules, do not take an assignment."""

    reason: str
    """The first line of the error."""
    layer: str = ""


class Predictor(Protocol):
    """What a search needs of a model."""

    configurations: Mapping[str, Configuration]
    """Of all layers as the model's own code has them, by name."""

    def predict(self, assignment: Assignment) -> Prediction | Refusal: ...


class PlannedNetwork:
    """A model on a planning card."""

    def __init__(self, planned: PlannedModel) -> None:
        self.planned = planned
        self.device = planned.device
        self.model: TtModel = planned.model
        self.layers = dict(self.model.layers)
        self.configurations: Mapping[str, Configuration] = {
            name: layer.configuration for name, layer in self.layers.items()
        }
        self.predictions = 0
        """How many assignments were planned."""
        self._settings: dict[str, Mapping[str, Any]] = {}
        self._known: dict[Assignment, Prediction | Refusal] = {}
        self._host_input = planned.host_input()

    def predict(self, assignment: Assignment) -> Prediction | Refusal:
        """The kernels of one input with these settings in the place of the model's own."""
        if assignment not in self._known:
            self.predictions += 1
            self._known[assignment] = self._configure(assignment) or self._run()
        return self._known[assignment]

    def profile(self, assignment: Assignment) -> Profile:
        """All that is known of one input's commands: calls as they were made, memory, rows."""
        self._must_configure(assignment)
        with ttnn.command_queue(0), recorded(self.device) as notes:
            self._call_model()
        return profile_commands(
            [note for note in notes if note.command.plan is not None],
            self.device,
            name=self.planned.entry.name,
            traced=True,
            batch_size=self.model.batch_size,
            configurations=configurations_of(self.model),
        )

    def input_ns(self, assignment: Assignment, executor: str = "trace+2cq") -> float:
        """From one input's end to the next one's behind an executor, transfers and gaps included."""
        self._must_configure(assignment)
        return run_executor(self.planned, executor).timeline.input_ns

    def _must_configure(self, assignment: Assignment) -> None:
        refusal = self._configure(assignment)
        if refusal is not None:
            raise ValueError(f"{refusal.layer}: {refusal.reason}")

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

    def _run(self) -> Prediction | Refusal:
        """Tensors of a refused run go with its error: nothing has to be cleaned up."""
        commands: list[Command] = []
        self.device.listeners.append(commands.append)
        try:
            self._call_model()
        except (CardError, ValueError, TypeError) as error:
            return Refusal(str(error.args[0] if error.args else error).split("\n")[0], layer_that_failed(error))
        finally:
            self.device.listeners.remove(commands.append)
        return self._read(commands)

    def _call_model(self) -> None:
        placed = ttnn.to_device(self._host_input, self.device, memory_config=self.model.l1_input_memory_config)
        outputs = self.model(placed)
        for tensor in outputs if isinstance(outputs, (tuple, list)) else (outputs,):
            ttnn.deallocate(tensor)
        if placed.is_allocated():
            ttnn.deallocate(placed)

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
        return Prediction(total, steps, layers, peak)


@contextmanager
def planned_network(
    name: str,
    card: str,
    resolution: Resolution | None = None,
    batch_size: int = 1,
    precision: str = "tuned",
) -> Iterator[PlannedNetwork]:
    """A model of the registry, ready to be configured."""
    with planned_model(name, card, resolution, batch_size, precision) as planned, no_collection():
        planned.device.advises = False  # nobody reads what a refused candidate could be changed to
        yield PlannedNetwork(planned)
