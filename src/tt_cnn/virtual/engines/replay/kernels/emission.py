# SPDX-License-Identifier: Apache-2.0
"""The steps of nodes: one function a kind, by which a node and what was fused with it become steps of the library."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch

from tt_cnn.virtual.engines.replay.graph import Node
from tt_cnn.virtual.engines.replay.kernels.bytes import TOGETHER, Steps, packed_weights, steps_of, sums_of
from tt_cnn.virtual.engines.replay.kernels.endings import pieces_of, simple_end
from tt_cnn.virtual.engines.replay.kernels.fusion import Fused, holds_bytes, images_of
from tt_cnn.virtual.engines.replay.kernels.instructions import (
    ACTIVATIONS,
    BETWEEN,
    LANES,
    Stage,
    direct_weights,
    padded_bias,
)
from tt_cnn.virtual.engines.replay.kernels.memory import Image
from tt_cnn.virtual.engines.replay.kernels.pairs import paired_weights
from tt_cnn.virtual.engines.replay.kernels.winograd import quickest_tile, tiles_at_once, winograd_weights
from tt_cnn.virtual.types.enums import DataType

NONE = 0
_BOUNDS: dict[int, Callable[[dict[str, Any]], tuple[float, float]]] = {
    NONE: lambda end: (-math.inf, math.inf),
    ACTIVATIONS["Relu"]: lambda end: (0.0, math.inf),
    ACTIVATIONS["clip"]: lambda end: (end["a"], end["b"]),
}
"""Activations that are bounds, and which."""
MOST_BY_ROWS = 64
"""Bytes of a row of a window that are taken as one run, put together where it reaches beyond the image."""


class StepList(Protocol):
    """What the steps are put into."""

    threads: int

    def array(self, structures: Sequence[ctypes.Structure]) -> int: ...

    def emit(self, kind: str, fused: Fused, source: Node, target: Image | None = None, **fields: Any) -> None: ...

    def image(self, node: Node) -> Image: ...

    def paired(self, node: Node) -> Image: ...

    def reserve_scratch(self, floats: int) -> None: ...


def sums(lowering: StepList, fused: Fused) -> None:
    """A convolution whose sums are rounded between pieces of the inner dimension."""
    node = fused.node
    (sh, sw), (top, left, _, _), (dh, dw), groups, between, scale, narrow = node.params
    weight, _ = _weight_and_bias(node)
    plain = Node("conv", node.inputs, (*node.params[:3], 1), node.shape)
    pieces, whole, paired = pieces_of(groups, weight.shape[1]), len(groups) == 1, None
    even = all(one.first % 2 == one.last % 2 == 0 for one in pieces)
    if even and narrow and not (whole and quickest_tile(plain)):
        paired = paired_weights(weight, scale, lowering.threads)
    if whole and paired is None:
        conv(lowering, Fused(plain, fused.result, fused.chain, fused.other))
        return
    roundings = [Stage(kind=BETWEEN[dtype]) for dtype in between if dtype is not DataType.FLOAT32]
    fields: dict[str, Any] = {
        "kernel_h": weight.shape[2], "kernel_w": weight.shape[3], "top": top, "left": left, "stride_h": sh,
        "stride_w": sw, "dilation_h": dh, "dilation_w": dw, "bias": padded_bias(None, node.shape[1]),
        "pieces": lowering.array(pieces), "piece_count": len(pieces), "between_count": len(roundings),
    }  # fmt: skip
    if roundings:
        fields["between"] = lowering.array(roundings)
    if paired is None:
        lowering.emit("convolution", fused, node.source, weights=direct_weights(weight, lowering.threads), **fields)
        return
    for one in pieces:
        one.first, one.last = one.first // 2, one.last // 2
    pairs = lowering.paired(node.source)
    fields |= {"pieces": lowering.array(pieces), "paired": 1, "scale": scale, "weights": paired}
    fields |= {"x": pairs.pointer, "x_pixel": pairs.pixel, "channels": weight.shape[1] // 2}
    lowering.emit("convolution", fused, node.source, **fields)


def walk(lowering: StepList, fused: Fused) -> None:
    lowering.emit("walk", fused, fused.node.source, a=fused.node.params[0])


def _window(node: Node, weight: torch.Tensor) -> dict[str, Any]:
    (sh, sw), (top, left, _, _), (dh, dw), groups = node.params
    kh, kw = weight.shape[2:]
    window: dict[str, Any] = {
        "kernel_h": kh, "kernel_w": kw, "stride_h": sh, "stride_w": sw, "top": top, "left": left, "dilation_h": dh,
        "dilation_w": dw,
    }  # fmt: skip
    if (kh, kw, sh, sw, groups) == (1, 1, 1, 1, 1) and not any(node.params[1]):  # all pixels in one row
        pixels = node.shape[0] * node.shape[2] * node.shape[3]
        window |= {"batch": 1, "height": 1, "width": pixels, "out_height": 1, "out_width": pixels}
    return window


def _rows(weight: torch.Tensor) -> torch.Tensor:
    """A depthwise kernel as one row of channels for each place, in whole vectors."""
    rows = weight.reshape(weight.shape[0], -1).t().float()
    return torch.nn.functional.pad(rows, (0, -weight.shape[0] % LANES)).contiguous()


def conv(lowering: StepList, fused: Fused) -> None:
    node = fused.node
    weight, bias = _weight_and_bias(node)
    window = _window(node, weight) | {"bias": padded_bias(bias, node.shape[1])}
    if node.params[3] > 1:
        lowering.emit("depthwise", fused, node.source, weights=_rows(weight), **window)
        return
    tile = quickest_tile(node)
    if tile is not None:
        tiles, scratch = tiles_at_once(node, tile, lowering.threads)
        lowering.reserve_scratch(scratch)
        window |= {"tile_side": tile.side, "tiles": tiles}
        packed = winograd_weights(weight, tile, lowering.threads)
        lowering.emit("winograd", fused, node.source, weights=packed, **window)
    else:
        lowering.emit("convolution", fused, node.source, weights=direct_weights(weight, lowering.threads), **window)


def conv_transpose(lowering: StepList, fused: Fused) -> None:
    """Every place of the kernel is a 1x1 convolution to every so manieth pixel."""
    node = fused.node
    weight, bias = _weight_and_bias(node)
    sh, sw = node.params[0]
    image = lowering.image(fused.result)
    row = image.pixel * node.shape[3]
    for dy in range(sh):
        for dx in range(sw):
            place = weight[:, :, dy : dy + 1, dx : dx + 1].transpose(0, 1)
            lowering.emit(
                "convolution", fused, node.source, image, weights=direct_weights(place, lowering.threads),
                bias=padded_bias(bias, node.shape[1]), y=image.pointer + 4 * (dy * row + dx * image.pixel),
                y_row=sh * row, y_pixel=sw * image.pixel, out_height=node.source.shape[2],
                out_width=node.source.shape[3],
            )  # fmt: skip


def byte_conv(lowering: StepList, fused: Fused) -> None:
    node = fused.node
    weight = node.inputs[1].value
    assert weight is not None
    fields = _byte_sums(fused, weight) | _window(node, weight)
    if node.params[3] > 1:
        lowering.emit("byte_depthwise", fused, node.source, weights=_rows(weight), **fields)
        return
    channels, width = weight.shape[1], weight.shape[3]
    few = width > 1 and node.params[2][1] == 1 and channels * width <= MOST_BY_ROWS and channels % TOGETHER != 0
    by_rows = few and lowering.image(node.source).pixel == channels
    fields |= {"weights": packed_weights(weight, by_rows), "by_rows": int(by_rows)}
    lowering.emit("byte_convolution", fused, node.source, **fields)


def byte_conv_transpose(lowering: StepList, fused: Fused) -> None:
    node, image = fused.node, lowering.image(fused.result)
    weight = node.inputs[1].value
    assert weight is not None
    sh, sw = node.params[0]
    row, size = image.pixel * node.shape[3], image.buffer.itemsize
    for dy in range(sh):
        for dx in range(sw):
            place = weight[:, :, dy : dy + 1, dx : dx + 1].transpose(0, 1)
            lowering.emit(
                "byte_convolution", fused, node.source, image, weights=packed_weights(place),
                **_byte_sums(fused, place), y=image.pointer + size * (dy * row + dx * image.pixel),
                y_row=sh * row, y_pixel=sw * image.pixel, out_height=node.source.shape[2],
                out_width=node.source.shape[3],
            )  # fmt: skip


def _byte_sums(fused: Fused, weight: torch.Tensor) -> dict[str, Any]:
    """What becomes of sums of bytes: in steps of the result at once, where bytes come out and little is in between."""
    _, _, scales, *bias = (one.value for one in fused.node.inputs)
    assert scales is not None
    source, end, added = steps_of(fused.node.source), simple_end(fused), fused.other
    row = bias[0] if bias else None
    activation = None if end is None else end.get("activation", NONE)
    in_order = added is None or fused.other_first or activation == NONE
    if not (holds_bytes(fused.result) and activation in _BOUNDS and in_order):
        sums = sums_of(weight, scales, row, source)
        return {"offsets": sums.offsets, "scales": sums.scales, "bias": sums.bias}
    assert end is not None and activation is not None
    to = steps_of(fused.result)
    other = Steps(1.0, 0) if added is None or not holds_bytes(added) else steps_of(added)
    sums = sums_of(weight, scales, row, source, to.scale, to.zero - other.zero * other.scale / to.scale)
    low, high = _BOUNDS[activation](end)
    return {
        "offsets": sums.offsets, "scales": sums.scales, "bias": sums.bias, "in_steps": 1,
        "other_scale": other.scale / to.scale, "a": max(0.0, low / to.scale + to.zero),
        "b": min(255.0, high / to.scale + to.zero),
    }  # fmt: skip


def byte_pixels(lowering: StepList, fused: Fused) -> None:
    lowering.emit("byte_pixels", fused, fused.node.source)


def pool(lowering: StepList, fused: Fused) -> None:
    node = fused.node
    (kh, kw), (sh, sw), (top, left, _, _), extra = node.params
    window = {"kernel_h": kh, "kernel_w": kw, "stride_h": sh, "stride_w": sw, "top": top, "left": left}
    if node.kind == "avg_pool":
        lowering.emit("average_pool", fused, node.source, count_padding=int(extra[0]), **window)
    else:
        kind = "byte_max_pool" if holds_bytes(node) else "max_pool"
        lowering.emit(kind, fused, node.source, dilation_h=extra[0], dilation_w=extra[1], **window)


def repeat(lowering: StepList, fused: Fused) -> None:
    _, _, down, across = fused.node.params[0]
    kind = "byte_pixels" if holds_bytes(fused.node) else "upsample"
    lowering.emit(kind, fused, fused.node.source, stride_h=down, stride_w=across)


def elementwise(lowering: StepList, fused: Fused) -> None:
    source = images_of(fused.node)[0]
    bytes_in_it = any(one is not None and holds_bytes(one) for one in (source, fused.other, fused.result))
    lowering.emit("byte_pixels" if bytes_in_it else "activate", fused, source)


def reduce(lowering: StepList, fused: Fused) -> None:
    lowering.emit({"mean": "mean", "amax": "largest"}[fused.node.params[0]], fused, fused.node.source)


def _weight_and_bias(node: Node) -> tuple[torch.Tensor, torch.Tensor | None]:
    weight = node.inputs[1].value
    assert weight is not None
    return weight, node.inputs[2].value if len(node.inputs) > 2 else None


EMIT: dict[str, Callable[[StepList, Fused], None]] = {
    "conv": conv,
    "conv_transpose": conv_transpose,
    "byte_conv": byte_conv,
    "byte_conv_transpose": byte_conv_transpose,
    "quantize": byte_pixels,
    "dequantize": byte_pixels,
    "max_pool": pool,
    "avg_pool": pool,
    "repeat": repeat,
    "unary": elementwise,
    "binary": elementwise,
    "blocks": elementwise,
    "sums": sums,
    "walk": walk,
    "reduce": reduce,
}
