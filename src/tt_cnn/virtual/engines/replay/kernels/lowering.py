"""A graph as steps of the kernels' program, with torch for the nodes that no step does.

Images are channels last. Parts of a concatenation are written where the whole will be.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from tt_cnn.virtual.engines.replay import evaluate
from tt_cnn.virtual.engines.replay.graph import Node, ordered
from tt_cnn.virtual.engines.replay.kernels.endings import pieces_of, simple_end, stages_of
from tt_cnn.virtual.engines.replay.kernels.fusion import Fused, concatenated, fuse, images_of
from tt_cnn.virtual.engines.replay.kernels.library import library
from tt_cnn.virtual.engines.replay.kernels.memory import Image, Pool, allocate
from tt_cnn.virtual.engines.replay.kernels.pairs import paired_weights
from tt_cnn.virtual.engines.replay.kernels.registers import staged
from tt_cnn.virtual.engines.replay.kernels.steps import (
    ACTIVATIONS,
    BETWEEN,
    Stage,
    Step,
    direct_weights,
    padded_bias,
    step,
    winograd_weights,
)
from tt_cnn.virtual.engines.replay.kernels.winograd import is_quicker, tiles_at_once
from tt_cnn.virtual.engines.replay.rewrite import COMMON, rewritten, rows_as_pixels
from tt_cnn.virtual.types.enums import DataType

REWRITES = COMMON | {"matmul": rows_as_pixels}
FOREVER = 1 << 60
REARRANGEMENTS = ("reshape", "permute", "slice", "expand", "pad")
"""Computed when they are needed: mostly views of their source's memory for torch, and one step for a step."""


