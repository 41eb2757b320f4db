# SPDX-License-Identifier: Apache-2.0
"""The commonly used part of TT-NN's `models.common.utility_functions`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional as F

from tt_cnn import ttnn
from tt_cnn.testing.pcc import comp_allclose, comp_allclose_and_pcc, comp_equal, comp_pcc, comp_ulp

if TYPE_CHECKING:
    import pytest

__all__ = [
    "Profiler",
    "comp_allclose",
    "comp_allclose_and_pcc",
    "comp_equal",
    "comp_pcc",
    "comp_ulp",
    "disable_memory_reports",
    "disable_persistent_kernel_cache",
    "divup",
    "enable_memory_reports",
    "enable_persistent_kernel_cache",
    "is_blackhole",
    "is_n300",
    "is_quasar",
    "is_single_chip",
    "is_wormhole_b0",
    "is_x2_harvested",
    "nearest_32",
    "nearest_y",
    "pad_and_fold_conv_filters_for_unity_stride",
    "profiler",
    "roundup",
    "roundup32",
    "run_for_blackhole",
    "run_for_wormhole_b0",
    "skip_for_blackhole",
    "skip_for_n_dev",
    "skip_for_wormhole_b0",
    "torch2tt_tensor",
    "torch_random",
    "torch_to_tt_tensor_rm",
    "tt2torch_tensor",
    "tt_to_torch_tensor",
]

# --- rounding ---------------------------------------------------------------------------------------------------


def divup(a: int, b: int) -> int:
    return -(-a // b)


def roundup(a: int, b: int) -> int:
    return b * divup(a, b)


def roundup32(a: int) -> int:
    return roundup(a, 32)


def nearest_y(x: int, y: int) -> int:
    return roundup(x, y)


def nearest_32(x: int) -> int:
    return roundup(x, 32)


_nearest_32 = nearest_32
_nearest_y = nearest_y

# --- which card ---------------------------------------------------------------------------------------------------


def is_wormhole_b0(device: Any = None) -> bool:
    return _arch(device) == "wormhole_b0"


def is_blackhole(device: Any = None) -> bool:
    return _arch(device) == "blackhole"


def is_quasar(device: Any = None) -> bool:
    return _arch(device) == "quasar"


def _arch(device: Any) -> str:
    """Of a device, or of the machine."""
    name = ttnn.get_arch_name() if device is None else str(device.arch())
    return name.rpartition(".")[2].lower()


def is_n300() -> bool:
    return is_wormhole_b0() and int(ttnn.get_num_devices()) == 2


def is_single_chip() -> bool:
    return int(ttnn.get_num_devices()) == 1


def is_x2_harvested(device: Any) -> bool:
    """Two rows of a Wormhole are out of use."""
    grid = device.compute_with_storage_grid_size()
    return is_wormhole_b0(device) and (grid.x, grid.y) == (8, 7)


def _skip_if(condition: bool, reason: str) -> pytest.MarkDecorator:
    import pytest  # models import this module for its arithmetic, where pytest need not be

    return pytest.mark.skipif(condition, reason=reason)


def run_for_wormhole_b0(reason_str: str = "only runs for Wormhole B0") -> pytest.MarkDecorator:
    return _skip_if(not is_wormhole_b0(), reason=reason_str)


def run_for_blackhole(reason_str: str = "only runs for Blackhole") -> pytest.MarkDecorator:
    return _skip_if(not is_blackhole(), reason=reason_str)


def skip_for_wormhole_b0(reason_str: str = "not working for Wormhole B0") -> pytest.MarkDecorator:
    return _skip_if(is_wormhole_b0(), reason=reason_str)


def skip_for_blackhole(reason_str: str = "not working for Blackhole") -> pytest.MarkDecorator:
    return _skip_if(is_blackhole(), reason=reason_str)


def skip_for_n_dev(n: int, reason_str: str = "not working for this number of devices") -> pytest.MarkDecorator:
    return _skip_if(int(ttnn.get_num_devices()) == n, reason=reason_str)


# --- tensors ------------------------------------------------------------------------------------------------------


def torch_random(shape: Any, low: float, high: float, dtype: torch.dtype) -> torch.Tensor:
    """Uniform numbers, whole ones for whole dtypes; booleans by chance."""
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, dtype=dtype)
    if dtype.is_floating_point:
        return torch.zeros(shape, dtype=dtype).uniform_(low, high)
    return torch.randint(int(low), int(high), shape, dtype=dtype)


def torch2tt_tensor(
    py_tensor: torch.Tensor,
    tt_device: Any,
    tt_layout: Any = ttnn.TILE_LAYOUT,
    tt_memory_config: Any = None,
    tt_dtype: Any = ttnn.bfloat16,
) -> Any:
    """A tensor of at least four dimensions on a device, or on the host without one."""
    value = _four_dimensions(py_tensor)
    return ttnn.from_torch(value, dtype=tt_dtype, layout=tt_layout, device=tt_device, memory_config=tt_memory_config)


def torch_to_tt_tensor_rm(py_tensor: torch.Tensor, device: Any, shape: Any = None, put_on_device: bool = True) -> Any:
    """A bfloat16 tensor in rows, of `shape` or at least four dimensions."""
    value = _four_dimensions(py_tensor) if shape is None else py_tensor.reshape(tuple(shape))
    return ttnn.from_torch(
        value, dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT, device=device if put_on_device else None
    )


def tt2torch_tensor(tt_tensor: Any) -> torch.Tensor:
    return ttnn.to_torch(tt_tensor)


tt_to_torch_tensor = tt2torch_tensor


def _four_dimensions(value: torch.Tensor) -> torch.Tensor:
    return value.detach().reshape((1,) * max(4 - value.dim(), 0) + tuple(value.shape))


def pad_and_fold_conv_filters_for_unity_stride(
    filter_pyt_nchw_tensor: torch.Tensor, stride_h: int, stride_w: int
) -> torch.Tensor:
    """A strided convolution's weight as that of a convolution with stride 1 on an input folded by the stride.

    Channels are padded to a multiple of 4 and the window to one of the stride; the folded channels are in the order
    row in the window, column in the window, channel.
    """
    outputs, channels, height, width = filter_pyt_nchw_tensor.shape
    if stride_h != stride_w or height != width:
        raise ValueError(f"window {(height, width)} and stride {(stride_h, stride_w)} must both be square")
    rows, columns, deep = roundup(height, stride_h), roundup(width, stride_w), roundup(channels, 4)
    padded = F.pad(filter_pyt_nchw_tensor, (0, columns - width, 0, rows - height, 0, deep - channels))
    parts = padded.reshape(outputs, deep, rows // stride_h, stride_h, columns // stride_w, stride_w)
    return parts.permute(0, 3, 5, 1, 2, 4).reshape(outputs, -1, rows // stride_h, columns // stride_w)


# --- measuring and switches ---------------------------------------------------------------------------------------


class Profiler:
    """Wall times by name: the mean of all that were started and ended."""

    def __init__(self) -> None:
        self.times: dict[str, list[float]] = {}
        self._started: dict[str, float] = {}
        self.disabled = False

    def enable(self) -> None:
        self.disabled = False

    def disable(self) -> None:
        self.disabled = True

    def clear(self) -> None:
        self.times.clear()
        self._started.clear()
        self.disabled = False

    def start(self, key: str, force_enable: bool = False) -> None:
        if force_enable or not self.disabled:
            self._started[key] = time.perf_counter()

    def end(self, key: str, PERF_CNT: int = 1, force_enable: bool = False) -> None:
        """PERF_CNT runs were between start and end."""
        if (force_enable or not self.disabled) and key in self._started:
            seconds = time.perf_counter() - self._started.pop(key)
            self.times.setdefault(key, []).append(seconds / PERF_CNT)

    def get(self, key: str) -> float:
        times = self.times.get(key, [])
        return sum(times) / len(times) if times else 0.0

    def print(self, units: str = "s") -> None:
        factor = {"s": 1.0, "ms": 1e3, "us": 1e6}[units]
        for key in self.times:
            print(f"{key}: {self.get(key) * factor:.3f}{units}")


profiler = Profiler()


def _nothing(reason: str) -> Callable[[], None]:
    def switch() -> None:
        pass

    switch.__doc__ = reason
    return switch


enable_persistent_kernel_cache = _nothing("There are no kernels to keep; TT-NN has no such switch any more.")
disable_persistent_kernel_cache = _nothing("There are no kernels to keep; TT-NN has no such switch any more.")
enable_memory_reports = _nothing("Memory is inspected with `tt-cnn`, not with files that each run leaves behind.")
disable_memory_reports = _nothing("Memory is inspected with `tt-cnn`, not with files that each run leaves behind.")
