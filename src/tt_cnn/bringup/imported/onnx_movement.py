# SPDX-License-Identifier: Apache-2.0
"""Shapes, joins, cuts and resizing of ONNX as torch's."""

from __future__ import annotations

import numpy as np

from tt_cnn.bringup.imported.onnx_node import OnnxNode, Refused, converts

_END = 2**31
_PADS = {"constant": "constant", "reflect": "reflect", "edge": "replicate"}


@converts("Identity", "Dropout")
def same(node: OnnxNode) -> None:
    node.same_as(node.value())


@converts("Reshape")
def reshape(node: OnnxNode) -> None:
    sizes, own = node.numbers(1, "the shape"), node.shape()
    if not node.get("allowzero", 0):
        sizes = [own[axis] if size == 0 else size for axis, size in enumerate(sizes)]
    node.emit("aten.reshape.default", node.value(), sizes)


@converts("Flatten")
def flatten(node: OnnxNode) -> None:
    own, axis = node.shape(), node.get("axis", 1)
    axis = axis % len(own) if axis < 0 else axis
    if axis == 1:
        node.emit("aten.flatten.using_ints", node.value(), 1)
        return
    first = 1
    for size in own[:axis]:
        first *= size
    node.emit("aten.reshape.default", node.value(), [first, -1])


@converts("Transpose")
def transpose(node: OnnxNode) -> None:
    dims = node.get("perm", list(reversed(range(len(node.shape())))))
    node.emit("aten.permute.default", node.value(), dims)


@converts("Squeeze")
def squeeze(node: OnnxNode) -> None:
    own = node.shape()
    axes = node.axes()
    dims = [axis % len(own) for axis in axes] if axes else [axis for axis, size in enumerate(own) if size == 1]
    node.emit("aten.squeeze.dims", node.value(), dims)


@converts("Unsqueeze")
def unsqueeze(node: OnnxNode) -> None:
    axes = node.axes() or []
    rank = len(node.shape()) + len(axes)
    value = node.value()
    for axis in sorted(axis % rank for axis in axes):
        value = node.between("aten.unsqueeze.default", value, axis)
    node.same_as(value)


@converts("Expand")
def expand(node: OnnxNode) -> None:
    sizes, own = node.numbers(1, "the shape"), node.shape()
    lacking = max(0, len(own) - len(sizes))
    sizes = [1] * lacking + sizes
    shift = len(sizes) - len(own)
    full = [own[axis - shift] if size == 1 and axis >= shift else size for axis, size in enumerate(sizes)]
    node.emit("aten.expand.default", node.value(), full)


@converts("Tile")
def tile(node: OnnxNode) -> None:
    node.emit("aten.repeat.default", node.value(), node.numbers(1, "repeats"))


@converts("Concat")
def concat(node: OnnxNode) -> None:
    node.emit("aten.cat.default", [node.value(index) for index in range(len(node.inputs))], node.attributes["axis"])


