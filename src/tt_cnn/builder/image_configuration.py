# SPDX-License-Identifier: Apache-2.0
"""What configurations of pools and of upsampling have in common: images, whose channels stay apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from tt_cnn.builder.configuration import Configuration

Self = TypeVar("Self", bound="ImageConfiguration")


@dataclass(frozen=True, eq=False)
class ImageConfiguration(Configuration):
    input_height: int
    input_width: int
    channels: int
    batch_size: int

    @property
    def output_size(self) -> tuple[int, int]:
        """(height, width) of the output."""
        raise NotImplementedError

    @classmethod
    def from_torch(
        cls: type[Self],
        torch_layer: Any,
        input_height: int,
        input_width: int,
        batch_size: int,
        channels: int,
        **settings: Any,
    ) -> Self:
        """The same layer: shape from PyTorch's, all else from `settings`."""
        shape = cls.shape_of_torch(torch_layer, (input_height, input_width))
        return cls(input_height, input_width, channels, batch_size, **{**shape, **settings})

    @staticmethod
    def shape_of_torch(torch_layer: Any, input_hw: tuple[int, int]) -> dict[str, Any]:
        """Settings that PyTorch's layer has too."""
        raise NotImplementedError
