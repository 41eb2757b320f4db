# SPDX-License-Identifier: Apache-2.0
"""What a transposed convolution is asked to compute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tt_cnn.virtual.ops.conv2d.problem import Convolution
from tt_cnn.virtual.ops.sliding_window.window import Pair


@dataclass(frozen=True)
class TransposedConvolution(Convolution):
    """As a convolution, with the roles of its sizes as TT-NN's `conv_transpose2d` names them."""

    transposed: ClassVar[bool] = True

    def estimated(self) -> Convolution:
        return self.direct()

    def direct(self, stride: Pair = (1, 1), padding: tuple[int, int, int, int] = (0, 0, 0, 0)) -> Convolution:
        """The convolution over the spread and padded input; estimates give it another stride and padding."""
        height, width = self.window.padded_hw
        return Convolution(
            self.batch,
            height,
            width,
            self.in_channels,
            self.out_channels,
            self.kernel,
            stride,
            padding,
            self.dilation,
            self.groups,
        )
