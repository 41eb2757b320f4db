# SPDX-License-Identifier: Apache-2.0
"""The steps of nodes: one function a kind, by which a node and what was fused with it become steps of the library."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch

from tt_cnn.virtual.engines.replay.graph import Node
from tt_cnn.virtual.engines.replay.kernels.endings import pieces_of
from tt_cnn.virtual.engines.replay.kernels.fusion import Fused, images_of
from tt_cnn.virtual.engines.replay.kernels.instructions import (
    BETWEEN,
    Stage,
    direct_weights,
    padded_bias,
    winograd_weights,
)
from tt_cnn.virtual.engines.replay.kernels.memory import Image
from tt_cnn.virtual.engines.replay.kernels.pairs import paired_weights
from tt_cnn.virtual.engines.replay.kernels.winograd import is_quicker, tiles_at_once
from tt_cnn.virtual.types.enums import DataType


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
    if even and narrow and not (whole and is_quicker(plain, lowering.threads)):
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


def conv(lowering: StepList, fused: Fused) -> None:
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
        lowering.emit("depthwise", fused, node.source, weights=weights, **window)
        return
    if (kh, kw, sh, sw) == (1, 1, 1, 1) and not any(node.params[1]):  # all pixels in one row
        pixels = node.shape[0] * node.shape[2] * node.shape[3]
        window |= {"batch": 1, "height": 1, "width": pixels, "out_height": 1, "out_width": pixels}
    if is_quicker(node, lowering.threads):
        tiles, scratch = tiles_at_once(node, lowering.threads)
        lowering.reserve_scratch(scratch)
        lowering.emit(
            "winograd", fused, node.source, weights=winograd_weights(weight, lowering.threads), tiles=tiles, **window
        )
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


def pool(lowering: StepList, fused: Fused) -> None:
    node = fused.node
    (kh, kw), (sh, sw), (top, left, _, _), extra = node.params
    window = {"kernel_h": kh, "kernel_w": kw, "stride_h": sh, "stride_w": sw, "top": top, "left": left}
    if node.kind == "avg_pool":
        lowering.emit("average_pool", fused, node.source, count_padding=int(extra[0]), **window)
    else:
        lowering.emit("max_pool", fused, node.source, dilation_h=extra[0], dilation_w=extra[1], **window)


def repeat(lowering: StepList, fused: Fused) -> None:
    _, _, down, across = fused.node.params[0]
    lowering.emit("upsample", fused, fused.node.source, stride_h=down, stride_w=across)


def elementwise(lowering: StepList, fused: Fused) -> None:
    lowering.emit("activate", fused, images_of(fused.node)[0])


def mean(lowering: StepList, fused: Fused) -> None:
    lowering.emit("mean", fused, fused.node.source)


def _weight_and_bias(node: Node) -> tuple[torch.Tensor, torch.Tensor | None]:
    weight = node.inputs[1].value
    assert weight is not None
    return weight, node.inputs[2].value if len(node.inputs) > 2 else None


EMIT: dict[str, Callable[[StepList, Fused], None]] = {
    "conv": conv,
    "conv_transpose": conv_transpose,
    "max_pool": pool,
    "avg_pool": pool,
    "repeat": repeat,
    "unary": elementwise,
    "binary": elementwise,
    "blocks": elementwise,
    "sums": sums,
    "walk": walk,
    "reduce": mean,
}
