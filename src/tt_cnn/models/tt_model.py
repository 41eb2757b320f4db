# SPDX-License-Identifier: Apache-2.0
"""What every model on the card is: a callable on tensors, with all that a pipeline needs to feed it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

import torch

from tt_cnn import ttnn
from tt_cnn.builder.layer import Layer
from tt_cnn.models.all_misfits import telling_all_misfits

Precision = Literal["tuned", "bfloat16"]
"""`tuned`: bfloat8_b weights, bfloat8_b activations where PCC allows. `bfloat16`: bfloat16 activations all through."""


class TtModel(ABC):
    """Called with its input in L1 (`l1_input_memory_config`), it returns its outputs, named by `outputs`.

    On a mesh of n chips every chip computes its own `batch_size` images: host tensors hold n times as many.
    """

    outputs: ClassVar[tuple[str, ...]]

    device: Any
    batch_size: int
    resolution: tuple[int, int]
    l1_input_memory_config: Any
    """Where the pipeline stages the input; the model may not free it."""
    dram_input_memory_config: Any
    """Where the pipeline keeps the persistent input, sharded over the DRAM banks."""
    dram_output_memory_config: Any
    """Where pipelined I/O keeps the outputs: one memory config, or as many as there are outputs."""

    layers: Mapping[str, Layer]
    """All layers by their names, in the order in which they were made; `create_tt` notes them."""
    again: Callable[[Any], TtModel | None] | None = None
    """Makes the same model on another device, where that is possible; `create_tt` notes it."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__call__" in vars(cls):
            cls.__call__ = telling_all_misfits(cls.__call__)  # type: ignore[method-assign]

    @abstractmethod
    def __call__(self, x: Any) -> Any:
        """One output, or a tuple of them in the order of `outputs`."""

    @abstractmethod
    def to_host_input(self, images: torch.Tensor) -> Any:
        """A host tensor, as the pipeline's `enqueue` takes it, from NCHW images as the reference takes them."""

    @abstractmethod
    def to_torch(self, outputs: Any) -> tuple[torch.Tensor, ...]:
        """Outputs as the reference gives them, float32, from those of the model (on the card or on the host)."""

    @property
    def chips(self) -> int:
        return int(self.device.get_num_devices())

    def blank_input(self) -> Any:
        """Zeros as the reference takes its input, the batches of all chips together; a tuple for several inputs."""
        return torch.zeros(self.batch_size * self.chips, 3, *self.resolution)

    @property
    def input_mapper(self) -> Any:
        """The images distributed over the chips of a mesh; None on one chip."""
        return ttnn.ShardTensorToMesh(self.device, dim=0) if self.chips > 1 else None

    @property
    def output_composer(self) -> Any:
        """The chips' batches put together again; None on one chip."""
        return ttnn.ConcatMeshToTensor(self.device, dim=0) if self.chips > 1 else None

    def place(self, images: torch.Tensor) -> Any:
        """The images on the card, ready for a call without a pipeline."""
        return self.place_host_input(self.to_host_input(images))

    def place_host_input(self, host: Any) -> Any:
        """What `to_host_input` gave, on the card; several inputs as a tuple."""
        if isinstance(host, tuple):
            return tuple(self.place_host_input(each) for each in host)
        return ttnn.to_device(host, self.device, memory_config=self.l1_input_memory_config)


def weights_mapper(device: Any) -> Any:
    """The same weights on every chip of a mesh; None on one chip."""
    return ttnn.ReplicateTensorToMesh(device) if device.get_num_devices() > 1 else None


def is_blackhole(device: Any) -> bool:
    """Which of a model's two sets of configurations is for this card."""
    return bool(device.arch() == ttnn.device.Arch.BLACKHOLE)
