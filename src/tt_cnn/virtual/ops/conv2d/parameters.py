# SPDX-License-Identifier: Apache-2.0
"""Weights and bias of a call: given prepared on the card, or on the host and prepared when the plan needs them."""

from __future__ import annotations

from dataclasses import dataclass

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.conv2d.blocks import Blocks
from tt_cnn.virtual.ops.conv2d.problem import Convolution
from tt_cnn.virtual.ops.conv2d.weights import WeightShape, bias_spec
from tt_cnn.virtual.ops.matmul.weight_layout import WeightLayout
from tt_cnn.virtual.ops.sliding_window.window import Pair
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import div_up
from tt_cnn.virtual.types.tensor_spec import Spec


@dataclass
class Parameters:
    """What a plan has of its weights and bias so far. Slices of one call share what the first of them prepared."""

    host_weight: Spec | None
    host_bias: Spec | None
    weight: Slot | None = None
    bias: Slot | None = None
    layout: WeightLayout | None = None
    """In which the weights stand: that of the first slice."""

    @property
    def has_bias(self) -> bool:
        return self.bias is not None or self.host_bias is not None

    @property
    def weight_dtype(self) -> DataType:
        spec = self.weight.spec if self.weight else self.host_weight
        assert spec is not None
        return spec.dtype

    def shape_for(self, conv: Convolution, fold: Pair, dtype: DataType | None) -> WeightShape:
        """What the prepared form of these weights has to hold: it follows from their own shape, whatever the call says
        of channels."""
        if conv.transposed:
            return self._transposed_shape(conv)
        in_channels, kernel = conv.in_channels, conv.kernel
        unprepared = self._unprepared(conv.out_channels, dtype)
        if unprepared is not None and len(unprepared.shape) == 4:
            out_channels, in_channels, *given = unprepared.shape
            in_channels *= conv.groups * fold[0] * fold[1]
            kernel = div_up(given[0], fold[0]), div_up(given[1], fold[1])
            return WeightShape(out_channels, in_channels, kernel, conv.groups, fold)
        if self.weight is not None:
            in_channels = min(in_channels, _channels_of_matrix(self.weight.spec, kernel))
        return WeightShape(conv.out_channels, in_channels, kernel, conv.groups, fold)

    def _transposed_shape(self, conv: Convolution) -> WeightShape:
        """The same of weights (in, out / groups, height, width), whose groups are spread out to dense."""
        unprepared = self._unprepared(conv.out_channels, None)
        if unprepared is not None and len(unprepared.shape) == 4:
            channels, outer, *kernel = unprepared.shape
            fatal(
                outer * conv.groups == conv.out_channels and tuple(kernel) == tuple(conv.kernel),
                f"Weights of shape {unprepared.shape} were given to a transposed convolution to {conv.out_channels} "
                f"channels in {conv.groups} groups with a kernel of {conv.kernel[0]}x{conv.kernel[1]}.",
                "  they are (in_channels, out_channels / groups, height, width)",
            )
        else:
            assert self.weight is not None
            channels = _channels_of_matrix(self.weight.spec, conv.kernel)
        return WeightShape(conv.out_channels, min(conv.in_channels, channels), conv.kernel)

    def _unprepared(self, out_channels: int, dtype: DataType | None) -> Spec | None:
        """Weights (out, in / groups, height, width), on the host or on the card."""
        if self.host_weight is not None or self.weight is None:
            return self.host_weight
        return None if is_prepared(self.weight.spec, out_channels, dtype) else self.weight.spec

    def prepare(self, planner: Planner, layout: WeightLayout, blocks: Blocks, dtype: DataType | None) -> None:
        """Move to the card what is not there. A device tensor that is not in prepared form is prepared again."""
        self.layout = self.layout or layout
        if self.weight is None or not is_prepared(self.weight.spec, layout.out_channels, dtype):
            source = self.host_weight or (self.weight.spec if self.weight else None)
            assert source is not None
            check_host_weight(source)
            self.weight = planner.allocate(layout.spec(dtype or source.dtype))
        wanted = self.weight.spec.dtype
        if self.bias is not None and is_prepared_bias(self.bias.spec, layout.out_channels, dtype):
            return
        source = self.host_bias or (self.bias.spec if self.bias else None)
        if source is not None:
            check_host_bias(source, layout.out_channels)
            self.bias = planner.allocate(bias_spec(layout.out_channels, layout.columns, blocks, wanted))
            self.host_bias = None


def _channels_of_matrix(spec: Spec, kernel: Pair) -> int:
    """Input channels of a prepared matrix: its rows are those of all taps."""
    return max(1, spec.shape[-2] // (kernel[0] * kernel[1]))


def is_prepared(spec: Spec, out_channels: int, dtype: DataType | None) -> bool:
    dims = tuple(spec.shape)
    return (
        spec.layout is Layout.TILE
        and len(dims) == 4
        and dims[:2] == (1, 1)
        and dims[3] >= out_channels
        and (dtype is None or spec.dtype is dtype)
    )


def is_prepared_bias(spec: Spec, out_channels: int, dtype: DataType | None) -> bool:
    return spec.layout is Layout.TILE and spec.shape[3] >= out_channels and (dtype is None or spec.dtype is dtype)


def check_host_weight(spec: Spec) -> None:
    fatal(spec.layout is Layout.ROW_MAJOR, "Host conv weights layout should be in row_major layout")
    fatal(len(spec.shape) == 4, "Host conv weights should be 4D tensor")


def check_host_bias(spec: Spec, out_channels: int) -> None:
    fatal(spec.shape[-1] == out_channels, "Bias must have the same length as output channels")
    fatal(len(spec.shape) == 4, "Host conv bias should be 4D tensor")
    fatal(spec.layout is Layout.ROW_MAJOR, "Host conv bias layout should be in row_major layout")
    fatal(tuple(spec.shape)[:3] == (1, 1, 1), "Host conv bias shape is not correct")
