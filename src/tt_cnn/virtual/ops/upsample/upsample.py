# SPDX-License-Identifier: Apache-2.0
"""`ttnn.upsample`."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.ops.upsample.bilinear import plan_bilinear
from tt_cnn.virtual.ops.upsample.nearest import plan_nearest
from tt_cnn.virtual.ops.upsample.numbers import upsampled
from tt_cnn.virtual.ops.upsample.problem import Upsampling
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.compute_config import WormholeComputeKernelConfig
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec


@op("upsample")
class Upsample(Operation):
    """Images (N, H, W, C) enlarged by whole or broken factors."""

    freed = "upsample expects an allocated device tensor as input"

    def arguments(
        self,
        input_tensor: Tensor,
        scale_factor: float | Sequence[float],
        *,
        mode: str = "nearest",
        memory_config: MemoryConfig | None = None,
        compute_kernel_config: WormholeComputeKernelConfig | None = None,
    ) -> Call:
        both = (scale_factor, scale_factor) if isinstance(scale_factor, (int, float)) else tuple(scale_factor)
        if len(both) != 2 or not isinstance(mode, str):
            raise TypeError(f"scale_factor is {scale_factor!r}; it takes one number, or two (height, width)")
        scale_h, scale_w = (_single(float(value)) for value in both)
        for side, scale in (("h", scale_h), ("w", scale_w)):
            fatal(0 < scale < 2**32, f"scale_factor_{side} must be positive, got {scale:g}")
        return Call([input_tensor], ups=Upsampling(scale_h, scale_w, mode, memory_config, compute_kernel_config))

    def plan(self, planner: Planner, source: Slot, ups: Upsampling) -> list[Slot]:
        fatal(_bytes(source.spec, ups) <= _MOST_BYTES, "upsample to more than a card's memory holds")
        output = (plan_bilinear if ups.mode == "bilinear" else plan_nearest)(planner, source, ups)
        rank = len(source.spec.shape)
        fatal(rank == 4, f"upsample takes images (N, H, W, C), not tensors of rank {rank}", "  TT-NN mixes them up")
        return [output]

    def numbers(self, context: Context, x: torch.Tensor, ups: Upsampling) -> list[torch.Tensor]:
        return [context.store(upsampled(context, context.logical(x), ups))]


_MOST_BYTES = 2**29
"""Of a result that is planned: tables of larger ones are made pixel by pixel, and no card's L1 holds them."""


def _bytes(spec: Spec, ups: Upsampling) -> int:
    pixels = prod(tuple(spec.shape)[:-1]) * ups.scale_h * ups.scale_w
    return int(pixels * spec.shape[-1] * 2) if spec.is_sharded or ups.mode == "bilinear" else 0


def _single(value: float) -> float:
    """A factor as the library keeps it: in single precision."""
    return float(torch.tensor(value, dtype=torch.float32))
