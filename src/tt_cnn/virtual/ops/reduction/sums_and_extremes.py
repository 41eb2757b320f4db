# SPDX-License-Identifier: Apache-2.0
"""`sum`, `mean`, `max`, `min`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.operation import Call, op
from tt_cnn.virtual.ops.reduction.generic import Adding, Choosing
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import CoreRangeSet

_INFINITY = float("inf")


class _Sum(Adding):
    def arguments(
        self,
        input_tensor: Tensor,
        dim: int | Sequence[int] | None = None,
        keepdim: bool = False,
        *,
        memory_config: Any = None,
        compute_kernel_config: Any = None,
        scalar: float = 1.0,
        correction: bool | None = None,
        sub_core_grids: CoreRangeSet | None = None,
        fast_and_approximate_mode: bool = False,
        output_layout: Layout | None = None,
    ) -> Call:
        given = dict(locals())
        del given["self"]
        return self.make_call(**given)


@op("sum")
class Sum(_Sum):
    fast = True


@op("mean")
class Mean(_Sum):
    averages = True

    def scale(self, count: int) -> float:
        return 1.0 / count


class _Extreme(Choosing):
    def arguments(
        self,
        input_tensor: Tensor,
        dim: int | Sequence[int] | None = None,
        keepdim: bool = False,
        *,
        memory_config: Any = None,
        compute_kernel_config: Any = None,
        scalar: float = 1.0,
        correction: bool | None = None,
        sub_core_grids: CoreRangeSet | None = None,
        fast_and_approximate_mode: bool = False,
    ) -> Call:
        if self.negates:
            fatal(
                not (fast_and_approximate_mode and input_tensor.dtype is DataType.FLOAT32),
                "ttnn.min does not support fast_and_approximate_mode=True on Float32 input: the FPU has no min, so "
                "SFPU path is both more accurate and faster.",
            )
        given = dict(locals())
        del given["self"]
        return self.make_call(**given)


@op("max")
class Max(_Extreme):
    fill = -_INFINITY


@op("min")
class Min(_Extreme):
    fill = _INFINITY
    largest = False
    negates = True
