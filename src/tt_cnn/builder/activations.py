# SPDX-License-Identifier: Apache-2.0
"""Activations that TT-NN cannot run inside another op, and the ops that they then are."""

from __future__ import annotations

from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder.windows import borders

FUSED_BY_MATMUL = frozenset(
    {
        ttnn.UnaryOpType.RELU,
        ttnn.UnaryOpType.GELU,
        ttnn.UnaryOpType.GELU_TANH,
        ttnn.UnaryOpType.TANH,
        ttnn.UnaryOpType.SILU,
        ttnn.UnaryOpType.RELU6,
        ttnn.UnaryOpType.SIGMOID,
        ttnn.UnaryOpType.HARDSIGMOID,
        ttnn.UnaryOpType.HARDTANH,
        ttnn.UnaryOpType.SELU,
        ttnn.UnaryOpType.SOFTPLUS,
    }
)
"""What TT-NN's matmuls of sharded tensors apply before they store; any other is refused."""


def runs_as_matmul(configuration: Any, x: Any) -> bool:
    """Whether TT-NN makes a matmul of a convolution of this input.

    It does where the kernel reads every pixel once, unless width shards are asked for. A kernel that steps by its own
    size is folded into the channels first, for an input that lies in height shards or in DRAM.
    """
    if any(size != 1 for size in configuration.dilation):
        return False
    if configuration.kernel_size == (1, 1) == configuration.stride:
        layout = configuration.sharding_strategy.get_tensor_memory_layout()
        return not any(configuration.padding) and layout != ttnn.TensorMemoryLayout.WIDTH_SHARDED
    return bool(configuration.kernel_size == configuration.stride and _folds(configuration, x))


def folds_shards(configuration: Any, x: Any) -> bool:
    """Whether TT-NN folds the stride of a convolution into the channels of this input, which is in shards."""
    strided = configuration.kernel_size == configuration.stride != (1, 1)
    if not strided or any(size != 1 for size in configuration.dilation) or not ttnn.is_tensor_storage_on_device(x):
        return False
    return bool(x.is_sharded() and _folds(configuration, x))


def _folds(configuration: Any, x: Any) -> bool:
    """TT-NN's rule for folding a stride into the channels."""
    top, bottom, left, right = borders(configuration.padding)
    height, width = configuration.input_height + top + bottom, configuration.input_width + left + right
    if height % configuration.stride[0] or width % configuration.stride[1]:
        return False
    if not ttnn.is_tensor_storage_on_device(x):
        return True
    config = x.memory_config()
    if config.buffer_type == ttnn.BufferType.DRAM:
        return x.layout == ttnn.ROW_MAJOR_LAYOUT or not any(configuration.padding)
    return bool(config.memory_layout == ttnn.TensorMemoryLayout.HEIGHT_SHARDED)


def fits_into_matmul(activation: Any) -> bool:
    """Whether a matmul can apply it before it stores."""
    return _op_type(activation) in FUSED_BY_MATMUL


def activation_of_name(name: str) -> Any:
    """An activation that `ttnn.linear` knows by its name."""
    return ttnn.UnaryWithParam(getattr(ttnn.UnaryOpType, name.upper()))


def activated(x: Any, activation: Any, **placement: Any) -> Any:
    """x through an activation, in its own place unless another is given."""
    own = placement or {"output_tensor": x}
    op_type = _op_type(activation)
    if op_type == ttnn.UnaryOpType.MISH:
        return ttnn.mish(x, **own)
    if op_type == ttnn.UnaryOpType.LEAKY_RELU:
        return ttnn.leaky_relu(x, negative_slope=activation.params[0], **own)
    return ttnn.unary_chain(x, [_with_param(activation)], **own)


def _op_type(activation: Any) -> Any:
    return activation.op_type if isinstance(activation, ttnn.UnaryWithParam) else activation


def _with_param(activation: Any) -> Any:
    return activation if isinstance(activation, ttnn.UnaryWithParam) else ttnn.UnaryWithParam(activation)
