# SPDX-License-Identifier: Apache-2.0
"""Convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from tt_cnn.virtual.ops.conv2d.preparation import weights_of
from tt_cnn.virtual.ops.layout.transfers import from_device
from tt_cnn.virtual.ops.sliding_window.window import four_paddings
from tt_cnn.virtual.references.eltwise import activated
from tt_cnn.virtual.references.registry import Arguments, golden
from tt_cnn.virtual.types.enums import PaddingMode


def image(x: Tensor, batch: int, height: int, width: int, channels: int) -> Tensor:
    """(1, 1, NHW, C) or (N, H, W, C), with more channels or rows than asked for, as (N, C, H, W)."""
    rows = x.reshape(-1, x.shape[-1])[: batch * height * width, :channels]
    return rows.reshape(batch, height, width, channels).permute(0, 3, 1, 2).float()


def flat(nchw: Tensor) -> Tensor:
    """(N, C, H, W) as (1, 1, NHW, C)."""
    return nchw.permute(0, 2, 3, 1).reshape(1, 1, -1, nchw.shape[1])


def _unprepared(call: Any, arguments: Arguments, chip: int) -> Arguments:
    """Weights in the card's form as torch has them."""
    matrix = _prepared_weight(call, chip)
    if matrix is None:
        return arguments
    return {**arguments, "weight_tensor": weights_of(matrix, call.preparing.layout, call.attributes["conv"])}


def _unprepared_transposed(call: Any, arguments: Arguments, chip: int) -> Arguments:
    """On the card they are those of a convolution without groups, turned round."""
    matrix = _prepared_weight(call, chip)
    if matrix is None:
        return arguments
    direct = call.attributes["conv"].direct().but(groups=1)
    weight = weights_of(matrix, call.preparing.layout, direct)
    weight = weight.flip(2, 3) if call.attributes["mirror"] else weight
    return {**arguments, "weight_tensor": weight.permute(1, 0, 2, 3), "groups": 1}


def _prepared_weight(call: Any, chip: int) -> Tensor | None:
    """The whole matrix, its padding included: weights stand there too."""
    if "weight" in call.preparing.names:
        return None
    values = from_device(call.tensors[call.attributes["weight"]]).host_values("comparison")
    return values[chip if len(values) > 1 else 0]


def _input(given: Arguments) -> Tensor:
    sizes = ("batch_size", "input_height", "input_width", "in_channels")
    return image(given["input_tensor"], *(given[name] for name in sizes))


def _options(given: Arguments) -> Arguments:
    """What torch calls by the same names."""
    bias = given["bias_tensor"]
    row = None if bias is None else bias.reshape(-1, bias.shape[-1])[0, : given["out_channels"]].float()
    pairs = {name: tuple(given[name]) for name in ("stride", "dilation")}
    return {"bias": row, "groups": given["groups"], **pairs}


def _output(result: Tensor, config: Any) -> Tensor:
    return flat(activated(result, None if config is None else config.activation))


@golden("conv2d", undo=_unprepared)
def _conv2d(*, weight_tensor: Tensor, padding: Sequence[int], conv_config: Any, **given: Any) -> Tensor:
    top, bottom, left, right = four_paddings(padding)
    replicate = conv_config is not None and conv_config.padding_mode is PaddingMode.Replicate
    x = F.pad(_input(given), (left, right, top, bottom), mode="replicate" if replicate else "constant")
    return _output(F.conv2d(x, weight_tensor.float(), **_options(given)), conv_config)


@golden("conv_transpose2d", undo=_unprepared_transposed)
def _conv_transpose2d(
    *,
    weight_tensor: Tensor,
    padding: Sequence[int],
    output_padding: Sequence[int],
    conv_config: Any,
    mirror_kernel: bool,
    **given: Any,
) -> Tensor:
    top, bottom, left, right = four_paddings(padding)
    weight = weight_tensor.float() if mirror_kernel else weight_tensor.float().flip(2, 3)
    whole = F.conv_transpose2d(_input(given), weight, output_padding=tuple(output_padding), **_options(given))
    result = whole[..., top : whole.shape[-2] - bottom, left : whole.shape[-1] - right]  # padding crops its output
    return _output(result, conv_config)
