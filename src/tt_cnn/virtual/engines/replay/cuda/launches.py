# SPDX-License-Identifier: Apache-2.0
"""A graph as a program for the GPU: static memory, and steps that write it, which a CUDA graph can hold.

The program itself knows nothing of CUDA: on the CPU torch runs its steps, one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch

from tt_cnn.virtual.engines.replay import evaluate
from tt_cnn.virtual.engines.replay.cuda.expressions import VIEWS, Expression, is_expression
from tt_cnn.virtual.engines.replay.cuda.kernel_calls import (
    KERNEL_CALLS,
    WEIGHT_MULTIPLE,
    ByTorch,
    Computed,
    Convolution,
    Copy,
    KernelCall,
    lies_channels_last,
)
from tt_cnn.virtual.engines.replay.cuda.memory import Buffers, region_of
from tt_cnn.virtual.engines.replay.cuda.rewrite import rewritten_for_cuda
from tt_cnn.virtual.engines.replay.fp8.e4m3 import E4M3, is_eight, scale_of
from tt_cnn.virtual.engines.replay.graph import Node, ordered
from tt_cnn.virtual.engines.replay.kernels.fusion import Fused, concatenated, fuse
from tt_cnn.virtual.engines.replay.ledger import Ledger, Region, value_of

FOREVER = 1 << 60
WIDEST_TAIL = 64
"""Channels that a program of the kernel has all of, so that it can go on with the next convolution."""


class Launches:
    """`run` computes the outputs from what is in `inputs`; `outputs` reads them."""

    def __init__(
        self, outputs: Sequence[Node], device: torch.device | str = "cpu", dtype: torch.dtype = torch.bfloat16
    ) -> None:
        self.device, self.dtype = torch.device(device), dtype
        self.calls: list[KernelCall | Computed | ByTorch] = []
        self._results = rewritten_for_cuda(outputs)
        self._order = ordered(self._results)
        self._fused = fuse(self._results, only_simple=True)
        self._images: dict[int, torch.Tensor] = {}
        """Of nodes with memory of their own, by id."""
        self._read: set[int] = set()
        """Nodes that steps look at. All else is near the outputs, and stored in float32."""
        self._buffers = Buffers(self.device)
        self._ledger = Ledger()
        leaves = sorted((n for n in self._order if n.kind == "input"), key=lambda n: n.params[0])
        for node in self._order:
            if node.kind == "input":
                self._images[id(node)] = torch.zeros(node.shape, device=self.device)
            elif node.value is not None:
                self._images[id(node)] = node.value.to(self.device)
            if id(node) in self._images:
                self._ledger.step([], (node, value_of(node)))
        self.inputs = [self._images[id(node)] for node in leaves]
        """In the order of their numbers, float32."""
        self._eights = self._written_in_eight_bits()
        self._wholes = concatenated(self._order, self._fused | {id(e): self._fused[k] for k, e in self._eights.items()})
        self._tails = self._convolutions_to_one_channel()
        self._stored = self._nodes_with_memory()
        self._last_use = self._last_uses()
        self._position = 0
        for position, node in enumerate(self._order):
            self._position = position
            self._lower(node)
            self._buffers.release(position)
        for node, region in self._reads(self._results):
            self._ledger.read(node, region)

    def run(self) -> None:
        for step in self.calls:
            step.run()

    def outputs(self) -> list[torch.Tensor]:
        """What the last run computed, where it lies."""
        return [self.tensor(node) for node in self._results]

    def tensor(self, node: Node) -> torch.Tensor:
        """A node's values; views of them are made on the way."""
        if id(node) in self._images:
            return self._images[id(node)]
        return evaluate.value_of(node, [self.tensor(node.source)])

    def keep(self, node: Node, value: torch.Tensor) -> None:
        """Say where a node's values are, for steps that bring memory of their own; they lie there as was planned."""
        self._images[id(node)] = value

    def in_place(self, node: Node) -> bool:
        """Whether a step must write to a given place: into a part of a concatenation."""
        return id(node) in self._wholes

    # --- looking ahead -------------------------------------------------------------------------------------------

    def _written_in_eight_bits(self) -> dict[int, Node]:
        """Nodes in e4m3 that the step of their source writes, by the id of that source."""
        found: dict[int, Node] = {}
        for node in self._order:
            for one in filter(is_eight, node.inputs):
                if not is_eight(node) and (node.kind not in ("conv", "conv_transpose") or one is not node.source):
                    raise ValueError(f"{node.kind} takes values in e4m3; only convolutions do, as their input")
            fused = self._fused.get(id(node.source)) if node.kind == "e4m3" else None
            if fused is not None and fused.node.kind != "reduce":
                found[id(node.source)] = node
        return found

    def _targets(self, result: Node) -> list[Node]:
        """The nodes that a step writes for its result: in 16 bits, in e4m3, or both."""
        eight = self._eights.get(id(result))
        if eight is None:
            return [result]
        others = sum(one is result for node in self._order for one in node.inputs) > 1
        return [result, eight] if others or any(result is one for one in self._results) else [eight]

    def _is_whole(self, node: Node) -> bool:
        return node.kind == "cat" and any(self._wholes.get(id(one), (None, 0))[0] is node for one in node.inputs)

    def _convolutions_to_one_channel(self) -> dict[int, Fused]:
        """Steps that another one computes as its tail, by the id of that one's result."""
        found: dict[int, Fused] = {}
        users = [id(one) for node in self._order for one in node.inputs] + [id(node) for node in self._results]
        for tail in [one for one in self._fused.values() if one is not None]:
            node = tail.node
            if node.kind != "conv" or node.shape[1] != 1 or tail.other is not None or id(tail.result) in self._wholes:
                continue
            before = self._fused.get(id(node.source))
            point = node.inputs[1].shape[2:] == (1, 1) and node.params == ((1, 1), (0, 0, 0, 0), (1, 1), 1)
            if before is None or not point or users.count(id(node.source)) > 1 or id(node.source) in self._wholes:
                continue
            plain = before.node.kind == "conv" and before.node.params[3] == 1 and before.other is None
            if plain and 1 < before.node.shape[1] <= WIDEST_TAIL:
                found[id(node.source)] = tail
        return found

    def _nodes_with_memory(self) -> set[int]:
        """All but views, and expressions that only other expressions look at."""
        stored: set[int] = {id(n) for n in self._results}
        inline: set[int] = set()
        for node in self._order:
            leaf = node.kind == "input" or node.value is not None
            if leaf or id(node) in self._fused or self._is_whole(node) or not is_expression(node):
                stored.add(id(node))
            else:
                inline.add(id(node))
        self._read = {id(one) for node in self._order if id(node) not in inline for one in node.inputs}
        return stored | self._read

    def _last_uses(self) -> dict[int, int]:
        """The position after which a node's memory is not needed; a step reads its inputs when its result is due."""
        position = {id(node): i for i, node in enumerate(self._order)}
        due = {}
        for one in self._fused.values():
            if one is not None:
                due[id(one.node)] = position[id(one.result)]
                # a result as wide as what is added to it may take its place, cell by cell; no other may
                if id(one.result) in self._eights or any(one.result is last for last in self._results):
                    due.update({id(inside): position[id(one.result)] for inside in one.chain})
        for one in self._fused.values():
            if one is not None and id(one.result) in self._tails:
                due[id(one.node)] = position[id(self._tails[id(one.result)].result)]
        last: dict[int, int] = {}
        for i, node in enumerate(self._order):
            for source in node.inputs:
                last[id(source)] = max(last.get(id(source), 0), i, due.get(id(node), 0))
        for node in self._results:
            last[id(node)] = FOREVER
        for node in reversed(self._order):
            if node.kind in VIEWS or id(node) not in self._stored:
                for source in node.inputs:
                    last[id(source)] = max(last[id(source)], last[id(node)])
        return last

    # --- memory --------------------------------------------------------------------------------------------------

    def _image(self, node: Node) -> torch.Tensor:
        """Memory for a node's values: its own, or a part of the concatenation that it belongs to."""
        if id(node) not in self._images:
            if id(node) in self._wholes:
                whole, first = self._wholes[id(node)]
                self._images[id(node)] = self._image(whole)[:, first : first + node.shape[1]]
            else:
                last = any(node is one for one in self._results) or id(node) not in self._read
                dtype = E4M3 if is_eight(node) else torch.float32 if last else self.dtype
                image = self._buffers.image(self._room(node), dtype, self._needed_until(node))
                self._images[id(node)] = image[:, : node.shape[1]] if image.dim() == 4 else image
        return self._images[id(node)]

    def _room(self, node: Node) -> tuple[int, ...]:
        """The shape of a node's memory: pixels of convolutions begin where vectors do."""
        fused = self._fused.get(id(node.source if node.kind == "e4m3" else node))
        if fused is None or fused.node.kind != "conv" or node.shape[1] < WEIGHT_MULTIPLE:
            return node.shape
        return node.shape[0], node.shape[1] + -node.shape[1] % WEIGHT_MULTIPLE, *node.shape[2:]

    def _needed_until(self, node: Node) -> int:
        parts = [one for one in node.inputs if self._wholes.get(id(one), (None, 0))[0] is node]
        return max(self._last_use[id(node)], *(self._needed_until(one) for one in parts), 0)

    # --- steps ---------------------------------------------------------------------------------------------------

    def _lower(self, node: Node) -> None:
        if id(node) in self._images and node.kind in ("input", "constant"):
            return
        if self._is_whole(node):
            self._fill(node)
        elif node.kind == "e4m3":
            if self._eights.get(id(node.source)) is not node:
                made, y = Fused(node.source, node), self._image(node)
                self._ledger.step(self._reads([node.source]), (node, region_of(y)))
                self.calls.append(Copy(made, self.tensor, y, scale=scale_of(node)))
        elif id(node) in self._fused:
            fused = self._fused[id(node)]
            if fused is not None and id(node) not in self._tails:
                self._step(fused)
        elif id(node) in self._stored and not self._is_view(node):
            self._compute(node)

    def _channels_last(self, node: Node) -> Node:
        """A node with these values whose image lies as kernels take it; inputs and views may not."""
        if lies_channels_last(self.tensor(node)):
            return node
        copy = Node("copy", (node,), (), node.shape)
        y = self._buffers.image(node.shape, self.dtype, self._position)
        self._images[id(copy)] = y
        self._ledger.step(self._reads([node]), (copy, region_of(y)))
        self.calls.append(Copy(Fused(node, copy), self.tensor, y))
        return copy

    def _step(self, fused: Fused) -> None:
        if fused.other is not None:
            fused = replace(fused, other=self._channels_last(fused.other))
        if fused.node.kind == "reduce":
            source = self._channels_last(fused.node.source)
            fused = replace(fused, node=replace(fused.node, inputs=(source,)))
        whole = self._fused.get(id(fused.node.source)) if self._tails.get(id(fused.node.source)) is fused else None
        targets = self._targets(fused.result)
        scale = scale_of(targets[-1]) if targets[-1].kind == "e4m3" else 1.0
        y, eight = (*map(self._image, targets), None)[:2]
        assert y is not None
        step = KERNEL_CALLS[fused.node.kind](whole or fused, self.tensor, y, eight, scale)
        if isinstance(step, Convolution):
            step.convert(self.dtype, self.device)
            if whole is not None:
                step.take(fused, self.device)
            elif not any(map(self.in_place, targets)):
                step.columns = self._room(fused.result)[1]
        self._follow(whole or fused, targets, [y] if eight is None else [y, eight])
        self.calls.append(step)

    def _follow(self, fused: Fused, targets: Sequence[Node], written: Sequence[torch.Tensor]) -> None:
        """Check what a step reads. A result may take the place of what is added to it, cell by cell."""
        reads = self._reads([fused.node.source])
        for other in self._reads([] if fused.other is None else [fused.other]):
            self._ledger.read(*other)
            dtype = self.tensor(other[0]).dtype
            if not any(other[1] == region_of(y) and dtype == y.dtype for y in written):
                reads.append(other)
        for target, y in zip(targets, written, strict=True):
            self._ledger.step(reads, (target, region_of(y)))

    def _reads(self, nodes: Iterable[Node]) -> list[tuple[Node, Region]]:
        """Where values lie that nodes are made of: views of them are no memory of their own."""
        found = []
        for node in nodes:
            while id(node) not in self._images:
                node = node.source
            leaf = node.kind == "input" or node.value is not None
            found.append((node, value_of(node) if leaf else region_of(self._images[id(node)])))
        return found

    def _fill(self, cat: Node) -> None:
        """Copy the parts of a concatenation that were not written in place."""
        whole, first = self._image(cat), 0
        parts = []
        for part in cat.inputs:
            here = whole[:, first : first + part.shape[1]]
            if self._wholes.get(id(part)) != (cat, first):
                self._ledger.step(self._reads([part]), (part, region_of(here)))
                self.calls.append(Copy(Fused(part, part), self.tensor, here))
            parts.append((part, region_of(here)))
            first += part.shape[1]
        self._ledger.join(parts, (cat, region_of(whole)))

    def _is_view(self, node: Node) -> bool:
        """Whether torch makes the node without a copy from what lies in memory."""
        if node.kind not in VIEWS or not self._in_memory(node.source):
            return False
        source = self.tensor(node.source)
        if node.kind != "reshape":
            return True
        try:
            source.view(node.shape)
        except RuntimeError:
            return False
        return True

    def _in_memory(self, node: Node) -> bool:
        return id(node) in self._images or self._is_view(node)

    def _compute(self, node: Node) -> None:
        if not is_expression(node):
            y = self._image(node)
            self._ledger.step(self._reads(node.inputs), (node, region_of(y)))
            self.calls.append(ByTorch(node, self.tensor, y, self.dtype))
            return
        y = self._image(node)
        expression = Expression(node, lambda one: one is not node and self._in_memory(one), self.tensor, last=True)
        self._ledger.step(self._reads(expression.stored), (node, region_of(y)))
        self.calls.append(Computed(expression, self.tensor, y))
