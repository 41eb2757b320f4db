# SPDX-License-Identifier: Apache-2.0
"""Names of older TT-NN versions that programs still use, not in 0.81.1. They work, with a DeprecationWarning."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from torch.nn.functional import pad

from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.tensors.conversion import from_torch, to_torch
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.ttnn.device import ReadDeviceProfiler
from tt_cnn.virtual.ttnn.missing import VERSION
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, round_up


def convert_conv_weight_tensor_to_tiled_layout(
    conv_weight_tensor: Tensor, in1_block_h: int, in1_block_w: int, output_dtype: DataType | None = None
) -> Tensor:
    """Weights (O, I, H, W) of the host as a matrix for products: a row for each place of the window and input channel.

    Rows and columns are filled up with zeros to whole blocks of so many tiles.
    """
    weights = to_torch(conv_weight_tensor)
    matrix = weights.permute(2, 3, 1, 0).reshape(-1, weights.shape[0])
    rows, columns = matrix.shape
    more_columns = round_up(columns, in1_block_w * TILE_SIZE) - columns
    more_rows = round_up(rows, in1_block_h * TILE_SIZE) - rows
    whole = pad(matrix, (0, more_columns, 0, more_rows))[None, None]
    made = from_torch(whole, output_dtype or conv_weight_tensor.dtype, layout=Layout.TILE)
    assert made is not None, "there is a tensor to convert"
    return made


def read_device_profiler(device: MeshDevice) -> None:
    ReadDeviceProfiler(device)


_NAMES: dict[str, tuple[Callable[..., Any], str]] = {
    "convert_conv_weight_tensor_to_tiled_layout": (
        convert_conv_weight_tensor_to_tiled_layout,
        "give ttnn.linear the weights of a 1x1 convolution as a tiled matrix, or use ttnn.conv2d",
    ),
    "read_device_profiler": (read_device_profiler, "use ttnn.ReadDeviceProfiler"),
}


def older_name(name: str) -> Callable[..., Any] | None:
    """What an older version has by this name, reported once it is looked up."""
    if name not in _NAMES:
        return None
    function, hint = _NAMES[name]
    warnings.warn(f"ttnn.{name} is not in TT-NN {VERSION}: {hint}", DeprecationWarning, stacklevel=3)
    return function
