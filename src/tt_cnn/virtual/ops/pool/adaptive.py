# SPDX-License-Identifier: Apache-2.0
"""`ttnn.adaptive_avg_pool2d` and `ttnn.adaptive_max_pool2d`: pools whose window follows from the output's size.

TT-NN makes one window of the windows that PyTorch would use, with padding at the borders, and refuses sizes for which
no one window will do (adaptive_pool_utils.cpp).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.conv2d.config import Op2DSliceConfig
from tt_cnn.virtual.ops.eltwise.calls import arguments_like
from tt_cnn.virtual.ops.operation import Call, op
from tt_cnn.virtual.ops.pool.max_pool2d import Pooling
from tt_cnn.virtual.ops.pool.problem import Kind, Pool
from tt_cnn.virtual.ops.sliding_window.window import Pair, pair
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.compute_config import WormholeComputeKernelConfig
from tt_cnn.virtual.types.enums import TensorMemoryLayout
from tt_cnn.virtual.types.memory_config import MemoryConfig


def window_sizes(size: int, output: int) -> list[int]:
    """The windows that PyTorch would use along one side."""
    return [-(-(i + 1) * size // output) - i * size // output for i in range(output)]


@dataclass(frozen=True)
class Side:
    """One window along one side."""

    kernel: int
    stride: int
    before: int = 0
    after: int = 0

    def is_even(self, size: int, output: int) -> bool:
        """Windows of PyTorch's begin a stride apart, the first of them with its padding."""
        starts = [0] + [i * size // output + self.before for i in range(1, output)]
        return self.stride > 0 and all(b - a == self.stride for a, b in pairwise(starts))


def _plain(size: int, output: int) -> Side:
    return Side(-(-size // output), size // output)


def _fitted(size: int, output: int) -> Side:
    """The middle windows' size; borders that are smaller are padded to it."""
    windows = window_sizes(size, output)
    plain = _plain(size, output)
    if len(windows) < 3:
        return plain
    first, middle, last = windows[0], windows[1], windows[-1]
    if first >= middle and last >= middle:
        return Side(middle, plain.stride)
    return Side(middle, middle - 1, max(0, middle - first), max(0, middle - last))


def adaptive_window(input_hw: Pair, output_hw: Pair) -> tuple[Side, Side]:
    plain = [_plain(size, out) for size, out in zip(input_hw, output_hw, strict=True)]
    windows = [window_sizes(size, out) for size, out in zip(input_hw, output_hw, strict=True)]
    if all(len(set(one)) == 1 for one in windows):
        return plain[0], plain[1]
    sides = [_fitted(size, out) for size, out in zip(input_hw, output_hw, strict=True)]
    return sides[0], sides[1]


def check_feasible(input_hw: Pair, output_hw: Pair, sides: tuple[Side, Side]) -> None:
    complaints = []
    for name, size, out in zip(("Height", "Width"), input_hw, output_hw, strict=True):
        windows = window_sizes(size, out)
        uneven = len(set(windows[1:-1])) > 1
        large = len(windows) > 2 and max(windows[0], windows[-1]) > windows[1]
        if uneven or large:
            pattern = ",".join(map(str, windows))
            complaints.append(
                f"{name} kernel pattern [{pattern}] - "
                + ("middle elements not uniform, " if uneven else "")
                + ("border elements larger than middle (padding won't help), " if large else "")
            )
    height, width = sides
    if not all(side.is_even(size, out) for side, size, out in zip(sides, input_hw, output_hw, strict=True)):
        complaints.append(
            f"Calculated pooling parameters (kernel=[{height.kernel},{width.kernel}], "
            f"stride=[{height.stride},{width.stride}], "
            f"padding=[{height.before},{height.after},{width.before},{width.after}]) do not produce uniform pooling "
            "behavior, "
        )
    fatal(
        not complaints,
        f"Adaptive pooling configuration not supported. {''.join(complaints)}Correctable patterns require uniform "
        "middle kernels AND borders <= middle AND calculated pooling parameters must produce uniform behavior. Input "
        f"shape: ({input_hw[0]},{input_hw[1]}), Output shape: ({output_hw[0]},{output_hw[1]}).",
    )


class _Adaptive(Pooling):
    def make_call(self, *, reallocate_output: bool, **given: Any) -> Call:  # type: ignore[override]
        return super().make_call(reallocate_halo_output=reallocate_output, **given)

    def _problem(self, given: dict[str, Any]) -> Pool:
        batch, height, width, channels = (given[name] for name in ("batch_size", "input_h", "input_w", "channels"))
        output_hw = pair(given["output_size"], "output_size")
        fatal(batch > 0, f"Pool2D: Batch size must be greater than 0, got {batch}", "  TT-NN ends the process here")
        fatal(min(output_hw) > 0, "output_size must be at least 1", "  TT-NN divides by it and ends the process")
        sides = adaptive_window((height, width), output_hw)
        check_feasible((height, width), output_hw, sides)
        rows, columns = sides
        return Pool(
            self.kind,
            batch,
            height,
            width,
            channels,
            (rows.kernel, columns.kernel),
            (rows.stride, columns.stride),
            (rows.before, rows.after, columns.before, columns.after),
            count_include_pad=False,
        )


@op("adaptive_avg_pool2d")
class AdaptiveAvgPool2d(_Adaptive):
    """The mean of each of `output_size` parts of the image."""

    kind = Kind.AVERAGE

    def arguments(
        self,
        input_tensor: Tensor,
        batch_size: int,
        input_h: int,
        input_w: int,
        channels: int,
        output_size: Sequence[int],
        *,
        memory_config: MemoryConfig | None = None,
        dram_slice_config: Op2DSliceConfig | None = None,
        applied_shard_scheme: TensorMemoryLayout | None = None,
        compute_kernel_config: WormholeComputeKernelConfig | None = None,
        deallocate_input: bool = False,
        reallocate_output: bool = True,
    ) -> Call:
        given = dict(locals())
        del given["self"]
        return self.make_call(**given)


@op("adaptive_max_pool2d")
class AdaptiveMaxPool2d(_Adaptive):
    """The largest value of each of `output_size` parts of the image."""

    kind = Kind.MAX

    arguments = arguments_like(AdaptiveAvgPool2d.arguments, without=("compute_kernel_config",))
