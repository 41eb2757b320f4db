# SPDX-License-Identifier: Apache-2.0
"""The numbers of a transposed convolution: those of a convolution over the input with zeros between its pixels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.numerics.convolution.windows import zeros_around
from tt_cnn.virtual.numerics.formats import as_floats
from tt_cnn.virtual.ops.conv2d.numbers import image_of, in_rows_of, kept_weights
from tt_cnn.virtual.ops.conv2d.operands import ConvolutionCall, Preparing
from tt_cnn.virtual.ops.conv_transpose2d.problem import TransposedConvolution
from tt_cnn.virtual.ops.eltwise.numbers import apply_activation
from tt_cnn.virtual.ops.operation import Context
from tt_cnn.virtual.tensors.conversion import unpad
from tt_cnn.virtual.types.geometry import Shape
from tt_cnn.virtual.types.tensor_spec import Spec


def spread_context(device: MeshDevice, call: ConvolutionCall, outputs: Sequence[Spec]) -> Context:
    """The context of the convolution over the spread input, which is another shape than the call's."""
    inputs = [tensor.spec for tensor in call.tensors]
    at = call.attributes["input"]
    if isinstance(at, int):
        inputs[at] = Spec(_spread_shape(call.attributes["conv"]), inputs[at].dtype, inputs[at].layout)
    return Context(device.engine, device.card.arch, tuple(inputs), tuple(outputs))


def spread_operands(
    attributes: Mapping[str, Any],
    specs: Sequence[Spec],
    values: Sequence[torch.Tensor],
    host: Mapping[str, torch.Tensor],
    conv: TransposedConvolution,
    mirror: bool,
) -> tuple[tuple[torch.Tensor, ...], dict[str, torch.Tensor]]:
    """Values of the card and of the host as the convolution takes them: a spread input, weights (out, in, ...)."""
    on_card, on_host = list(values), dict(host)
    at = attributes["input"]
    if isinstance(at, int):
        on_card[at] = spread(unpad(on_card[at], specs[at].shape), conv)
    else:
        on_host["input"] = spread(on_host["input"], conv)
    if "weight" in on_host:
        on_host["weight"] = turned(on_host["weight"], conv.groups, mirror)
    return tuple(on_card), on_host


def spread(value: torch.Tensor, conv: TransposedConvolution) -> torch.Tensor:
    """The input with its zeros: between pixels by the stride, and around them."""
    image, window = image_of(value, conv), conv.window
    wide = zeros_around(image, size=window.padded_hw, first=window.first_pixel, stride=tuple(conv.stride))
    return wide.reshape(tuple(_spread_shape(conv)))


def transposed_natively(
    context: Context,
    preparing: Preparing,
    attributes: Mapping[str, Any],
    values: Sequence[torch.Tensor],
    unpadded: Sequence[torch.Tensor],
    host: Mapping[str, torch.Tensor],
) -> torch.Tensor:
    """The output by torch's own transposed convolution, from weights that are prepared."""
    conv: TransposedConvolution = attributes["conv"]

    def logical(name: str) -> torch.Tensor:
        at = attributes[name]
        return unpadded[at] if isinstance(at, int) else host[name]

    dense = kept_weights(values[attributes["weight"]], preparing.layout, conv.direct().but(groups=1), preparing.step)
    weight = dense.values.permute(1, 0, 2, 3).flip(2, 3)  # those of the convolution over the spread input
    image = image_of(logical("input"), conv).permute(0, 3, 1, 2)
    whole = F.conv_transpose2d(image, weight.to(image.dtype), stride=conv.stride, dilation=conv.dilation)
    top, _, left, _ = conv.padding
    height, width = conv.output_hw
    missing = max(0, top + height - whole.shape[2]), max(0, left + width - whole.shape[3])
    whole = F.pad(whole, (0, missing[1], 0, missing[0]))[:, :, top : top + height, left : left + width]
    result = whole.permute(0, 2, 3, 1).reshape(-1, conv.out_channels)
    if attributes["bias"] is not None:
        row = as_floats(logical("bias"))
        result = result + row.reshape(-1, row.shape[-1])[0, : conv.out_channels].reshape(1, -1)
    if attributes["settings"].activation is not None:
        result = apply_activation(context.engine, result, attributes["settings"].activation)
    return context.store(in_rows_of(context.outputs[0].shape, result))


def _spread_shape(conv: TransposedConvolution) -> Shape:
    height, width = conv.window.padded_hw
    return Shape((1, 1, conv.batch * height * width, conv.in_channels))


def turned(weight: torch.Tensor, groups: int, mirror: bool) -> torch.Tensor:
    """(in, out / groups, height, width) as (out, in, height, width), the kernel turned round where asked for."""
    if groups > 1:
        inner, outer, height, width = weight.shape
        dense = weight.new_zeros(groups, inner // groups, groups, outer, height, width)
        own = torch.arange(groups, device=weight.device)
        dense[own, :, own] = weight.reshape(groups, inner // groups, outer, height, width)
        weight = dense.reshape(inner, groups * outer, height, width)
    weight = weight.permute(1, 0, 2, 3)
    return weight.flip(2, 3) if mirror else weight
