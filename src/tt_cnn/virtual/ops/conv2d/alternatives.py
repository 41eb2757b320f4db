"""Changes that make a convolution need less L1, the mildest first; errors try them and name those that fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tt_cnn.virtual.devices.advice import Alternative
from tt_cnn.virtual.ops.conv2d.config import Settings
from tt_cnn.virtual.ops.conv2d.problem import Convolution
from tt_cnn.virtual.ops.operation import Call
from tt_cnn.virtual.ops.sliding_window.parallel import BLOCK, HEIGHT, WIDTH
from tt_cnn.virtual.ops.sliding_window.slice_config import SliceTypeEnum, Slicing
from tt_cnn.virtual.types.enums import DataType

_BLOCK_HEIGHTS = (512, 256, 128, 64, 32)
_SLICES = (2, 4, 8, 16, 32)
_SHARDED = (HEIGHT, BLOCK, WIDTH)


def describe(call: Call, name: str) -> str:
    """`conv2d (1x480x640x64 -> 64, 3x3, height sharded)`."""
    conv: Convolution = call.attributes["conv"]
    layout = call.attributes["settings"].shard_layout
    sharding = "sharded automatically" if layout is None else layout.name.lower().replace("_", " ")
    pixels = f"{conv.batch}x{conv.height}x{conv.width}x{conv.in_channels}"
    return f"{name} ({pixels} -> {conv.out_channels}, {conv.kernel[0]}x{conv.kernel[1]}, {sharding})"


def alternatives(call: Call) -> Iterator[Alternative]:
    settings: Settings = call.attributes["settings"]
    slicing: Slicing | None = call.attributes["slicing"]
    source = call.attributes["input"]
    in_l1 = isinstance(source, int) and call.tensors[source].memory_config().is_l1()
    if in_l1 and not settings.deallocate_activation:
        yield _with(settings, "deallocate_activation=True", "", deallocate_activation=True)
    for field in ("enable_act_double_buffer", "enable_weights_double_buffer"):
        if getattr(settings, field):
            yield _with(settings, f"{field}=False", "", **{field: False})
    yield from _in_blocks(settings)
    for layout in _SHARDED:
        if layout is not settings.shard_layout:
            words = f"shard_layout=ttnn.TensorMemoryLayout.{layout.name}"
            yield _with(settings, words, "shard_layout", shard_layout=layout, act_block_h_override=0)
    if slicing is not None and slicing.kind is SliceTypeEnum.L1Full:
        for count in _SLICES:
            changes = {"slicing": Slicing(SliceTypeEnum.DRAMSliceHeight, count)}
            yield Alternative(f"slice_config height, {count} slices", changes, "slice_config")
        automatic = settings.but(shard_layout=None, act_block_h_override=0)
        yield Alternative("no slice_config, no shard_layout: TT-NN chooses", {"slicing": None, "settings": automatic})
    if call.attributes["dtype"] is not DataType.BFLOAT8_B and settings.output_layout.name == "TILE":
        yield Alternative("dtype=ttnn.bfloat8_b", {"dtype": DataType.BFLOAT8_B})


def _in_blocks(settings: Settings) -> Iterator[Alternative]:
    for height in _BLOCK_HEIGHTS:
        if not settings.act_block_h_override or height < settings.act_block_h_override:
            yield _with(settings, f"act_block_h_override={height}", "act_block_h", act_block_h_override=height)


def _with(settings: Settings, words: str, kind: str, **changes: Any) -> Alternative:
    return Alternative(words, {"settings": settings.but(**changes)}, kind)
