# SPDX-License-Identifier: Apache-2.0
"""A graph in which chosen layers take and multiply numbers of 8 bits.

Values are rounded where they are made, not where they are used: a value that a layer takes in 8 bits goes in 8 bits
through pools, upsampling and concatenations too, so that engines move fewer bytes. What a concatenation joins shares
one scale.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import torch

from tt_cnn.virtual.engines.replay.eight_bit.calibration import Calibration, Observation
from tt_cnn.virtual.engines.replay.eight_bit.layers import output_axis
from tt_cnn.virtual.engines.replay.graph import Node, ordered

Values = Sequence[torch.Tensor]


class Rounding:
    """One kind of 8-bit numbers, and what a graph's values are on samples."""

    plain = "float32"
    """What layers compute in that are not in 8 bits."""
    room = 0.75
    """Samples may lose so much of what the guard allows; other inputs may lose more than they."""
    adds = False
    """Residual adds take rounded values too, where there are any."""

    def __init__(self, outputs: Sequence[Node], samples: Iterable[Values]) -> None:
        self.layers = self.layers_of(outputs)
        self.calibration = Calibration(outputs, samples, self.rounded_values(self.layers))
        self._fitted: dict[tuple[int, ...], Any] = {}

    @staticmethod
    def layers_of(outputs: Sequence[Node]) -> list[Node]:
        """Those that could run in 8 bits, in order."""
        raise NotImplementedError

    @staticmethod
    def passes(node: Node) -> bool:
        """Whether it hands on the numbers it gets: in 8 bits before means in 8 bits after, with the same scale."""
        raise NotImplementedError

    def fit(self, observations: Sequence[Observation]) -> Any:
        """The scale, or what else there is, that values which were observed share."""
        raise NotImplementedError

    def rounded(self, node: Node, fitted: Any) -> Node:
        """A node's values, rounded."""
        raise NotImplementedError

    def weights(self, layer: Node) -> tuple[Node, torch.Tensor]:
        """A layer's weights, rounded, and by how much that moves each."""
        raise NotImplementedError

    def rounded_values(self, layers: Collection[Node]) -> list[Node]:
        """The nodes whose values become 8 bits wide for these layers, those that only pass them on included."""
        found: dict[int, Node] = {}
        waiting = [layer.source for layer in layers]
        while waiting:
            node = waiting.pop()
            if id(node) not in found and node.value is None:
                found[id(node)] = node
                waiting.extend(node.inputs if self.passes(node) else ())
        return list(found.values())

    def quantized(self, outputs: Sequence[Node], layers: Collection[Node]) -> list[Node]:
        """The outputs with these layers in 8 bits. Nodes that nothing changes for stay the objects they are."""
        return _Rewrite(self, layers).run(outputs)

    def shared(self, nodes: Iterable[Node]) -> Any:
        """What nodes that share a scale are fitted with. They are fitted once."""
        key = tuple(sorted(id(node) for node in nodes))
        if key not in self._fitted:
            self._fitted[key] = self.fit([self.calibration.observations[one] for one in key])
        return self._fitted[key]


class _Rewrite:
    def __init__(self, rounding: Rounding, layers: Collection[Node]) -> None:
        self._rounding = rounding
        self._layers = {id(layer) for layer in layers}
        self._rounded = {id(node): node for node in rounding.rounded_values(layers)}
        self._fitted = self._shared()
        self._exact: dict[int, Node] = {}
        self._eight: dict[int, Node] = {}
        """The nodes of the new graph for those of the old, as they were and rounded to 8 bits."""

    def run(self, outputs: Sequence[Node]) -> list[Node]:
        for node in ordered(outputs):
            self._exact[id(node)] = self._rebuilt(node)
            if id(node) in self._rounded:
                self._eight[id(node)] = self._in_eight_bits(node)
        return [self._exact[id(node)] for node in outputs]

    def _shared(self) -> dict[int, Any]:
        """What each rounded value is fitted with, the same for all that concatenations and pools connect."""
        group = {key: key for key in self._rounded}

        def first(key: int) -> int:
            while group[key] != key:
                key = group[key]
            return key

        for key, node in self._rounded.items():
            for one in node.inputs if self._rounding.passes(node) else ():
                if one.value is None:
                    group[first(id(one))] = first(key)
        members: dict[int, list[int]] = {}
        for key in group:
            members.setdefault(first(key), []).append(key)
        fitted = {}
        for keys in members.values():
            made = [self._rounded[key] for key in keys if not self._rounding.passes(self._rounded[key])]
            fitted.update(dict.fromkeys(keys, self._rounding.shared(made)))
        return fitted

    def _rebuilt(self, node: Node) -> Node:
        if id(node) in self._layers:
            return self._layer(node)
        takes = self._rounding.adds and node.kind == "binary" and node.params == ("add",)
        known = self._known if takes else self._exact.__getitem__
        return _with_inputs(node, [known(id(one)) for one in node.inputs])

    def _known(self, key: int) -> Node:
        """What a residual add takes: the rounded value where there is one."""
        return self._eight.get(key, self._exact[key])

    def _in_eight_bits(self, node: Node) -> Node:
        if self._rounding.passes(node):
            return _with_inputs(node, [self._eight.get(id(one)) or self._exact[id(one)] for one in node.inputs])
        return self._rounding.rounded(self._exact[id(node)], self._fitted[id(node)])

    def _layer(self, layer: Node) -> Node:
        source, _, *bias = layer.inputs
        taken, moved = self._rounding.weights(layer)
        inputs = [self._eight[id(source)], taken, *(self._exact[id(one)] for one in bias)]
        means = self._rounding.calibration.channel_means(source)
        before = bias[0].value if bias else torch.zeros(())
        if layer.kind != "matmul" and means is not None and before is not None:
            inputs[2:] = [constant(before.float().to(moved.device) - _shift(layer, moved, means))]
        return Node(layer.kind, tuple(inputs), layer.params, layer.shape)


def _shift(layer: Node, moved: torch.Tensor, mean: torch.Tensor) -> torch.Tensor:
    """How much rounded weights move the mean of each output channel, were there no borders."""
    each = moved.sum((2, 3))
    if output_axis(layer) == 0:
        groups = layer.params[3]
        return torch.einsum("goi,gi->go", each.reshape(groups, -1, each.shape[1]), mean.reshape(groups, -1)).reshape(-1)
    height, width = layer.params[0]
    return mean @ each / (height * width)


def constant(value: torch.Tensor) -> Node:
    return Node("constant", (), (), tuple(value.shape), value)


def _with_inputs(node: Node, inputs: Sequence[Node]) -> Node:
    if all(new is old for new, old in zip(inputs, node.inputs, strict=True)):
        return node
    return Node(node.kind, tuple(inputs), node.params, node.shape, node.value)
