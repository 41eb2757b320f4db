# SPDX-License-Identifier: Apache-2.0
"""How near a model's outputs are to the reference's under an assignment: a run on a card that computes.

The card is opened once and the model built once. An assignment configures only the layers whose settings differ from
those of the last run, so that all other weights stay prepared.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from tt_cnn import runtime, ttnn
from tt_cnn.builder.configuration import Configuration
from tt_cnn.builder.overrides import Assignment, LayerSettings, with_settings
from tt_cnn.models.registry import ModelEntry, Resolution, create_reference, create_tt, model_entry
from tt_cnn.models.running import opened_card, reference_outputs
from tt_cnn.models.tt_model import Precision, TtModel
from tt_cnn.testing.pcc import agreement

PRECISION_SETTINGS = (
    "weights_dtype",
    "activation_dtype",
    "output_dtype",
    "dtype",
    "math_fidelity",
    "fp32_dest_acc_en",
    "packer_l1_acc",
    "hard_mish",
    "as_mean",
)
"""Settings that decide what and in what a layer computes, and what it stores; all others say where and in which
order."""

NOT_FINITE = -1.0
"""The PCC of an output with a NaN or an infinity where the reference has a number: the worst that a PCC can be."""


def pcc(expected: torch.Tensor, found: torch.Tensor) -> float:
    """`agreement`, which counts single NaNs as 0, but `NOT_FINITE` where there is one that the reference has not."""
    if bool((expected.isfinite() & ~found.isfinite()).any()):
        return NOT_FINITE
    return agreement(expected, found)


def named_outputs(entry: ModelEntry, names: Sequence[str], values: Sequence[torch.Tensor]) -> dict[str, torch.Tensor]:
    """The outputs by name; a detector's boxes and scores apart also where the model gives them in one tensor.

    Boxes in pixels are hundreds of times larger than scores: one PCC would not show that the scores are wrong.
    """
    found = dict(zip(names, values, strict=True))
    if entry.task != "detection" or len(found) != 1:
        return found
    ((name, together),) = found.items()
    return {f"{name}.boxes": together[:, :4], f"{name}.scores": together[:, 4:]}


def precision_part(assignment: Assignment, configurations: Mapping[str, Configuration]) -> Assignment:
    """What of an assignment changes values, for the layers that there are."""
    return Assignment(
        {
            name: {key: value for key, value in settings.items() if key in PRECISION_SETTINGS}
            for name, settings in assignment.items()
            if name in configurations
        }
    )


def _moves(before: LayerSettings, after: LayerSettings) -> bool:
    """Whether settings that differ decide where tensors lie, and not only in which precision."""
    return any(before.get(key) != after.get(key) for key in {*before, *after}.difference(PRECISION_SETTINGS))


def collect_young() -> None:
    """Free the commands of a run, which are cycles with tensors of hundreds of megabytes.

    A search plans with Python's collector off (`tt_cnn.reports.collection`). Only what is new is looked through.
    """
    gc.collect(0)


class ModelOnCard:
    """A model whose layers can be configured again and again, with its reference beside it."""

    def __init__(self, entry: ModelEntry, model: TtModel, reference: nn.Module, whole_assignments: bool = True) -> None:
        self.entry = entry
        self.model = model
        self.reference = reference
        self.whole_assignments = whole_assignments
        """False where this model has another batch size than the one that is optimised: shards and blocks of an
        assignment do not fit it then, and only what decides values is taken from it."""
        self.layers = dict(model.layers)
        self.configurations: Mapping[str, Configuration] = {
            name: layer.configuration for name, layer in self.layers.items()
        }
        self.runs = 0
        """How many inputs went through the card."""
        self._settings: dict[str, LayerSettings] = {}

    @property
    def images_per_run(self) -> int:
        return self.model.batch_size * self.model.chips

    def example(self, seed: int) -> torch.Tensor:
        """Images that the entry generates, as many as one run takes."""
        return self.entry.example_input(batch_size=self.images_per_run, resolution=self.model.resolution, seed=seed)

    def expected(self, images: torch.Tensor) -> dict[str, torch.Tensor]:
        """The reference's outputs, in float32."""
        return named_outputs(self.entry, self.model.outputs, reference_outputs(self.reference, images))

    def relevant(self, assignment: Assignment) -> Assignment:
        """What of an assignment is taken."""
        return assignment if self.whole_assignments else precision_part(assignment, self.configurations)

    def run(self, assignment: Assignment, images: torch.Tensor) -> dict[str, torch.Tensor]:
        """The card's outputs."""
        return named_outputs(self.entry, self.model.outputs, self.outputs(assignment, images))

    def outputs(self, assignment: Assignment, images: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The card's outputs as the reference has them."""
        self.configure(assignment)
        self.runs += 1
        placed = self.model.place(images)
        outputs = self.model(placed)
        values = self.model.to_torch(outputs)
        for tensor in outputs if isinstance(outputs, (tuple, list)) else (outputs,):
            ttnn.deallocate(tensor)
        for tensor in placed if isinstance(placed, tuple) else (placed,):
            if tensor.is_allocated():
                ttnn.deallocate(tensor)
        collect_young()
        return values

    def configure(self, assignment: Assignment) -> None:
        """Give the layers their settings; those that have them already are left alone."""
        wanted = self.relevant(assignment)
        unknown = [name for name in wanted if name not in self.layers]
        if unknown:
            raise ValueError(f"there is no layer {unknown[0]!r}")
        changed = [name for name in self.layers if wanted.get(name, {}) != self._settings.get(name, {})]
        made = {name: with_settings(self.configurations[name], wanted.get(name, {}), name) for name in changed}
        moved = any(_moves(self._settings.get(name, {}), wanted.get(name, {})) for name in changed)
        for name, configuration in made.items():
            self.layers[name].configure(configuration)
            self._settings[name] = wanted.get(name, {})
        if moved:
            self._prepare_again([name for name in self.layers if name not in made])
        if made:
            self.forget_programs()

    def _prepare_again(self, names: Iterable[str]) -> None:
        """Layers keep weights for each form of their input that they were called with, which other settings of a layer
        before them may have changed; here only the last is needed."""
        for name in names:
            layer = self.layers[name]
            if layer.configuration.tensors:
                layer.configure(layer.configuration)

    def forget_programs(self) -> None:
        """Programs of other settings stay cached with their tables in L1_SMALL, which would be full after a while."""
        self.model.device.clear_program_cache()


def batch_size_for_accuracy(entry: ModelEntry, batch_size: int) -> int:
    """The smallest that the model is tuned for: images do not change each other's values."""
    return min((size for size in entry.batch_sizes if size <= batch_size), default=batch_size)


@contextmanager
def model_on_card(
    name: str,
    *,
    card: str | None = None,
    resolution: Resolution | None = None,
    batch_size: int = 1,
    precision: Precision = "tuned",
    reference: nn.Module | None = None,
    numerics: str = "device",
    whole_batch: bool = False,
) -> Iterator[ModelOnCard]:
    """A model of the registry on a card that computes, with seeded weights unless a reference is given.

    `batch_size` is that of the assignments. The runs are of the smallest batch that the model is tuned for, unless
    `whole_batch` asks for all of it.
    """
    entry = model_entry(name)
    model_reference = create_reference(name) if reference is None else reference
    images = batch_size if whole_batch else batch_size_for_accuracy(entry, batch_size)
    with opened_card(entry, card=card, executor="plain", **_choices(numerics)) as device:
        model = create_tt(name, device, model_reference, resolution=resolution, batch_size=images, precision=precision)
        yield ModelOnCard(entry, model, model_reference, whole_assignments=images == batch_size)


def _choices(numerics: str) -> dict[str, Any]:
    """A real card has only its own numerics."""
    return {"numerics": numerics} if runtime.is_virtual() else {}