@converts("Split")
def split(node: OnnxNode) -> None:
    axis = node.get("axis", 0)
    size, count = node.shape()[axis], len(node.outputs)
    sizes = node.numbers(1, "the sizes") if node.has(1) else None
    if sizes is None:
        count = node.get("num_outputs", count)
        part = -(-size // count)
        sizes = [part] * (count - 1) + [size - part * (count - 1)]
    names = [name or f"{node.outputs[0]}#{index}" for index, name in enumerate(node.outputs)]
    if len(set(sizes)) == 1 and len(sizes) > 1:
        node.emit("aten.chunk.default", node.value(), len(sizes), axis, results=names)
    else:
        node.emit("aten.split_with_sizes.default", node.value(), sizes, axis, results=names)


@converts("Slice")
def slice_(node: OnnxNode) -> None:
    starts, ends = node.numbers(1, "starts"), node.numbers(2, "ends")
    own = node.shape()
    axes = node.numbers(3, "axes") if node.has(3) else list(range(len(starts)))
    steps = node.numbers(4, "steps") if node.has(4) else [1] * len(starts)
    if any(step < 1 for step in steps):
        raise Refused("steps backwards")
    value = node.value()
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        axis %= len(own)
        if start <= -own[axis]:
            start = 0
        if start == 0 and end >= own[axis] and step == 1:
            continue
        far = 2**63 - 1 if end > _END else max(end, -own[axis])
        value = node.between("aten.slice.Tensor", value, axis, start, far, step)
    node.same_as(value)


@converts("Gather")
def gather(node: OnnxNode) -> None:
    indices = node.known(1, "the index")
    axis = node.get("axis", 0) % len(node.shape())
    if indices.ndim == 0:
        node.emit("aten.select.int", node.value(), axis, int(indices))
        return
    own = node.shape()
    flat = np.where(indices < 0, indices + own[axis], indices).reshape(-1).astype(np.int64)
    inside = f"{node.scope[-1].path}." if node.scope else ""
    index = node.hold_as(f"{inside}index_{len(node.reader.held)}", flat, buffer=True)
    shape = [*own[:axis], *indices.shape, *own[axis + 1 :]]
    if indices.ndim == 1:
        node.emit("aten.index_select.default", node.value(), axis, index)
        return
    node.emit("aten.reshape.default", node.between("aten.index_select.default", node.value(), axis, index), shape)


@converts("Pad")
def pad(node: OnnxNode) -> None:
    mode, own = node.get("mode", "constant"), node.shape()
    if mode not in _PADS:
        raise Refused(f"mode {mode}")
    given = node.numbers(1, "the padding")
    axes = node.numbers(3, "axes") if node.has(3) else list(range(len(own)))
    before, behind = [0] * len(own), [0] * len(own)
    for index, axis in enumerate(axes):
        before[axis], behind[axis] = given[index], given[index + len(axes)]
    first = next((axis for axis in range(len(own)) if before[axis] or behind[axis]), None)
    if first is None:
        node.same_as(node.value())
        return
    if mode != "constant":
        first = 2  # torch wants all dimensions of the image
        if any(before[:2]) or any(behind[:2]):
            raise Refused(f"mode {mode} of channels or images")
    sides = [side for axis in range(len(own) - 1, first - 1, -1) for side in (before[axis], behind[axis])]
    if mode != "constant":
        node.emit("aten.pad.default", node.value(), sides, _PADS[mode])
        return
    number = float(node.known(2, "the value").reshape(-1)[0]) if node.has(2) else 0.0
    node.emit("aten.pad.default", node.value(), sides, "constant", number)


@converts("DepthToSpace")
def depth_to_space(node: OnnxNode) -> None:
    block = node.attributes["blocksize"]
    if node.get("mode", "DCR") == "CRD":
        node.emit("aten.pixel_shuffle.default", node.value(), block)
        return
    images, channels, height, width = node.shape()
    parts = [images, block, block, channels // block**2, height, width]
    apart = node.between("aten.reshape.default", node.value(), parts)
    moved = node.between("aten.permute.default", apart, [0, 3, 4, 1, 5, 2])
    node.emit("aten.reshape.default", moved, [images, channels // block**2, height * block, width * block])


@converts("SpaceToDepth")
def space_to_depth(node: OnnxNode) -> None:
    block = node.attributes["blocksize"]
    images, channels, height, width = node.shape()
    parts = [images, channels, height // block, block, width // block, block]
    apart = node.between("aten.reshape.default", node.value(), parts)
    moved = node.between("aten.permute.default", apart, [0, 3, 5, 1, 2, 4])
    node.emit("aten.reshape.default", moved, [images, channels * block**2, height // block, width // block])


@converts("Einsum")
def einsum(node: OnnxNode) -> None:
    values = [node.value(index) for index in range(len(node.inputs))]
    node.emit("aten.einsum.default", node.attributes["equation"], values)


@converts("Resize")
def resize(node: OnnxNode) -> None:
    own = node.shape()
    sizes = _sizes(node, own)
    if len(own) != 4 or sizes[:2] != list(own[:2]):
        raise Refused(f"from {own} to {tuple(sizes)}")
    if node.get("antialias", 0) or node.get("exclude_outside", 0):
        raise Refused("antialias" if node.get("antialias", 0) else "exclude_outside")
    height, width = sizes[2:]
    how = node.get("coordinate_transformation_mode", "half_pixel")
    mode = node.get("mode", "nearest")
    if mode == "nearest":
        _check_nearest(node, how, own, sizes)
        node.emit("aten.upsample_nearest2d.vec", node.value(), [height, width], None)
        return
    smooth = {"linear": "bilinear", "cubic": "bicubic"}.get(mode)
    halves = how == "half_pixel" or (how == "pytorch_half_pixel" and height > 1 and width > 1)
    if smooth is None or not (halves or how == "align_corners"):
        raise Refused(f"mode {mode} with {how}")
    if mode == "cubic" and node.get("cubic_coeff_a", -0.75) != -0.75:
        raise Refused(f"cubic_coeff_a {node.get('cubic_coeff_a')}")
    _check_whole(node, own, sizes)
    node.emit(f"aten.upsample_{smooth}2d.vec", node.value(), [height, width], how == "align_corners", None)


def _sizes(node: OnnxNode, own: tuple[int, ...]) -> list[int]:
    if node.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise Refused("keep_aspect_ratio_policy")
    axes = [axis % len(own) for axis in node.get("axes", range(len(own)))]
    found = list(own)
    if node.has(3):
        given = [float(size) for size in node.numbers(3, "the sizes")]
    else:
        given = [float(each) * own[axis] for each, axis in zip(node.known(2, "scales"), axes, strict=True)]
    for axis, size in zip(axes, given, strict=True):
        found[axis] = int(size + 1e-4)
    return found


def _check_whole(node: OnnxNode, own: tuple[int, ...], sizes: list[int]) -> None:
    """A scale that does not give whole sizes moves the pixels otherwise than the sizes do."""
    if node.has(3) or node.get("coordinate_transformation_mode", "half_pixel") == "align_corners":
        return
    scales = node.known(2, "scales").reshape(-1)[-2:]
    if any(abs(float(scale) * old - new) > 1e-3 for scale, old, new in zip(scales, own[2:], sizes[2:], strict=True)):
        raise Refused("scales that do not give whole sizes")


def _check_nearest(node: OnnxNode, how: str, own: tuple[int, ...], sizes: list[int]) -> None:
    """torch takes floor(i / scale); others agree for whole scales."""
    rounding = node.get("nearest_mode", "round_prefer_floor")
    _check_whole(node, own, sizes)
    if how == "asymmetric" and rounding == "floor":
        return
    whole = all(new % old == 0 for old, new in zip(own[2:], sizes[2:], strict=True))
    largest = max(new // old for old, new in zip(own[2:], sizes[2:], strict=True))
    if whole and how in ("half_pixel", "pytorch_half_pixel") and rounding.startswith("round_prefer"):
        return
    if whole and how == "asymmetric" and rounding == "round_prefer_floor" and largest <= 2:
        return
    raise Refused(f"mode nearest with {how} and {rounding}")
