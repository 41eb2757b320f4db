# SPDX-License-Identifier: Apache-2.0
"""A model on a card behind a pipeline, from its entry: opened, fed with images, closed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from tt_cnn import runtime, ttnn
from tt_cnn.models.pipelines import EXECUTORS, create_pipeline
from tt_cnn.models.registry import ModelEntry, create_tt
from tt_cnn.models.tt_model import Precision, TtModel
from tt_cnn.pipeline import Pipeline


@contextmanager
def opened_card(
    entry: ModelEntry, *, card: str | None = None, executor: str = "trace+2cq", **options: Any
) -> Iterator[Any]:
    """A card with what the model and the executor need, closed at the end; of an n300, both chips.

    `card` names a virtual one (TT_CNN_CARD where it is None); with a real card in use there is nothing to choose.
    `options` go to `open_device`.
    """
    if executor not in EXECUTORS:
        raise ValueError(f"executor is {executor!r}; it must be one of {', '.join(EXECUTORS)}")
    settings: dict[str, Any] = {
        "l1_small_size": entry.l1_small_size,
        "num_command_queues": EXECUTORS[executor].num_command_queues,
        **options,
    }
    if not runtime.is_virtual():
        if card is not None:
            raise ValueError(f"card is {card!r}, but {runtime.describe()} is in use; TT_CNN_RUNTIME=virtual changes it")
        device = ttnn.open_device(device_id=0, **settings)
    elif _chips(card) > 1:
        device = ttnn.open_mesh_device(card=card, **settings)
    else:
        device = ttnn.open_device(device_id=0, card=card, **settings)
    try:
        yield device
    finally:
        ttnn.close_mesh_device(device) if device.get_num_devices() > 1 else ttnn.close_device(device)


def _chips(card: str | None) -> int:
    from tt_cnn.virtual.arch import card_by_name
    from tt_cnn.virtual.devices.opening import option

    return card_by_name(option("card", card)).chips


def card_name(device: Any) -> str:
    """What to call it in tables and titles."""
    card = getattr(device, "card", None)
    return f"virtual {card.name}" if card is not None else "the card"


@dataclass
class RunningModel:
    """Images in, outputs out, with the time that they took."""

    model: TtModel
    pipeline: Pipeline
    seconds: float = 0.0
    """Spent in the pipeline, from the first input in to the last output out."""
    pictures: int = 0

    def run(self, images: Sequence[torch.Tensor]) -> list[tuple[torch.Tensor, ...]]:
        """Outputs for each image (1, 3, height, width). The last batch is filled up with its last image."""
        size = self.images_per_run
        batches = [torch.cat(list(images[start : start + size])) for start in range(0, len(images), size)]
        inputs = [self.model.to_host_input(_filled(batch, size)) for batch in batches]
        start = time.perf_counter()
        outputs = list(self.pipeline.stream(inputs))
        self.seconds += time.perf_counter() - start
        self.pictures += len(images)
        values = [self.model.to_torch(each) for each in outputs]
        whole = [torch.cat(parts)[: len(images)] for parts in zip(*values, strict=True)]
        return [tuple(part[index : index + 1] for part in whole) for index in range(len(images))]

    @property
    def images_per_run(self) -> int:
        return self.model.batch_size * self.model.chips

    @property
    def output_names(self) -> tuple[str, ...]:
        return tuple(self.model.outputs)

    @property
    def pictures_per_second(self) -> float:
        return self.pictures / self.seconds if self.seconds else 0.0


def _filled(batch: torch.Tensor, size: int) -> torch.Tensor:
    return torch.cat((batch, batch[-1:].expand(size - len(batch), *batch.shape[1:]))) if len(batch) < size else batch


@contextmanager
def running_model(
    entry: ModelEntry,
    reference: nn.Module,
    *,
    card: str | None = None,
    executor: str = "trace+2cq",
    precision: Precision = "tuned",
    resolution: tuple[int, int] | None = None,
    batch_size: int = 1,
    **options: Any,
) -> Iterator[RunningModel]:
    """The card opened, the model made from the reference's weights, its pipeline compiled.

    `options` go to `open_device`.
    """
    with opened_card(entry, card=card, executor=executor, **options) as device:
        sizes: dict[str, Any] = {"resolution": resolution, "batch_size": batch_size}
        model = create_tt(entry.name, device, reference, **sizes, precision=precision)
        batch = model.batch_size * model.chips
        example = model.to_host_input(entry.example_input(batch_size=batch, resolution=model.resolution))
        with create_pipeline(model, executor) as pipeline:
            pipeline.compile(example)
            yield RunningModel(model, pipeline)


def reference_outputs(reference: nn.Module, images: Any) -> tuple[torch.Tensor, ...]:
    """What PyTorch gives for a batch, always as a tuple: the tensors of lists and dictionaries in their order.

    The model gets copies: one that works in place would leave other images for the card than it had itself.
    """
    given = images if isinstance(images, tuple) else (images,)
    with torch.no_grad():
        outputs = reference(*(each.clone() for each in given))
    return tuple(tree_leaves(outputs))
