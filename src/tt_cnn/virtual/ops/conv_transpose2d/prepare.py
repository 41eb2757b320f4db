# SPDX-License-Identifier: Apache-2.0
"""`ttnn.prepare_conv_transpose2d_weights` and `..._bias`: what a transposed convolution would prepare itself."""

from __future__ import annotations

from dataclasses import replace
from inspect import Parameter
from typing import Any

from torch import Tensor as Values

from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.ops.conv2d.ahead import Announced, Arrangement, arrangement, runs_in_l1
from tt_cnn.virtual.ops.conv2d.auto_shard import Layer
from tt_cnn.virtual.ops.conv2d.config import Op2DSliceConfig, Slicing
from tt_cnn.virtual.ops.conv2d.operands import ConvolutionCall
from tt_cnn.virtual.ops.conv2d.prepare import PrepareConvBias, PrepareConvWeights
from tt_cnn.virtual.ops.conv_transpose2d.numbers import turned
from tt_cnn.virtual.ops.conv_transpose2d.problem import TransposedConvolution
from tt_cnn.virtual.ops.conv_transpose2d.slicing import SlicedTransposed
from tt_cnn.virtual.ops.eltwise.calls import arguments_like
from tt_cnn.virtual.ops.operation import op
from tt_cnn.virtual.ops.sliding_window.slice_config import SliceTypeEnum
from tt_cnn.virtual.ops.sliding_window.slicing import ALONG_HEIGHT, rounding, sliced_size
from tt_cnn.virtual.types.enums import Layout
from tt_cnn.virtual.types.geometry import div_up

_IN_L1 = Slicing(SliceTypeEnum.L1Full, 0)


@op("prepare_conv_transpose2d_weights")
class PrepareConvTranspose2dWeights(PrepareConvWeights):
    """Weights (in, out / groups, height, width) as the matrix that the transposed convolution reads."""

    _convolution = TransposedConvolution

    arguments = arguments_like(  # type: ignore[assignment]
        PrepareConvWeights.arguments,
        renamed={"slice_config": "dram_slice_config"},
        added=(
            Parameter("mirror_kernel", Parameter.KEYWORD_ONLY, default=True, annotation="bool"),
            Parameter("output_padding", Parameter.KEYWORD_ONLY, default=(0, 0), annotation="Sequence[int]"),
        ),
    )

    def make_call(  # type: ignore[override]
        self, *, dram_slice_config: Op2DSliceConfig | None, mirror_kernel: bool, **given: Any
    ) -> ConvolutionCall:
        call = super().make_call(slice_config=dram_slice_config, **given)
        call.attributes["mirror"] = mirror_kernel
        return call

    def given(self, call: ConvolutionCall, device: MeshDevice) -> list[Values]:
        """Weights (in, out / groups, ...) as those of the convolution over the spread input."""
        groups, mirror = call.attributes["conv"].groups, call.attributes["mirror"]
        return [turned(values, groups, mirror) for values in super().given(call, device)]

    def arranged(self, said: Announced, slicing: Slicing | None, free_l1: int) -> Arrangement:
        """The convolution over the spread input, whole or the first of its slices, without groups: those are spread out
        in the weights."""
        conv = said.conv
        assert isinstance(conv, TransposedConvolution)
        if not runs_in_l1(said.config, slicing):
            said = _first_slice(said, slicing, free_l1)
            assert isinstance(said.conv, TransposedConvolution)
            conv = said.conv
        return arrangement(replace(said, conv=conv.direct().but(groups=1)), _IN_L1, free_l1)


def _first_slice(said: Announced, slicing: Slicing | None, free_l1: int) -> Announced:
    """Of a transposed convolution out of DRAM: its part of the input, in the shards that it is put into."""
    conv, settings = said.conv, said.request.settings
    sliced = SlicedTransposed(Layer(said.card, conv, said.request, said.layout, said.dtype, said.has_bias))
    chosen = sliced.chosen_slicing(free_l1, slicing)
    if chosen.count == 1 and slicing is not None and not slicing.count:
        return said  # a slice config that turns out to mean one slice is as good as one that asks for L1
    unit = rounding(settings.output_layout, chosen.kind)
    size = div_up(div_up(sliced_size(conv.output_hw, chosen.kind), unit), chosen.count) * unit
    height, width = conv.output_hw
    height, width = (size, width) if chosen.kind is ALONG_HEIGHT else (height, size)
    part, own = sliced.part((0, height), (0, width))
    first = replace(
        conv,
        height=part.in_rows[1] - part.in_rows[0],
        width=part.in_columns[1] - part.in_columns[0],
    )
    layout = Layout.ROW_MAJOR if chosen.count > 1 else said.layout
    return replace(said, conv=first, config=sliced.input_config(own), layout=layout)


@op("prepare_conv_transpose2d_bias")
class PrepareConvTranspose2dBias(PrepareConvBias):
    """A bias (1, 1, 1, out) as the transposed convolution adds it. It has the weights' dtype."""

    _convolution = TransposedConvolution

    arguments = arguments_like(PrepareConvBias.arguments, renamed={"slice_config": "dram_slice_config"})

    def arranged(self, said: Announced, slicing: Slicing | None, free_l1: int) -> Arrangement:
        """By the convolution over the spread input: slices are not looked at."""
        assert isinstance(said.conv, TransposedConvolution)
        return arrangement(replace(said, conv=said.conv.direct()), slicing, free_l1)
