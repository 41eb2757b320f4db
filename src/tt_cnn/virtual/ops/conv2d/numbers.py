# SPDX-License-Identifier: Apache-2.0
"""The values of a convolution: operands as `numerics.convolution` takes them, the result as it is stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from tt_cnn.virtual import numerics
from tt_cnn.virtual.engines import Engine
from tt_cnn.virtual.numerics import VectorUnit, host_round
from tt_cnn.virtual.numerics.convolution import Recipe, Weights, Window, convolve, convolve_natively
from tt_cnn.virtual.numerics.formats import as_floats
from tt_cnn.virtual.ops.conv2d.config import Settings
from tt_cnn.virtual.ops.conv2d.preparation import folded_weights, weights_of, with_all_channels
from tt_cnn.virtual.ops.conv2d.problem import Convolution
from tt_cnn.virtual.ops.conv2d.program import ConvProgram
from tt_cnn.virtual.ops.conv2d.recipes import fused_activation, kernel_of_step, recipe_of
from tt_cnn.virtual.ops.eltwise.activations import Activation, kernel_of
from tt_cnn.virtual.ops.eltwise.numbers import apply_activation
from tt_cnn.virtual.ops.matmul.weight_layout import WeightLayout
from tt_cnn.virtual.ops.operation import Context
from tt_cnn.virtual.ops.sliding_window.window import Pair
from tt_cnn.virtual.planning.plan import Step
from tt_cnn.virtual.types.enums import DataType, PaddingMode
from tt_cnn.virtual.types.geometry import TILE_SIZE, Shape
from tt_cnn.virtual.types.unary import UnaryOpType

_FAST_BY_DEFAULT = (UnaryOpType.GELU, UnaryOpType.ERF, UnaryOpType.ERFC)
"""Kernels that are approximate unless a parameter says otherwise: a convolution passes on only what it is given."""

_kept: Any = WeakTensorKeyDictionary()
"""What was made of prepared weights, for as long as their values live."""


@dataclass(frozen=True)
class Operands:
    """An image (batch, height, width, channels), weights and bias (a row), all of numbers that the card can hold."""

    image: Tensor
    weights: Weights
    bias: Tensor | None


def on_card(engine: Engine, values: Tensor, dtype: DataType) -> Tensor:
    """Weights and bias as the host rounds them before they go to the card."""
    return engine.pack(values, dtype) if engine.numerics == "native" else host_round(values, dtype)


def kept_weights(matrix: Tensor, layout: WeightLayout, conv: Convolution, step: Step) -> Weights:
    """The weights of a prepared matrix as the step multiplies with them; made once."""
    fold, dtype = _fold(conv, step), step.inputs[1].spec.dtype
    kept = _kept.setdefault(matrix, {})
    key = (layout, conv, dtype, fold)
    if key not in kept:
        own, groups = with_all_channels(weights_of(matrix, layout, conv), conv)
        weights = Weights(own, dtype, groups, rounded=True)
        if fold != (1, 1):
            weights = Weights(folded_weights(weights.dense(), fold), dtype, rounded=True)
        kept[key] = weights
    made: Weights = kept[key]
    return made


def convolved(
    context: Context, step: Step, operands: Operands, conv: Convolution, attributes: Mapping[str, Any]
) -> Tensor:
    """The output as it is stored."""
    settings: Settings = attributes["settings"]
    replicates = settings.padding_mode is PaddingMode.Replicate
    window = Window(conv.kernel, conv.stride, conv.padding, conv.dilation, replicates)
    image, fold = operands.image, _fold(conv, step)
    if fold != (1, 1):
        image, window = _folded(window.padded(image), fold), Window(kernel_of_step(step))
    groups = operands.weights.groups
    recipe = recipe_of(step, attributes["compute"].fidelity, window, image.shape[-1], groups)
    if context.engine.numerics == "native":
        result = convolve_natively(window, image, operands.weights.values, operands.bias, groups)
        if settings.activation is not None:
            result = apply_activation(context.engine, result, settings.activation)
    else:
        result = _on_card(context, step, recipe, image, operands, settings.activation)
    return context.store(in_rows_of(context.outputs[0].shape, result))


def in_rows_of(shape: Shape, result: Tensor) -> Tensor:
    """With as many rows as the output has. The padded rows of some host inputs count as its own, and a 1x1 kernel
    multiplies the rows that its input has, whatever the call says of the image's size."""
    rows = shape[0] * shape[1] * shape[2]
    return F.pad(result, (0, 0, 0, max(0, rows - len(result))))[:rows].reshape(tuple(shape))


def _on_card(
    context: Context, step: Step, recipe: Recipe, image: Tensor, operands: Operands, activation: Activation | None
) -> Tensor:
    """What the multiplying step leaves, and what element-wise steps do after a matmul on interleaved tensors."""
    fused = fused_activation(step)
    bias = operands.bias
    if bias is not None:
        bias = F.pad(bias.reshape(1, -1), (0, -bias.numel() % TILE_SIZE))
    activate = _activation(step, recipe, fused)
    result = convolve(recipe, image, operands.weights, bias if recipe.bias else None, activate, exact=context.exact)
    separate_bias = bias is not None and not recipe.bias
    if not separate_bias and (activation is None or fused is not None):
        return result
    kind, columns = recipe.output, result.shape[1]
    result = F.pad(result, (0, -columns % TILE_SIZE))
    if separate_bias:
        assert bias is not None
        result = numerics.binary("add", result, bias, kind, operands.weights.dtype, out_dtype=kind, exact=context.exact)
    if activation is not None and fused is None:
        result = context.engine.pack(apply_activation(context.engine, result, activation), kind)
    return result[:, :columns]


def _activation(step: Step, recipe: Recipe, activation: Activation | None) -> Callable[[Tensor, bool], Tensor] | None:
    if activation is None:
        return None
    if activation[0] is UnaryOpType.RELU:  # the packer's
        return lambda x, exact: x.clamp(min=0.0)
    kernel = kernel_of(activation)
    fast = isinstance(step.program, ConvProgram) and activation[0] in _FAST_BY_DEFAULT and not activation[1]

    def activate(x: Tensor, exact: bool) -> Tensor:
        unit = VectorUnit(fp32_dest=recipe.fp32_dest, approx=kernel.approx or fast, exact=exact)
        return numerics.unary_register(kernel.name, x, *kernel.params, unit=unit)

    return activate


def _fold(conv: Convolution, step: Step) -> Pair:
    """The stride by which image and kernel are folded into channels, (1, 1) if they are not."""
    return conv.stride if kernel_of_step(step) != conv.kernel else (1, 1)


def _folded(image: Tensor, fold: Pair) -> Tensor:
    """The pixels of a step of the kernel side by side in the channels."""
    n, h, w, c = image.shape
    rows, columns = fold
    patches = image.reshape(n, h // rows, rows, w // columns, columns, c)
    return patches.permute(0, 1, 3, 2, 4, 5).reshape(n, h // rows, w // columns, rows * columns * c)


def image_of(value: Tensor, conv: Convolution) -> Tensor:
    """A logical input of any shape as an image; channels and rows beyond those asked for are left out."""
    rows, channels = conv.batch * conv.height * conv.width, conv.in_channels
    flat = as_floats(value.reshape(-1, value.shape[-1]))
    missing = max(rows - flat.shape[0], 0), max(channels - flat.shape[1], 0)
    if any(missing):
        flat = F.pad(flat, (0, missing[1], 0, missing[0]))
    return flat[:rows, :channels].reshape(conv.batch, conv.height, conv.width, channels)


__all__ = ["Operands", "convolved", "image_of", "kept_weights", "on_card"]
