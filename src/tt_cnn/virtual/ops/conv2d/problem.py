# SPDX-License-Identifier: Apache-2.0
"""What a convolution is asked to compute, and what its plan depends on beside that."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

from tt_cnn.virtual.ops.conv2d.blocks import Compute
from tt_cnn.virtual.ops.conv2d.config import Settings
from tt_cnn.virtual.ops.sliding_window.parallel import WIDTH
from tt_cnn.virtual.ops.sliding_window.window import Padding, Pair, SlidingWindow
from tt_cnn.virtual.types.enums import DataType
from tt_cnn.virtual.types.kept_hash import kept_hash
from tt_cnn.virtual.types.lazy import lazy
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec


@kept_hash
@dataclass(frozen=True)
class Convolution:
    transposed: ClassVar[bool] = False

    batch: int
    height: int
    width: int
    in_channels: int
    out_channels: int
    kernel: Pair
    stride: Pair
    padding: Padding
    dilation: Pair
    groups: int
    output_padding: Pair = (0, 0)
    """Of a transposed convolution."""

    @lazy
    def window(self) -> SlidingWindow:
        return SlidingWindow(
            self.batch,
            (self.height, self.width),
            self.kernel,
            self.stride,
            self.padding,
            self.dilation,
            self.output_padding,
            transposed=self.transposed,
        )

    @property
    def output_hw(self) -> Pair:
        return self.window.output_hw

    @property
    def output_pixels(self) -> int:
        height, width = self.output_hw
        return self.batch * height * width

    def is_matmul(self, settings: Settings) -> bool:
        """A 1x1 kernel that touches every pixel once, unless width sharding was asked for."""
        return (
            self.kernel == self.stride == self.dilation == (1, 1)
            and not any(self.padding)
            and settings.shard_layout is not WIDTH
        )

    def is_depthwise_1d(self, has_bias: bool) -> bool:
        """Each channel on its own over a line of pixels: weights and some buffers have a form of their own then."""
        return (
            self.groups == self.in_channels == self.out_channels
            and self.height == 1
            and self.kernel[0] == 1
            and not has_bias
        )

    def estimated(self) -> Convolution:
        """The convolution by which the way of sharding is chosen."""
        return self

    def but(self, **changes: Any) -> Convolution:
        return replace(self, **changes)


class Request(NamedTuple):
    """How it is to be computed and where the result goes."""

    settings: Settings
    compute: Compute
    dtype: DataType
    memory_config: MemoryConfig | None = None

    def with_settings(self, settings: Settings) -> Request:
        return Request(settings, self.compute, self.dtype, self.memory_config)


@kept_hash
@dataclass(frozen=True)
class HostOperand:
    """A host tensor that a call brings along. Its values travel beside the call's attributes."""

    spec: Spec
