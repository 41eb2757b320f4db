# SPDX-License-Identifier: Apache-2.0
"""A graph as steps of the kernels' program, with torch for the nodes that no step does.

Images are channels last. Parts of a concatenation are written where the whole will be. Where values are is decided when
what reads them is made, never when it runs, and the ledger sees every access.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from tt_cnn.virtual.engines.replay import evaluate
from tt_cnn.virtual.engines.replay.graph import Node, ordered
from tt_cnn.virtual.engines.replay.kernels.bytes import in_bytes, steps_of
from tt_cnn.virtual.engines.replay.kernels.emission import EMIT
from tt_cnn.virtual.engines.replay.kernels.endings import simple_end, stages_of
from tt_cnn.virtual.engines.replay.kernels.fusion import Fused, concatenated, fuse, holds_bytes
from tt_cnn.virtual.engines.replay.kernels.instructions import ACTIVATIONS, ELSEWHERE, Instruction, instruction
from tt_cnn.virtual.engines.replay.kernels.memory import Image, Pool, allocate
from tt_cnn.virtual.engines.replay.kernels.registers import staged
from tt_cnn.virtual.engines.replay.ledger import Ledger, value_of
from tt_cnn.virtual.engines.replay.rewrite import COMMON, rewritten, rows_as_pixels
from tt_cnn.virtual.kernel_library import library, load_steps

REWRITES = COMMON | {"matmul": rows_as_pixels}
FOREVER = 1 << 60
REARRANGEMENTS = ("reshape", "permute", "slice", "expand", "pad")
"""Computed when they are needed: mostly views of their source's memory for torch, and one step for a step."""

Held = Callable[[], torch.Tensor]
"""Gives a node's values, in the place where they were found when it was made."""


