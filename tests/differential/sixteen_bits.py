# SPDX-License-Identifier: Apache-2.0
"""What 16 bits do to a program's results, in float64: each number that has to be stored is moved by a rounding error.

Replays on a GPU store in 16 bits what leaves a kernel: inputs, operands and results of products, results of reductions,
and of other ops unless they are fused. All are float16 where the numbers leave room, otherwise bfloat16.
Rounding in float64 would not do: both sides of `mean(x) - x` over one element would be rounded alike. So every number
that 16 bits do not hold is moved by a random part of half a unit, each time on its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from tt_cnn.virtual.engines import Engine

PRODUCTS = {"convolution", "mm", "bmm", "addmm", "baddbmm"}
"""Their operands are stored too."""
REDUCTIONS = {
    "mean", "sum", "prod", "var", "var_mean", "std", "cumsum", "cumprod", "_softmax", "softmax", "avg_pool2d",
    "native_layer_norm", "native_group_norm", "logsumexp", "linalg_vector_norm", "upsample_bilinear2d",
}  # fmt: skip
FINEST = 2.0**-25
"""Half of float16's smallest number."""


class Float64(Engine):
    """Commands one by one, in numbers of 64 bits: the reference of `native` numerics."""

    def upload(self, host: torch.Tensor) -> torch.Tensor:
        return host.double() if host.is_floating_point() else host

    def pack(self, value: torch.Tensor, dtype: Any) -> torch.Tensor:
        """What float32 cannot hold is infinite here too."""
        if not dtype.is_float:
            return super().pack(value, dtype)
        single = value.float()
        return torch.where(single.isinf(), single.double(), value.double())


class InSixteenBits(Float64):
    """The same with errors of float16."""

    format = torch.float16
    seed = 0
    """Of the errors of devices that are opened next."""

    def __init__(self, numerics: str) -> None:
        super().__init__(numerics)
        self._mode = _Storing(self)
        self._random = torch.Generator().manual_seed(InSixteenBits.seed)

    @contextmanager
    def scope(self, queue: int) -> Iterator[None]:
        with torch.inference_mode(), self._mode:
            yield

    def upload(self, host: torch.Tensor) -> torch.Tensor:
        return self.stored(super().upload(host))

    def pack(self, value: torch.Tensor, dtype: Any) -> torch.Tensor:
        return self.stored(super().pack(value, dtype))

    def stored(self, value: torch.Tensor) -> torch.Tensor:
        if not value.is_floating_point():
            return value
        finite = value.isfinite()
        unit = torch.finfo(self.format).eps / 2
        moves = (2 * torch.rand(value.shape, generator=self._random, dtype=value.dtype) - 1) * unit * value.abs()
        if self.format is torch.float16:
            moves = torch.where(moves.abs() < FINEST, FINEST * moves.sign(), moves)
        return torch.where(finite & (value.to(self.format).to(value.dtype) != value), value + moves, value)


class InBfloat16(InSixteenBits):
    """The same with errors of bfloat16."""

    format = torch.bfloat16


class _Storing(TorchDispatchMode):
    """Moves what products and reductions within an op read and leave."""

    def __init__(self, engine: InSixteenBits) -> None:
        super().__init__()
        self._engine = engine

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with self:  # in inference mode `matmul` comes here as it is, and not as the `bmm` that it is made of
            parts = func.decompose(*args, **(kwargs or {}))
        if parts is not NotImplemented:
            return parts
        name = func.overloadpacket.__name__
        if name in PRODUCTS:
            args = pytree.tree_map_only(torch.Tensor, self._engine.stored, args)
        result = func(*args, **(kwargs or {}))
        if name in PRODUCTS or name in REDUCTIONS:
            result = pytree.tree_map_only(torch.Tensor, self._engine.stored, result)
        return result