class Lowering:
    """`actions`, run in order, compute the values of all nodes from `values` of the inputs."""

    def __init__(self, outputs: Sequence[Node], threads: int) -> None:
        self.threads = threads
        self.actions: list[Callable[[], Any]] = []
        self.values: dict[int, torch.Tensor] = {}
        """Of inputs, constants and nodes that torch computes."""
        self.images: dict[int, Image] = {}
        self._steps: list[Step] = []
        self._patches: list[tuple[int, int]] = []
        """Steps that read an input itself, and the input."""
        self._made: set[int] = set()
        """Rearrangements that torch computes."""
        self._kept: list[torch.Tensor] = []
        self._arrays: list[Any] = []
        self._pairs: dict[int, Image] = {}
        self._scratch_each = 0
        self._pool = Pool()
        outputs = self.outputs = rewritten(outputs, REWRITES)
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
        self._scratch = allocate(max(1, self._scratch_each * threads)).zero_()

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

    def _image(self, node: Node) -> Image:
        """Memory for a node's values: its own, or a part of the concatenation that it belongs to."""
        if id(node) not in self.images:
            if id(node) in self._wholes:
                whole, first = self._wholes[id(node)]
                image = self._image(whole).part(first, node.shape[1])
            else:
                image = self._pool.image(node.shape, self._needed_until(node))
            self.images[id(node)] = image
        return self.images[id(node)]

    def _needed_until(self, node: Node) -> int:
        parts = [one for one in node.inputs if self._wholes.get(id(one), (None, 0))[0] is node]
        return max(self._last_use[id(node)], *(self._needed_until(one) for one in parts), 0)

    def _source(self, node: Node) -> Image:
        """A node's values as an image; those that torch computed are copied into one."""
        if id(node) not in self.images and not self._rearranged(node):
            self._need(node)
            target, values, key = self._image(node).tensor(), self.values, id(node)
            self._by_torch(lambda: target.copy_(values[key]))
        return self.images[id(node)]

    def _rearranged(self, node: Node) -> bool:
        """A chain of rearrangements as one step: where each number comes from shows when numbers are sent through."""
        chain: list[Node] = []
        start = node
        while start.kind in REARRANGEMENTS:
            if start.kind == "pad" and start.params[2] != 0.0:
                return False
            chain.append(start)
            start = start.source
        image = self.images.get(id(start))
        if image is None and start.kind != "input":
            return False
        whole = start.shape if image is None else image.buffer.shape
        places = torch.arange(1, math.prod(whole) + 1, dtype=torch.int32).view(whole)  # 0 is what a pad leaves
        if image is not None:
            places = Image(places, image.first, image.channels).tensor()
        for one in reversed(chain):
            places = evaluate.value_of(one, [places])
        places = places.permute(0, 2, 3, 1).contiguous() - 1
        self._kept.append(places)
        to = self._image(node)
        if image is None:
            self._patches.append((len(self._steps), id(start)))
        x = 0 if image is None else image.buffer.data_ptr()
        self._steps.append(step("gather", x=x, weights=places.data_ptr(), y=to.pointer, width=places.numel()))
        return True

    def _need(self, node: Node) -> None:
        """See to it that torch can have a node's values."""
        if node.kind not in REARRANGEMENTS or id(node) in self.images or id(node) in self._made:
            return
        self._made.add(id(node))
        self._need(node.source)
        self._compute(node)

    def tensor(self, node: Node) -> torch.Tensor:
        """A node's values as torch sees them, once the actions have run.

        What torch has computed may get an image too, for a step: that is filled later.
        """
        return self.values[id(node)] if id(node) in self.values else self.images[id(node)].tensor()

    # --- actions -------------------------------------------------------------------------------------------------

    def _by_torch(self, action: Callable[[], Any]) -> None:
        self._close()
        self.actions.append(action)

    def _close(self) -> None:
        """The steps so far become one call of the library."""
        if not self._steps:
            return
        steps, count, run = (Step * len(self._steps))(*self._steps), len(self._steps), library().run_program
        patches, values = self._patches, self.values
        self._steps, self._patches = [], []

        def call() -> None:
            for at, key in patches:
                steps[at].x = values[key].data_ptr()
            scratch = ctypes.c_void_p(self._scratch.data_ptr())
            run(steps, ctypes.c_int64(count), ctypes.c_int64(self.threads), scratch, ctypes.c_int64(self._scratch_each))

        self.actions.append(call)

    def _lower(self, node: Node) -> None:
        if node.value is not None:
            self.values[id(node)] = node.value
        elif node.kind == "cat" and any(self._wholes.get(id(part), (None, 0))[0] is node for part in node.inputs):
            self._fill(node)
        elif id(node) in self._fused:
            fused = self._fused[id(node)]
            if fused is not None:
                _EMIT[fused.node.kind](self, fused)
        elif node.kind != "input" and node.kind not in REARRANGEMENTS:
            for one in node.inputs:
                self._need(one)
            self._compute(node)

    def _fill(self, cat: Node) -> None:
        """Copy the parts of a concatenation that were not written in place."""
        whole, first = self._image(cat), 0
        for part in cat.inputs:
            here = whole.part(first, part.shape[1])
            there = self.images.get(id(part))
            if there is None or there.pointer != here.pointer:
                self._emit("activate", Fused(part, part), part, here)
            first += part.shape[1]

    def _compute(self, node: Node) -> None:
        """By torch, but for functions that the steps have: their approximations are not torch's."""
        values, key = self.values, id(node)
        function = ACTIVATIONS.get(node.params[0]) if node.kind == "unary" and len(node.params) == 1 else None

        def compute() -> None:
            inputs = [self.tensor(one) for one in node.inputs]
            values[key] = evaluate.value_of(node, inputs) if function is None else staged(function, inputs[0])

        self._by_torch(compute)

    # --- steps ---------------------------------------------------------------------------------------------------

    def _emit(self, kind: str, fused: Fused, source: Node, target: Image | None = None, **fields: Any) -> None:
        x = self._source(source)
        other = None if fused.other is None else self._source(fused.other)
        y = target or self._image(fused.result)
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
        for name, value in fields.items():
            if isinstance(value, torch.Tensor):
                self._kept.append(value)
                value = value.data_ptr()
            numbers[name] = value
        self._steps.append(step(kind, **numbers))

    def _stages(self, fused: Fused) -> dict[str, Any]:
        stages, rows = stages_of(fused)
        self._kept.extend(rows)
        return {"stages": self._array(stages), "stage_count": len(stages)}

    def _array(self, structures: Sequence[ctypes.Structure]) -> int:
        array = (type(structures[0]) * len(structures))(*structures)
        self._arrays.append(array)
        return ctypes.addressof(array)

    def _sums(self, fused: Fused) -> None:
        """A convolution whose sums are rounded between pieces of the inner dimension."""
        node = fused.node
        (sh, sw), (top, left, _, _), (dh, dw), groups, between, scale, narrow = node.params
        weight, _ = _weight_and_bias(node)
        plain = Node("conv", node.inputs, (*node.params[:3], 1), node.shape)
        pieces, whole, paired = pieces_of(groups, weight.shape[1]), len(groups) == 1, None
        even = all(one.first % 2 == one.last % 2 == 0 for one in pieces)
        if even and narrow and not (whole and is_quicker(plain, self.threads)):
            paired = paired_weights(weight, scale, self.threads)
        if whole and paired is None:
            self._conv(Fused(plain, fused.result, fused.chain, fused.other))
            return
        roundings = [Stage(kind=BETWEEN[dtype]) for dtype in between if dtype is not DataType.FLOAT32]
        fields: dict[str, Any] = {
            "kernel_h": weight.shape[2], "kernel_w": weight.shape[3], "top": top, "left": left, "stride_h": sh,
            "stride_w": sw, "dilation_h": dh, "dilation_w": dw, "bias": padded_bias(None, node.shape[1]),
            "pieces": self._array(pieces), "piece_count": len(pieces), "between_count": len(roundings),
        }  # fmt: skip
        if roundings:
            fields["between"] = self._array(roundings)
        if paired is None:
            self._emit("convolution", fused, node.source, weights=direct_weights(weight, self.threads), **fields)
            return
        for one in pieces:
            one.first, one.last = one.first // 2, one.last // 2
        pairs = self._paired(node.source)
        fields |= {"pieces": self._array(pieces), "paired": 1, "scale": scale, "weights": paired}
        fields |= {"x": pairs.pointer, "x_pixel": pairs.pixel, "channels": weight.shape[1] // 2}
        self._emit("convolution", fused, node.source, **fields)

    def _paired(self, node: Node) -> Image:
        """The image with two neighbouring channels in the place of one number."""
        if id(node) not in self._pairs:
            x, (n, c, h, w) = self._source(node), node.shape
            y = self._pool.image((n, c // 2, h, w), self._last_use[id(node)])
            numbers = {"batch": n, "height": h, "width": w, "channels": c // 2, "x_pixel": x.pixel, "y_pixel": y.pixel}
            self._steps.append(step("pair", x=x.pointer, y=y.pointer, **numbers))
            self._pairs[id(node)] = y
        return self._pairs[id(node)]

    def _walk(self, fused: Fused) -> None:
        self._emit("walk", fused, fused.node.source, a=fused.node.params[0])

    def _conv(self, fused: Fused) -> None:
        node = fused.node
        (sh, sw), (top, left, _, _), (dh, dw), groups = node.params
        weight, bias = _weight_and_bias(node)
        kh, kw = weight.shape[2:]
        window: dict[str, Any] = {
            "kernel_h": kh, "kernel_w": kw, "stride_h": sh, "stride_w": sw, "top": top, "left": left, "dilation_h": dh,
            "dilation_w": dw, "bias": padded_bias(bias, node.shape[1]),
        }  # fmt: skip
        if groups > 1:
            weights = weight.reshape(weight.shape[0], -1).t().float().contiguous()
            self._emit("depthwise", fused, node.source, weights=weights, **window)
            return
        if (kh, kw, sh, sw) == (1, 1, 1, 1) and not any(node.params[1]):  # all pixels in one row
            pixels = node.shape[0] * node.shape[2] * node.shape[3]
            window |= {"batch": 1, "height": 1, "width": pixels, "out_height": 1, "out_width": pixels}
        if is_quicker(node, self.threads):
            tiles, scratch = tiles_at_once(node, self.threads)
            self._scratch_each = max(self._scratch_each, scratch)
            self._emit(
                "winograd", fused, node.source, weights=winograd_weights(weight, self.threads), tiles=tiles, **window
            )
        else:
            self._emit("convolution", fused, node.source, weights=direct_weights(weight, self.threads), **window)

    def _conv_transpose(self, fused: Fused) -> None:
        """Every place of the kernel is a 1x1 convolution to every so manieth pixel."""
        node = fused.node
        weight, bias = _weight_and_bias(node)
        sh, sw = node.params[0]
        image = self._image(fused.result)
        row = image.pixel * node.shape[3]
        for dy in range(sh):
            for dx in range(sw):
                place = weight[:, :, dy : dy + 1, dx : dx + 1].transpose(0, 1)
                self._emit(
                    "convolution", fused, node.source, image, weights=direct_weights(place, self.threads),
                    bias=padded_bias(bias, node.shape[1]), y=image.pointer + 4 * (dy * row + dx * image.pixel),
                    y_row=sh * row, y_pixel=sw * image.pixel, out_height=node.source.shape[2],
                    out_width=node.source.shape[3],
                )  # fmt: skip

    def _pool_step(self, fused: Fused) -> None:
        node = fused.node
        (kh, kw), (sh, sw), (top, left, _, _), extra = node.params
        window = {"kernel_h": kh, "kernel_w": kw, "stride_h": sh, "stride_w": sw, "top": top, "left": left}
        if node.kind == "avg_pool":
            self._emit("average_pool", fused, node.source, count_padding=int(extra[0]), **window)
        else:
            self._emit("max_pool", fused, node.source, dilation_h=extra[0], dilation_w=extra[1], **window)

    def _repeat(self, fused: Fused) -> None:
        _, _, down, across = fused.node.params[0]
        self._emit("upsample", fused, fused.node.source, stride_h=down, stride_w=across)

    def _elementwise(self, fused: Fused) -> None:
        self._emit("activate", fused, images_of(fused.node)[0])

    def _mean(self, fused: Fused) -> None:
        self._emit("mean", fused, fused.node.source)


_EMIT: dict[str, Callable[[Lowering, Fused], None]] = {
    "conv": Lowering._conv,
    "conv_transpose": Lowering._conv_transpose,
    "max_pool": Lowering._pool_step,
    "avg_pool": Lowering._pool_step,
    "repeat": Lowering._repeat,
    "unary": Lowering._elementwise,
    "binary": Lowering._elementwise,
    "blocks": Lowering._elementwise,
    "sums": Lowering._sums,
    "walk": Lowering._walk,
    "reduce": Lowering._mean,
}


def _weight_and_bias(node: Node) -> tuple[torch.Tensor, torch.Tensor | None]:
    weight = node.inputs[1].value
    assert weight is not None
    return weight, node.inputs[2].value if len(node.inputs) > 2 else None
