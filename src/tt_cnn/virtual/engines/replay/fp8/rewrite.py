# SPDX-License-Identifier: Apache-2.0
"""Graphs in which convolutions take and multiply e4m3 numbers.

An `e4m3` node rounds its source to such numbers in units of its parameter, a scale. A convolution of one multiplies in
8 bits: its weights are e4m3 numbers too, in units of a scale for each output channel.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from tt_cnn.virtual.engines.replay.eight_bit.calibration import Observation
from tt_cnn.virtual.engines.replay.eight_bit.layers import layers_of, output_axis
from tt_cnn.virtual.engines.replay.eight_bit.rewrite import Rounding, Values, constant
from tt_cnn.virtual.engines.replay.fp8.e4m3 import PASSING, rounded_weights, scale_for
from tt_cnn.virtual.engines.replay.graph import Node
from tt_cnn.virtual.engines.replay.kernels.fusion import is_step

DEPTH = 32
"""Channels that an 8-bit product takes at once."""
RESULTS = 16
"""Convolutions to fewer channels are not worth it."""


class Fp8Rounding(Rounding):
    """Residual adds take 16 bits: 3 bits of mantissa are too few for what is added to again and again."""

    plain = "16 bits"

    @staticmethod
    def passes(node: Node) -> bool:
        """What has a constant among its parts is rounded as a whole."""
        return node.kind in PASSING and all(one.value is None for one in node.inputs)

    def __init__(self, outputs: Sequence[Node], samples: Iterable[Values]) -> None:
        super().__init__(outputs, samples)
        self._weights: dict[int, tuple[Node, torch.Tensor]] = {}

    @staticmethod
    def layers_of(outputs: Sequence[Node]) -> list[Node]:
        return [layer for layer in layers_of(outputs) if _has_kernel(layer)]

    def fit(self, observations: Sequence[Observation]) -> float:
        return scale_for(max(max(-one.low, one.high) for one in observations))

    def rounded(self, node: Node, fitted: float) -> Node:
        return Node("e4m3", (node,), (fitted,), node.shape)

    def weights(self, layer: Node) -> tuple[Node, torch.Tensor]:
        """Made once: they are also known by their identity."""
        if id(layer) not in self._weights:
            self._weights[id(layer)] = self._rounded_weights(layer)
        return self._weights[id(layer)]

    def _rounded_weights(self, layer: Node) -> tuple[Node, torch.Tensor]:
        weight = layer.inputs[1].value
        assert weight is not None
        exact, axis = weight.float(), output_axis(layer)
        numbers, scales = rounded_weights(exact, axis)
        taken = numbers.float() * scales.view([-1 if d == axis else 1 for d in range(4)])
        return constant(taken), taken - exact


def _has_kernel(layer: Node) -> bool:
    dense = layer.kind in ("conv", "conv_transpose") and layer.params[3] == 1
    return dense and is_step(layer) and layer.source.shape[1] % DEPTH == 0 and layer.shape[1] >= RESULTS
