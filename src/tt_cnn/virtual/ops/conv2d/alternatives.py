# SPDX-License-Identifier: Apache-2.0
"""Other forms of a convolution, the mildest first: those that need less L1, and those that may take less time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tt_cnn.virtual.ops.conv2d.config import Settings
from tt_cnn.virtual.ops.conv2d.problem import Convolution, HostOperand
from tt_cnn.virtual.ops.conv2d.program import ConvProgram
from tt_cnn.virtual.ops.operation import Call
from tt_cnn.virtual.ops.sliding_window.parallel import BLOCK, HEIGHT, WIDTH
from tt_cnn.virtual.ops.sliding_window.slice_config import SliceTypeEnum, Slicing
from tt_cnn.virtual.planning.alternatives import EITHER, MEASURE, ROOM, TIME, Alternative, CallSite, Purpose
from tt_cnn.virtual.types.enums import DataType, Layout, MathFidelity
from tt_cnn.virtual.types.geometry import TILE_SIZE, Shape
from tt_cnn.virtual.types.memory_config import DRAM_MEMORY_CONFIG
from tt_cnn.virtual.types.tensor_spec import Spec

_BLOCK_HEIGHTS = (512, 256, 128, 64, 32)
_SLICES = (2, 4, 8, 16, 32)
_SHARDED = (HEIGHT, BLOCK, WIDTH)
_DOUBLE_BUFFERS = ("enable_act_double_buffer", "enable_weights_double_buffer")
_LARGE = (DataType.BFLOAT16, DataType.FLOAT32)


def describe(call: Call, name: str) -> str:
    """`conv2d (1x480x640x64 -> 64, 3x3, height sharded)`."""
    conv: Convolution = call.attributes["conv"]
    layout = call.attributes["settings"].shard_layout
    sharding = "sharded automatically" if layout is None else layout.name.lower().replace("_", " ")
    pixels = f"{conv.batch}x{conv.height}x{conv.width}x{conv.in_channels}"
    return f"{name} ({pixels} -> {conv.out_channels}, {conv.kernel[0]}x{conv.kernel[1]}, {sharding})"


def from_host(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Weights and bias as they come when a model is made.

    Another configuration wants them in another form, which those that lie on the card already do not have.
    """
    conv: Convolution = attributes["conv"]
    outer, inner = conv.out_channels, conv.in_channels
    if conv.transposed:
        outer, inner = inner, outer
    weight, bias = Shape((outer, inner // conv.groups, *conv.kernel)), Shape((1, 1, 1, conv.out_channels))
    return {
        "weight": _on_host(weight),
        "bias": None if attributes["bias"] is None else _on_host(bias),
    }


def _on_host(shape: Shape) -> HostOperand:
    return HostOperand(Spec(shape, DataType.FLOAT32, Layout.ROW_MAJOR))


def alternatives(site: CallSite) -> Iterator[Alternative]:
    rules = _Rules(site)
    for rule in (
        rules.deallocation,
        rules.single_buffers,
        rules.smaller_blocks,
        rules.larger_blocks,
        rules.double_buffers,
        rules.sharding,
        rules.shards_as_given,
        rules.slices,
        rules.weights,
        rules.fidelity,
        rules.output_format,
        rules.tables,
    ):
        yield from rule()


class _Rules:
    """Of one call."""

    def __init__(self, site: CallSite) -> None:
        self.site = site
        self.settings: Settings = site.attributes["settings"]
        source = site.attributes["input"]
        self.source = site.specs[source] if isinstance(source, int) else None

    def _but(
        self,
        kind: str,
        words: str,
        changes: Mapping[str, Any],
        purposes: frozenset[Purpose] = ROOM,
        caution: str = "",
    ) -> Alternative:
        attributes = {"settings": self.settings.but(**changes), **from_host(self.site.attributes)}
        return Alternative(kind, words, attributes, changes, purposes, caution=caution)

    def deallocation(self) -> Iterator[Alternative]:
        if self.source is not None and self.source.memory_config.is_l1() and not self.settings.deallocate_activation:
            yield self._but("deallocation", "deallocate_activation=True", {"deallocate_activation": True})

    def single_buffers(self) -> Iterator[Alternative]:
        for name in _DOUBLE_BUFFERS:
            if getattr(self.settings, name):
                yield self._but(name, f"{name}=False", {name: False})

    def double_buffers(self) -> Iterator[Alternative]:
        off = [name for name in _DOUBLE_BUFFERS if not getattr(self.settings, name)]
        for names in [off] if len(off) < 2 else [off, off[:1], off[1:]]:
            if names:
                words = " and ".join(f"{name}=True" for name in names)
                yield self._but("double buffering", words, dict.fromkeys(names, True), TIME)

    def smaller_blocks(self) -> Iterator[Alternative]:
        now = self.settings.act_block_h_override
        for height in _BLOCK_HEIGHTS:
            if not now or height < now:
                words = f"act_block_h_override={height}"
                yield self._but("smaller blocks", words, {"act_block_h_override": height})

    def larger_blocks(self) -> Iterator[Alternative]:
        """Of activations: those that divide what a core computes."""
        program = next((step.program for step in self.site.steps if isinstance(step.program, ConvProgram)), None)
        if program is None:  # refused, or a matmul
            return
        now, rows = program.blocks.act_h, program.blocks.out_h
        for height in (TILE_SIZE * n for n in range(now + 1, rows + 1) if rows % n == 0):
            change = {"act_block_h_override": height}
            yield self._but("block height", f"act_block_h_override={height}", change, TIME)

    def sharding(self) -> Iterator[Alternative]:
        """Another layout, as the input comes or with a reshard before it."""
        now = self.settings
        free: dict[str, Any] = {"act_block_h_override": 0}
        if now.override_sharding_config:
            free |= {"override_sharding_config": False, "core_grid": None}
        for layout in _SHARDED:
            for reshards in (now.reshard_if_not_optimal,) if now.reshard_if_not_optimal else (False, True):
                if layout is now.shard_layout and reshards is now.reshard_if_not_optimal:
                    continue
                words = f"shard_layout=ttnn.TensorMemoryLayout.{layout.name}"
                changes = {"shard_layout": layout, **free}
                if reshards and not now.reshard_if_not_optimal:
                    words += ", reshard_if_not_optimal=True"
                    changes["reshard_if_not_optimal"] = True
                yield self._but("shard_layout", words, changes, EITHER)

    def shards_as_given(self) -> Iterator[Alternative]:
        """No reshard: the layout of the input's own shards."""
        source = self.source
        if source is None or not source.is_sharded or not source.memory_config.is_l1():
            return
        if self.settings.reshard_if_not_optimal:
            layout = source.memory_config.memory_layout
            words = f"reshard_if_not_optimal=False, shard_layout=ttnn.TensorMemoryLayout.{layout.name}"
            changes = {"shard_layout": layout, "reshard_if_not_optimal": False, "act_block_h_override": 0}
            yield self._but("shards as given", words, changes, TIME)

    def slices(self) -> Iterator[Alternative]:
        slicing: Slicing | None = self.site.attributes["slicing"]
        if slicing is None and self.source is not None and self.source.memory_config.is_l1():
            source = self.source
            moved = {self.site.attributes["input"]: Spec(source.shape, source.dtype, source.layout, DRAM_MEMORY_CONFIG)}
            words, weights = "its input in DRAM: TT-NN runs it in slices", from_host(self.site.attributes)
            yield Alternative("input", words, weights, {}, specs=moved)
        if slicing is None or slicing.kind is not SliceTypeEnum.L1Full:
            return
        for count in _SLICES:
            heights = Slicing(SliceTypeEnum.DRAMSliceHeight, count)
            words = f"slice_config height, {count} slices"
            yield Alternative("slice_config", words, {"slicing": heights}, {"slice_config": heights})
        automatic = {"shard_layout": None, "act_block_h_override": 0}
        yield Alternative(
            "automatic",
            "no slice_config, no shard_layout: TT-NN chooses",
            {"slicing": None, "settings": self.settings.but(**automatic)},
            {"slice_config": None, **automatic},
        )

    def weights(self) -> Iterator[Alternative]:
        weight = self.site.attributes["weight"]
        given = weight.spec.dtype if isinstance(weight, HostOperand) else self.site.specs[weight].dtype
        if (self.settings.weights_dtype or given) not in _LARGE:
            return
        smaller, words = {"weights_dtype": DataType.BFLOAT8_B}, "weights_dtype=ttnn.bfloat8_b"
        yield self._but("weights", words, smaller, EITHER, MEASURE)
        if self.settings.enable_weights_double_buffer:
            once = {**smaller, "enable_weights_double_buffer": False}
            yield self._but("weights", f"{words}, enable_weights_double_buffer=False", once, ROOM, MEASURE)

    def fidelity(self) -> Iterator[Alternative]:
        compute = self.site.attributes["compute"]
        if compute.fidelity is not MathFidelity.LoFi:
            yield Alternative(
                "fidelity",
                "math_fidelity=ttnn.MathFidelity.LoFi",
                {"compute": compute._replace(fidelity=MathFidelity.LoFi), **from_host(self.site.attributes)},
                {"math_fidelity": MathFidelity.LoFi},
                TIME,
                caution=MEASURE,
            )

    def output_format(self) -> Iterator[Alternative]:
        if self.site.attributes["dtype"] is not DataType.BFLOAT8_B and self.settings.output_layout is Layout.TILE:
            smaller = {"dtype": DataType.BFLOAT8_B}
            yield Alternative("dtype", "dtype=ttnn.bfloat8_b", smaller, smaller, caution=MEASURE)

    def tables(self) -> Iterator[Alternative]:
        """Those of the sliding window, where L1_SMALL has no room for them."""
        if not self.settings.config_tensors_in_dram:
            yield self._but("tables", "config_tensors_in_dram=True", {"config_tensors_in_dram": True})
