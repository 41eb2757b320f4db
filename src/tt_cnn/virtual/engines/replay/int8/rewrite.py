# SPDX-License-Identifier: Apache-2.0
"""Whole numbers of 8 bits: graphs that engines with such products run in them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from tt_cnn.virtual.engines.replay.eight_bit.calibration import Observation
from tt_cnn.virtual.engines.replay.eight_bit.layers import layers_of, output_axis
from tt_cnn.virtual.engines.replay.eight_bit.rewrite import Rounding, constant
from tt_cnn.virtual.engines.replay.graph import Node
from tt_cnn.virtual.engines.replay.int8.steps import steps_for

LARGEST = 127


class Int8Rounding(Rounding):
    """Residual adds take 8 bits too, so that engines need not keep what is added a second time."""

    room = 0.5  # what is cut off differs from input to input
    adds = True

    @staticmethod
    def passes(node: Node) -> bool:
        return node.kind in ("max_pool", "repeat", "cat", "reshape", "permute", "slice")

    @staticmethod
    def layers_of(outputs: Sequence[Node]) -> list[Node]:
        return layers_of(outputs)

    def fit(self, observations: Sequence[Observation]) -> tuple[Node, Node]:
        """Scale and zero point."""
        scale, zero = steps_for(observations)
        return constant(torch.tensor(scale)), constant(torch.tensor(zero, dtype=torch.uint8))

    def rounded(self, node: Node, fitted: tuple[Node, Node]) -> Node:
        whole = Node("quantize", (node, *fitted), (), node.shape)
        return Node("dequantize", (whole, *fitted), (), node.shape)

    def weights(self, layer: Node) -> tuple[Node, torch.Tensor]:
        weight = layer.inputs[1].value
        assert weight is not None
        exact = weight.float()
        if layer.kind == "matmul":
            exact = exact.reshape(exact.shape[-2:])
        whole, scale = _rounded_weights(exact, output_axis(layer))
        row = (constant(scale.reshape(-1)), constant(torch.zeros(scale.numel(), dtype=torch.int8)))
        axis = output_axis(layer) % exact.dim()
        taken = Node("dequantize", (constant(whole), *row), (axis,), tuple(exact.shape))
        return taken, whole * scale - exact


def _rounded_weights(weight: torch.Tensor, axis: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Whole numbers and the size of their steps, for each output channel its own."""
    others = [d for d in range(weight.dim()) if d != axis % weight.dim()]
    scale = (weight.abs().amax(others, keepdim=True) / LARGEST).clamp_min(torch.finfo(torch.float32).tiny)
    return (weight / scale).round().to(torch.int8), scale
