# SPDX-License-Identifier: Apache-2.0
"""What models that `tt-cnn bringup` writes have in common: inputs and outputs between torch's shapes and the card's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import torch

from tt_cnn import ttnn
from tt_cnn.models.picture import PictureModel
from tt_cnn.models.tt_model import Precision, TtModel
from tt_cnn.pipeline import get_memory_config_for_persistent_dram_tensor

IMAGE = (0, 2, 3, 1)
PRECISION_SETTINGS = frozenset(
    {"weights_dtype", "output_dtype", "activation_dtype", "math_fidelity", "dtype", "hard_mish"}
)
"""What the table of settings is read without for `precision="bfloat16"`."""


@dataclass(frozen=True)
class TorchShape:
    """A tensor of the torch model, and the order in which its dimensions lie in the card's memory."""

    shape: tuple[int, ...]
    order: tuple[int, ...] = ()
    """Empty: images with their channels last, and torch's own order for all else."""

    @property
    def in_memory(self) -> tuple[int, ...]:
        if self.order:
            return self.order
        return IMAGE if len(self.shape) == 4 else tuple(range(len(self.shape)))

    def to_host(self, values: torch.Tensor, mesh_mapper: Any = None) -> Any:
        """(1, 1, rows, last dimension) on the host, the batch of a mesh in rows of the first dimension."""
        order = self.in_memory
        last = self.shape[order[-1]]
        rows = prod(self.shape) // last
        moved = values.permute(order).reshape(-1, 1, rows, last)
        return ttnn.from_torch(
            moved.contiguous(), dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT, mesh_mapper=mesh_mapper
        )

    def to_torch(self, tensor: Any, mesh_composer: Any = None) -> torch.Tensor:
        """The values as torch has them; the batches of a mesh one after the other."""
        values = ttnn.to_torch(tensor, mesh_composer=mesh_composer).float()
        order = self.in_memory
        sizes = [self.shape[dim] for dim in order]
        chips = values.numel() // prod(self.shape)
        if not self.shape:
            return values.reshape(()) if chips == 1 else values.reshape(chips)
        return torch.cat(
            [part.reshape(sizes).permute(_inverse(order)).contiguous() for part in values.reshape(chips, -1).unbind(0)]
        )


class BroughtUpModel(TtModel):
    """Outputs by their shapes in torch."""

    output_shapes: ClassVar[tuple[TorchShape, ...]]

    def to_torch(self, outputs: Any) -> tuple[torch.Tensor, ...]:
        given = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
        return tuple(
            form.to_torch(each, self.output_composer) for form, each in zip(self.output_shapes, given, strict=True)
        )

    @property
    def dram_output_memory_config(self) -> Any:
        return ttnn.DRAM_MEMORY_CONFIG


class BroughtUpPictureModel(BroughtUpModel, PictureModel):
    """The input is images of three channels, which `picture` makes pixels of."""


class BroughtUpTensorModel(BroughtUpModel):
    """The input is any other tensor: it comes with torch's channels last, as rows."""

    input_shape: ClassVar[TorchShape]

    more_inputs: ClassVar[tuple[TorchShape, ...]] = ()
    """Of models of several inputs those after the first; they are called with a tuple."""

    def blank_input(self) -> Any:
        made = tuple(
            torch.zeros(form.shape[0] * self.chips, *form.shape[1:]) for form in (self.input_shape, *self.more_inputs)
        )
        return made if self.more_inputs else made[0]

    @property
    def l1_input_memory_config(self) -> Any:
        return ttnn.L1_MEMORY_CONFIG

    @property
    def dram_input_memory_config(self) -> Any:
        order = self.input_shape.in_memory
        last = self.input_shape.shape[order[-1]]
        rows = prod(self.input_shape.shape) // last
        return get_memory_config_for_persistent_dram_tensor(
            (1, 1, rows, last), ttnn.TensorMemoryLayout.HEIGHT_SHARDED, self.device.dram_grid_size()
        )

    def to_host_input(self, images: Any) -> Any:
        if not self.more_inputs:
            return self.input_shape.to_host(images, self.input_mapper)
        forms = (self.input_shape, *self.more_inputs)
        return tuple(form.to_host(each, self.input_mapper) for form, each in zip(forms, images, strict=True))


def settings_for(layers: Mapping[str, Mapping[str, Any]], precision: Precision) -> Mapping[str, Mapping[str, Any]]:
    """The table as it is, or without its data formats."""
    if precision == "tuned":
        return layers
    return {
        name: {key: value for key, value in own.items() if key not in PRECISION_SETTINGS}
        for name, own in layers.items()
    }


def image_of(values: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """Pixels as the card has them, (1, 1, N*H*W, C), as torch's image of this shape."""
    batch, channels, height, width = shape
    return values.reshape(batch, height, width, channels).permute(0, 3, 1, 2)


def pixels_of(image: torch.Tensor) -> torch.Tensor:
    """torch's image as the card has it."""
    return image.permute(0, 2, 3, 1).reshape(1, 1, -1, image.shape[1])


def rows_of(values: torch.Tensor) -> torch.Tensor:
    return values.reshape(1, 1, -1, values.shape[-1])


def _inverse(order: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(order.index(dim) for dim in range(len(order)))
