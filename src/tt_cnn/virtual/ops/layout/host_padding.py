# SPDX-License-Identifier: Apache-2.0
"""`Tensor.pad`, `pad_to_tile`, `unpad` and `unpad_from_tile`: host methods; padding leaves the logical shape alone."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.tensors.storage import HostStorage
from tt_cnn.virtual.tensors.tensor import Tensor, provides
from tt_cnn.virtual.types.enums import Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, Shape, round_up
from tt_cnn.virtual.types.tensor_spec import Spec


@provides("host_pad")
def pad(tensor: Tensor, output_shape: Sequence[int], start: Sequence[int], value: float) -> Tensor:
    """Rows in a larger frame; a tensor in tiles has its padding already and comes back as it is."""
    fatal(tensor._host is not None, "Tensor must be on host for padding")
    shape, begin = tuple(output_shape), tuple(start)
    if tensor.layout is Layout.TILE:
        return tensor
    have = tuple(tensor.padded_shape)
    have = (1,) * (len(shape) - len(have)) + have
    fits = len(shape) == len(have) == len(begin) and all(s + h <= o for s, h, o in zip(begin, have, shape, strict=True))
    fatal(fits, f"ttnn.Tensor.pad: a tensor padded to {have} at {begin} does not fit {shape}")
    spec = Spec(tensor.shape, tensor.dtype, tensor.layout, tensor.memory_config(), shape[-2:])
    fatal(
        tuple(spec.padded_shape) == shape,
        f"ttnn.Tensor.pad: only the last two dimensions of {tensor.shape} can be padded, not to {shape}",
    )
    frame = tuple(slice(s, s + h) for s, h in zip(begin, have, strict=True))
    values = []
    for old in tensor.host_values("pad"):
        new = torch.full(shape, value, dtype=old.dtype)
        new[frame] = old.reshape(have)
        values.append(new)
    return Tensor.on_host(spec, HostStorage(values))


@provides("host_pad_to_tile")
def pad_to_tile(tensor: Tensor, value: float) -> Tensor:
    dims = [1] * (2 - len(tensor.shape)) + list(tensor.shape)
    dims[-2:] = [round_up(d, TILE_SIZE) for d in dims[-2:]]
    return pad(tensor, dims, [0] * len(dims), value)


@provides("host_unpad")
def unpad(tensor: Tensor, start: Sequence[int], end: Sequence[int]) -> Tensor:
    """Cut out of the padded values; what is cut out is the new logical shape."""
    fatal(tensor._host is not None, "Tensor must be on host for unpadding")
    fatal(tensor.layout is Layout.ROW_MAJOR, "Tensor layout must be ROW_MAJOR for unpadding")
    have = tuple(tensor.padded_shape)
    inside = len(start) == len(end) == len(have) and all(
        0 <= a < b <= h for a, b, h in zip(start, end, have, strict=True)
    )
    fatal(inside, f"ttnn.Tensor.unpad: {tuple(start)} to {tuple(end)} is not inside {have}")
    frame = tuple(slice(a, b) for a, b in zip(start, end, strict=True))
    shape = Shape([b - a for a, b in zip(start, end, strict=True)])
    spec = Spec(shape, tensor.dtype, tensor.layout, tensor.memory_config())
    return Tensor.on_host(spec, HostStorage([v[frame].contiguous() for v in tensor.host_values("unpad")]))


@provides("host_unpad_from_tile")
def unpad_from_tile(tensor: Tensor, shape: Sequence[int]) -> Tensor:
    padded = tuple(tensor.padded_shape)[-2:]
    whole = len(padded) == 2 and not (padded[0] % TILE_SIZE or padded[1] % TILE_SIZE)
    fatal(whole, "Last 2 dims of input shape must be multiples of 32")
    return unpad(tensor, [0] * len(shape), list(shape))
