# SPDX-License-Identifier: Apache-2.0
"""PyTorch's activations in TT-NN's terms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from tt_cnn import ttnn

_TYPES = ttnn.UnaryOpType

PARAMETERS: dict[Any, int] = {
    _TYPES.CELU: 1,
    _TYPES.CLAMP_TSS: 2,
    _TYPES.ELU: 1,
    _TYPES.HARDSHRINK: 1,
    _TYPES.HARDTANH: 2,
    _TYPES.LEAKY_RELU: 1,
    _TYPES.MISH: 1,
    _TYPES.POWER: 1,
    _TYPES.RELU_MAX: 1,
    _TYPES.RELU_MIN: 1,
    _TYPES.SELU: 2,
    _TYPES.SOFTPLUS: 2,
    _TYPES.SOFTSHRINK: 1,
    _TYPES.THRESHOLD: 2,
}
"""How many numbers an activation needs; those that are not here need none."""
_SELU_SCALE, _SELU_ALPHA = 1.0507009873554805, 1.6732632423543772

_FROM_TORCH: dict[type[nn.Module], Callable[[Any], tuple[Any, ...]]] = {
    nn.CELU: lambda m: (_TYPES.CELU, m.alpha),
    nn.ELU: lambda m: (_TYPES.ELU, m.alpha),
    nn.GELU: lambda m: (_TYPES.GELU_TANH if m.approximate == "tanh" else _TYPES.GELU,),
    nn.Hardshrink: lambda m: (_TYPES.HARDSHRINK, m.lambd),
    nn.Hardsigmoid: lambda m: (_TYPES.HARDSIGMOID,),
    nn.Hardswish: lambda m: (_TYPES.HARDSWISH,),
    nn.Hardtanh: lambda m: (_TYPES.HARDTANH, m.min_val, m.max_val),
    nn.LeakyReLU: lambda m: (_TYPES.LEAKY_RELU, m.negative_slope),
    nn.LogSigmoid: lambda m: (_TYPES.LOGSIGMOID,),
    nn.Mish: lambda m: (_TYPES.MISH, 0.0),  # the exact form; TT-NN 0.81.1 fuses none without saying which
    nn.ReLU: lambda m: (_TYPES.RELU,),
    nn.ReLU6: lambda m: (_TYPES.RELU6,),
    nn.SELU: lambda m: (_TYPES.SELU, _SELU_SCALE, _SELU_ALPHA),
    nn.SiLU: lambda m: (_TYPES.SILU,),
    nn.Sigmoid: lambda m: (_TYPES.SIGMOID,),
    nn.Softplus: lambda m: (_TYPES.SOFTPLUS, m.beta, m.threshold),
    nn.Softshrink: lambda m: (_TYPES.SOFTSHRINK, m.lambd),
    nn.Softsign: lambda m: (_TYPES.SOFTSIGN,),
    nn.Tanh: lambda m: (_TYPES.TANH,),
    nn.Tanhshrink: lambda m: (_TYPES.TANHSHRINK,),
    nn.Threshold: lambda m: (_TYPES.THRESHOLD, m.threshold, m.value),
}


def activation_from_torch(module: Any) -> Any:
    """PyTorch's activation as TT-NN writes it; None for None and for `nn.Identity`."""
    if module is None or isinstance(module, nn.Identity):
        return None
    known = _FROM_TORCH.get(type(module))
    if known is None:
        names = ", ".join(sorted(kind.__name__ for kind in _FROM_TORCH))
        raise ValueError(f"the activation is {type(module).__name__}; it must be one of {names}.")
    op_type, *parameters = known(module)
    return ttnn.UnaryWithParam(op_type, *(float(one) for one in parameters))