class Lowering:
    """`actions`, run in order, compute all nodes from `values` of the inputs; `results` give those of the outputs."""

    def __init__(self, outputs: Sequence[Node], threads: int) -> None:
        self.threads = threads
        self.actions: list[Callable[[], Any]] = []
        self.values: dict[int, torch.Tensor] = {}
        """Of inputs, constants and nodes that torch computes."""
        self._images: dict[int, Image] = {}
        self._ledger = Ledger()
        self._instructions: list[Instruction] = []
        self._patches: list[tuple[int, int]] = []
        """Steps that read an input itself, and the input."""
        self._made: set[int] = set()
        """Rearrangements that torch computes."""
        self._kept: list[torch.Tensor] = []
        self._arrays: list[Any] = []
        self._pairs: dict[int, Image] = {}
        self._scratch_each = 0
        self._pool = Pool()
        self.odd = ctypes.c_int64(0)
        """Set where a number has no byte that stands for it; whoever reads it sets it back."""
        outputs = self.outputs = in_bytes(rewritten(outputs, REWRITES))
        self._order = ordered(outputs)
        self._fused = fuse(outputs)
        self._last_use = self._last_uses(outputs)
        self._wholes = concatenated(self._order, self._fused)
        for position, node in enumerate(self._order):
            self._lower(node)
            self._pool.release(position)
        for node in outputs:
            self._need(node)
        self._close()
        self.results: list[Held] = [self._held(node) for node in outputs]
        self._scratch = allocate(max(1, self._scratch_each * threads)).zero_()

    @property
    def image_bytes(self) -> int:
        """Of memory that holds images, each stretch for several of them one after the other."""
        return sum(memory.nbytes for memory in self._pool.all)

    # --- looking ahead -------------------------------------------------------------------------------------------

    def _last_uses(self, outputs: Sequence[Node]) -> dict[int, int]:
        """The position after which a node's values are not needed; a step reads its inputs when its result is due."""
        due: dict[int, int] = {}
        position = {id(node): i for i, node in enumerate(self._order)}
        for one in self._fused.values():
            if one is not None:
                due |= {id(node): position[id(one.result)] for node in (one.node, *one.chain)}
        last: dict[int, int] = {}
        for i, node in enumerate(self._order):
            for source in node.inputs:
                last[id(source)] = max(last.get(id(source), 0), i, due.get(id(node), 0))
        for node in outputs:
            last[id(node)] = FOREVER
        for node in reversed(self._order):
            if node.kind in REARRANGEMENTS:
                last[id(node.source)] = max(last[id(node.source)], last[id(node)])
        return last

    # --- where values are ----------------------------------------------------------------------------------------

    def image(self, node: Node) -> Image:
        """Memory for a node's values: its own, or a part of the concatenation that it belongs to."""
        if id(node) not in self._images:
            if id(node) in self._wholes:
                whole, first = self._wholes[id(node)]
                image = self.image(whole).part(first, node.shape[1])
            else:
                dtype = torch.uint8 if holds_bytes(node) else torch.float32
                image = self._pool.image(node.shape, self._needed_until(node), dtype)
            self._images[id(node)] = image
        return self._images[id(node)]

    def _needed_until(self, node: Node) -> int:
        parts = [one for one in node.inputs if self._wholes.get(id(one), (None, 0))[0] is node]
        return max(self._last_use[id(node)], *(self._needed_until(one) for one in parts), 0)

    def _source(self, node: Node) -> Image:
        """A node's values as an image; those that torch computed are copied into one."""
        if id(node) not in self._images and not self._rearranged(node):
            self._need(node)
            held = self._held(node)
            image = self.image(node)
            target = image.tensor()
            self._ledger.step([(node, value_of(node))], (node, image.region))
            self._by_torch(lambda: target.copy_(held()))
        return self._images[id(node)]

    def _rearranged(self, node: Node) -> bool:
        """A chain of rearrangements as one step: where each number comes from shows when numbers are sent through."""
        chain: list[Node] = []
        start = node
        while start.kind in REARRANGEMENTS:
            if start.kind == "pad" and start.params[2] != 0.0:
                return False
            chain.append(start)
            start = start.source
        image = self._images.get(id(start))
        if holds_bytes(start) or (image is None and start.kind != "input"):
            return False
        whole = start.shape if image is None else image.buffer.shape
        places = torch.arange(1, math.prod(whole) + 1, dtype=torch.int32).view(whole)  # 0 is what a pad leaves
        if image is not None:
            places = Image(places, image.first, image.channels).tensor()
        for one in reversed(chain):
            places = evaluate.value_of(one, [places])
        places = places.permute(0, 2, 3, 1).contiguous() - 1
        self._kept.append(places)
        to = self.image(node)
        self._ledger.step([(start, value_of(start) if image is None else image.region)], (node, to.region))
        if image is None:
            self._patches.append((len(self._instructions), id(start)))
        x = 0 if image is None else image.buffer.data_ptr()
        self._instructions.append(
            instruction("gather", x=x, weights=places.data_ptr(), y=to.pointer, width=places.numel())
        )
        return True

    def _need(self, node: Node) -> None:
        """See to it that torch can have a node's values."""
        if node.kind not in REARRANGEMENTS or id(node) in self._images or id(node) in self._made:
            return
        self._made.add(id(node))
        self._need(node.source)
        self._compute(node)

    def _held(self, node: Node) -> Held:
        """A node's values as torch sees them, where they are now."""
        image = self._images.get(id(node))
        if image is not None:
            self._ledger.read(node, image.region)
            tensor = image.tensor()
            return lambda: tensor
        self._ledger.read(node, value_of(node))
        values, key = self.values, id(node)
        return lambda: values[key]

    def _whereabouts(self, node: Node) -> tuple[Node, Any]:
        return node, self._images[id(node)].region if id(node) in self._images else value_of(node)

    # --- actions -------------------------------------------------------------------------------------------------

    def _by_torch(self, action: Callable[[], Any]) -> None:
        self._close()
        self.actions.append(action)

    def _close(self) -> None:
        """The instructions so far become one call of the library."""
        if not self._instructions:
            return
        count, run = len(self._instructions), library().run_program
        for name, kinds in ELSEWHERE.items():
            if any(one.kind in kinds for one in self._instructions):
                load_steps(name, kinds)
        steps = (Instruction * count)(*self._instructions)
        patches, values = self._patches, self.values
        self._instructions, self._patches = [], []

        def call() -> None:
            for at, key in patches:
                steps[at].x = values[key].data_ptr()
            scratch = ctypes.c_void_p(self._scratch.data_ptr())
            run(steps, ctypes.c_int64(count), ctypes.c_int64(self.threads), scratch, ctypes.c_int64(self._scratch_each))

        self.actions.append(call)

    def _lower(self, node: Node) -> None:
        if node.value is not None:
            self.values[id(node)] = node.value
            self._ledger.step([], (node, value_of(node)))
        elif node.kind == "input":
            self._ledger.step([], (node, value_of(node)))
        elif node.kind == "cat" and any(self._wholes.get(id(part), (None, 0))[0] is node for part in node.inputs):
            self._fill(node)
        elif id(node) in self._fused:
            fused = self._fused[id(node)]
            if fused is not None:
                EMIT[fused.node.kind](self, fused)
        elif node.kind not in REARRANGEMENTS:
            for one in node.inputs:
                self._need(one)
            self._compute(node)

    def _fill(self, cat: Node) -> None:
        """Copy the parts of a concatenation that were not written in place."""
        whole, first, parts = self.image(cat), 0, []
        for part in cat.inputs:
            here = whole.part(first, part.shape[1])
            there = self._images.get(id(part))
            if there is None or there.region != here.region:
                self.emit("byte_pixels" if holds_bytes(part) else "activate", Fused(part, part), part, here)
            parts.append((part, here.region))
            first += part.shape[1]
        self._ledger.join(parts, (cat, whole.region))

    def _compute(self, node: Node) -> None:
        """By torch, but for functions that the steps have: their approximations are not torch's."""
        values, key = self.values, id(node)
        function = ACTIVATIONS.get(node.params[0]) if node.kind == "unary" and len(node.params) == 1 else None
        sources = [self._held(one) for one in node.inputs]
        reads = [self._whereabouts(one) for one in node.inputs]
        is_view = node.kind in REARRANGEMENTS
        self._ledger.step(reads, (node, value_of(node)), looks_at=reads if is_view else ())

        def compute() -> None:
            inputs = [held() for held in sources]
            if node.kind == "quantize" and not bool(torch.isfinite(inputs[0]).all()):
                self.odd.value, inputs[0] = 1, torch.zeros(node.shape)
            result = evaluate.value_of(node, inputs) if function is None else staged(function, inputs[0])
            values[key] = result if is_view else _own(result, inputs)

        self._by_torch(compute)

    # --- steps ---------------------------------------------------------------------------------------------------

    def emit(self, kind: str, fused: Fused, source: Node, target: Image | None = None, **fields: Any) -> None:
        """A step of the library from a source to its result; `fields` are those that only its kind has."""
        x = self._source(source)
        other = None if fused.other is None else self._source(fused.other)
        y = target or self.image(fused.result)
        reads = [(source, x.region), *([] if fused.other is None or other is None else [(fused.other, other.region)])]
        self._ledger.step(reads, (fused.result, y.region))
        (n, c, h, w), (_, out_channels, out_height, out_width) = source.shape, fused.node.shape
        numbers: dict[str, Any] = {
            "x": x.pointer, "batch": n, "height": h, "width": w, "channels": c, "x_pixel": x.pixel,
            "out_height": out_height, "out_width": out_width, "out_channels": out_channels,
            "y": y.pointer, "y_pixel": y.pixel, "y_row": y.pixel * y.buffer.shape[2],
            "y_image": y.pixel * y.buffer.shape[2] * y.buffer.shape[1],
        }  # fmt: skip
        if other is not None:
            numbers |= {"other": other.pointer, "other_pixel": other.pixel}
        numbers |= simple_end(fused) or self._stages(fused)
        numbers |= self._byte_fields(source, fused)
        for name, value in fields.items():
            if isinstance(value, torch.Tensor):
                self._kept.append(value)
                value = value.data_ptr()
            numbers[name] = value
        self._instructions.append(instruction(kind, **numbers))

    def _byte_fields(self, source: Node, fused: Fused) -> dict[str, Any]:
        """What the bytes of the images that are made of them stand for."""
        fields: dict[str, Any] = {}
        for name, node in (("x", source), ("other", fused.other), ("y", fused.result)):
            if node is not None and holds_bytes(node):
                steps = steps_of(node)
                fields |= {f"{name}_bytes": 1, f"{name}_zero": steps.zero}
                fields |= {"y_inverse": 1 / steps.scale} if name == "y" else {f"{name}_scale": steps.scale}
        return fields | ({"odd": ctypes.addressof(self.odd)} if "y_bytes" in fields else {})

    def _stages(self, fused: Fused) -> dict[str, Any]:
        stages, rows = stages_of(fused)
        self._kept.extend(rows)
        return {"stages": self.array(stages), "stage_count": len(stages)}

    def array(self, structures: Sequence[ctypes.Structure]) -> int:
        """The address of structures side by side, which stay as long as the program does."""
        array = (type(structures[0]) * len(structures))(*structures)
        self._arrays.append(array)
        return ctypes.addressof(array)

    def reserve_scratch(self, floats: int) -> None:
        """Room that every thread has for itself during a step."""
        self._scratch_each = max(self._scratch_each, floats)

    def paired(self, node: Node) -> Image:
        """The image with two neighbouring channels in place of one number."""
        if id(node) not in self._pairs:
            x, (n, c, h, w) = self._source(node), node.shape
            y = self._pool.image((n, c // 2, h, w), self._last_use[id(node)])
            self._ledger.step([(node, x.region)], (node, y.region))
            numbers = {"batch": n, "height": h, "width": w, "channels": c // 2, "x_pixel": x.pixel, "y_pixel": y.pixel}
            self._instructions.append(instruction("pair", x=x.pointer, y=y.pointer, **numbers))
            self._pairs[id(node)] = y
        self._ledger.read(node, self._pairs[id(node)].region)
        return self._pairs[id(node)]


def _own(result: torch.Tensor, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
    """A result that shares no memory with what it was made of: that memory may be written again."""
    storage = result.untyped_storage().data_ptr()
    return result.clone() if any(one.untyped_storage().data_ptr() == storage for one in inputs) else result
