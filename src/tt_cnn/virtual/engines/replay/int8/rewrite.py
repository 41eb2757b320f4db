"""A graph in which chosen layers take and multiply numbers of 8 bits.

Values are rounded where they are made, not where they are used: a value that a layer takes in 8 bits goes in 8 bits
through pools, upsampling and concatenations and into residual adds too, so that engines move a quarter of the bytes.
What a concatenation joins shares one scale.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch

from tt_cnn.virtual.engines.replay.graph import Node, ordered
from tt_cnn.virtual.engines.replay.int8.calibration import Calibration
from tt_cnn.virtual.engines.replay.int8.layers import PASSING, output_axis

LARGEST = 127


def rounded_values(layers: Collection[Node]) -> list[Node]:
    """The nodes whose values become 8 bits wide for these layers, those that only pass them on included."""
    found: dict[int, Node] = {}
    waiting = [layer.source for layer in layers]
    while waiting:
        node = waiting.pop()
        if id(node) not in found and node.value is None:
            found[id(node)] = node
            waiting.extend(node.inputs if node.kind in PASSING else ())
    return list(found.values())


def quantized(outputs: Sequence[Node], layers: Collection[Node], calibration: Calibration) -> list[Node]:
    """The outputs with these layers in 8 bits. Nodes that nothing changes for stay the objects they are."""
    return _Rewrite(layers, calibration).run(outputs)


class _Rewrite:
    def __init__(self, layers: Collection[Node], calibration: Calibration) -> None:
        self._layers = {id(layer) for layer in layers}
        self._calibration = calibration
        self._rounded = {id(node): node for node in rounded_values(layers)}
        self._steps = self._shared_steps()
        self._exact: dict[int, Node] = {}
        self._eight: dict[int, Node] = {}
        """The nodes of the new graph for those of the old, as floats and rounded to 8 bits."""

    def run(self, outputs: Sequence[Node]) -> list[Node]:
        for node in ordered(outputs):
            self._exact[id(node)] = self._rebuilt(node)
            if id(node) in self._rounded:
                self._eight[id(node)] = self._in_eight_bits(node)
        return [self._exact[id(node)] for node in outputs]

    def _shared_steps(self) -> dict[int, tuple[Node, Node]]:
        """Scale and zero point for each rounded value, the same for all that concatenations and pools connect."""
        group = {key: key for key in self._rounded}

        def first(key: int) -> int:
            while group[key] != key:
                key = group[key]
            return key

        for key, node in self._rounded.items():
            for one in node.inputs if node.kind in PASSING else ():
                if one.value is None:
                    group[first(id(one))] = first(key)
        members: dict[int, list[int]] = {}
        for key in group:
            members.setdefault(first(key), []).append(key)
        steps = {}
        for keys in members.values():
            made = [self._rounded[key] for key in keys if self._rounded[key].kind not in PASSING]
            scale, zero = self._calibration.steps(made)
            pair = _constant(torch.tensor(scale)), _constant(torch.tensor(zero, dtype=torch.uint8))
            steps.update(dict.fromkeys(keys, pair))
        return steps

    def _rebuilt(self, node: Node) -> Node:
        if id(node) in self._layers:
            return self._layer(node)
        known = self._known if node.kind == "binary" and node.params == ("add",) else self._exact.__getitem__
        return _with_inputs(node, [known(id(one)) for one in node.inputs])

    def _known(self, key: int) -> Node:
        """What a residual add takes: the rounded value where there is one."""
        return self._eight.get(key, self._exact[key])

    def _in_eight_bits(self, node: Node) -> Node:
        if node.kind in PASSING:
            return _with_inputs(node, [self._eight.get(id(one)) or self._exact[id(one)] for one in node.inputs])
        scale, zero = self._steps[id(node)]
        whole = Node("quantize", (self._exact[id(node)], scale, zero), (), node.shape)
        return Node("dequantize", (whole, scale, zero), (), node.shape)

    def _layer(self, layer: Node) -> Node:
        source, weight, *bias = layer.inputs
        assert weight.value is not None
        exact = weight.value.float()
        if layer.kind == "matmul":
            exact = exact.reshape(exact.shape[-2:])
        whole, scale = _rounded_weights(exact, output_axis(layer))
        axis = output_axis(layer) % exact.dim()
        row = (_constant(scale.reshape(-1)), _constant(torch.zeros(scale.numel(), dtype=torch.int8)))
        taken = Node("dequantize", (_constant(whole), *row), (axis,), tuple(exact.shape))
        inputs = [self._eight[id(source)], taken, *(self._exact[id(one)] for one in bias)]
        means = self._calibration.channel_means(source)
        before = bias[0].value if bias else torch.zeros(())
        if layer.kind != "matmul" and means is not None and before is not None:
            inputs[2:] = [_constant(before.float() - _shift(layer, whole * scale - exact, means))]
        return Node(layer.kind, tuple(inputs), layer.params, layer.shape)


def _rounded_weights(weight: torch.Tensor, axis: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Whole numbers and the size of their steps, for each output channel its own."""
    others = [d for d in range(weight.dim()) if d != axis % weight.dim()]
    scale = (weight.abs().amax(others, keepdim=True) / LARGEST).clamp_min(torch.finfo(torch.float32).tiny)
    return (weight / scale).round().to(torch.int8), scale


def _shift(layer: Node, error: torch.Tensor, mean: torch.Tensor) -> torch.Tensor:
    """How much rounded weights move the mean of each output channel, were there no borders."""
    if layer.kind == "conv":
        each = error.sum((2, 3))
        groups = layer.params[3]
        return torch.einsum("goi,gi->go", each.reshape(groups, -1, each.shape[1]), mean.reshape(groups, -1)).reshape(-1)
    height, width = layer.params[0]
    return mean @ error.sum((2, 3)) / (height * width)


def _constant(value: torch.Tensor) -> Node:
    return Node("constant", (), (), tuple(value.shape), value)


def _with_inputs(node: Node, inputs: Sequence[Node]) -> Node:
    if all(new is old for new, old in zip(inputs, node.inputs, strict=True)):
        return node
    return Node(node.kind, tuple(inputs), node.params, node.shape, node.value)
