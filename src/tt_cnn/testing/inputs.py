# SPDX-License-Identifier: Apache-2.0
"""Random inputs of a model, as torch has them and as TT-NN takes them."""

from __future__ import annotations

from typing import Any, Literal

import torch

from tt_cnn import ttnn

MINIMUM_CHANNELS = 16
"""What TT-NN's convolutions want at least, so that a row of a shard is aligned."""


def pad_channels_up_to_target(input_tensor: torch.Tensor, target: int = MINIMUM_CHANNELS) -> torch.Tensor:
    """An image (N, C, H, W) with zeros for channels up to `target`."""
    if input_tensor.dim() != 4:
        raise ValueError(f"the input has {input_tensor.dim()} dimensions; it must have 4: N, C, H, W")
    missing = max(target - input_tensor.shape[1], 0)
    return torch.nn.functional.pad(input_tensor, (0, 0, 0, 0, 0, missing))


def create_random_input_tensor(
    batch_size: int = 1,
    groups: int = 1,
    input_channels: int = 4,
    input_height: int = 1056,
    input_width: int = 160,
    channel_order: Literal["first", "last"] = "last",
    fold: bool = True,
    pad: bool = True,
    device: Any = None,
    memory_config: Any = None,
    mesh_mapper: Any = None,
    *,
    ttnn_dtype: Any = None,
    torch_dtype: torch.dtype = torch.float32,
    layout: Any = None,
    batch: int | None = None,
) -> tuple[torch.Tensor, Any]:
    """A random image (N, C, H, W) of torch and the same values as a TT-NN tensor.

    The torch tensor holds what `ttnn_dtype` (bfloat16) can hold, so that a comparison sees the model's error alone.
    channel_order: "first" keeps NCHW, "last" makes NHWC. fold: height and width become one dimension, (N, 1, HW, C) or
    (N, 1, C, HW). pad: fewer than 16 channels become 16, with zeros, in the TT-NN tensor only. On a mesh, `mesh_mapper`
    deals it out. `batch` is another name of batch_size.
    """
    if channel_order not in ("first", "last"):
        raise ValueError(f"channel_order is {channel_order!r}; it must be 'first' or 'last'")
    images = batch_size if batch is None else batch
    dtype = ttnn.bfloat16 if ttnn_dtype is None else ttnn_dtype
    if dtype == ttnn.bfloat16:
        image = torch.randn(images, input_channels * groups, input_height, input_width).bfloat16().to(torch_dtype)
    else:
        image = torch.randn(images, input_channels * groups, input_height, input_width, dtype=torch_dtype)
    value = pad_channels_up_to_target(image) if pad else image
    channels = value.shape[1]
    if channel_order == "last":
        value = value.permute(0, 2, 3, 1)
    if fold:
        pixels = input_height * input_width
        value = value.reshape(images, 1, *((pixels, channels) if channel_order == "last" else (channels, pixels)))
    tensor = ttnn.from_torch(
        value.contiguous(),
        dtype=dtype,
        layout=layout,
        device=device,
        memory_config=memory_config,
        mesh_mapper=mesh_mapper,
    )
    return image, tensor
