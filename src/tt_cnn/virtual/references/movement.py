# SPDX-License-Identifier: Apache-2.0
"""Ops that move values and change none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tt_cnn.virtual.references.registry import golden

_SAME_VALUES = (
    "clone",
    "interleaved_to_sharded",
    "move",
    "reallocate",
    "reshard",
    "sharded_to_interleaved",
    "tilize",
    "to_layout",
    "to_memory_config",
    "typecast",
    "untilize",
)


@golden(*_SAME_VALUES)
def _same(**arguments: Any) -> Tensor:
    """Into another layout, place or dtype; what a dtype rounds away counts as the op's error."""
    x: Tensor = next(iter(arguments.values()))
    return x


@golden("reshape", "view")
def _reshape(input_tensor: Tensor, shape: Any = None, logical_shape: Any = None, **_: Any) -> Tensor:
    return input_tensor.reshape(tuple(shape if shape is not None else logical_shape))


_METHODS: dict[str, Callable[..., Tensor]] = {
    "expand": lambda input_tensor, output_shape, **_: input_tensor.expand(tuple(output_shape)),
    "permute": lambda input_tensor, dims, **_: input_tensor.permute(tuple(dims)),
    "repeat": lambda input_tensor, repeat_dims, **_: input_tensor.repeat(tuple(repeat_dims)),
    "repeat_interleave": lambda input_tensor, repeats, dim, **_: input_tensor.repeat_interleave(repeats, dim=dim),
    "roll": lambda input_tensor, shifts, dim, **_: input_tensor.roll(shifts, dim),
    "squeeze": lambda input_tensor, dim, **_: input_tensor.squeeze() if dim is None else input_tensor.squeeze(dim),
    "stack": lambda tensors, dim, **_: torch.stack(tuple(tensors), dim=dim),
    "transpose": lambda input_tensor, dim1, dim2, **_: input_tensor.transpose(dim1, dim2),
    "unsqueeze": lambda input_tensor, dim, **_: input_tensor.unsqueeze(dim),
}
"""Ops that torch has under the same name."""
for _name, _method in _METHODS.items():
    golden(_name)(_method)


@golden("concat")
def _concat(tensors: Sequence[Tensor], dim: int = 0, groups: int = 1, **_: Any) -> Tensor:
    """With groups, the first group of each tensor comes before the second of any."""
    parts = [x.chunk(groups, dim=dim) for x in tensors]
    return torch.cat([group for together in zip(*parts, strict=True) for group in together], dim=dim)


@golden("split")
def _split(input_tensor: Tensor, split_size: Any, dim: int = 0, **_: Any) -> list[Tensor]:
    return list(input_tensor.split(split_size if isinstance(split_size, int) else list(split_size), dim=dim))


@golden("chunk")
def _chunk(input_tensor: Tensor, chunks: int, dim: int = 0, **_: Any) -> list[Tensor]:
    return list(input_tensor.chunk(chunks, dim=dim))


@golden("slice")
def _slice(
    input_tensor: Tensor,
    slice_start: Sequence[int] | None = None,
    slice_end: Sequence[int] | None = None,
    slice_step: Sequence[int] | None = None,
    starts: Sequence[int] | None = None,
    ends: Sequence[int] | None = None,
    steps: Sequence[int] | None = None,
    **_: Any,
) -> Tensor:
    begin, end, step = slice_start or starts, slice_end or ends, slice_step or steps
    assert begin is not None and end is not None
    strides = step or [1] * len(begin)
    return input_tensor[tuple(slice(b, e, s) for b, e, s in zip(begin, end, strides, strict=True))]


@golden("pad")
def _pad(
    input_tensor: Tensor, padding: Sequence[Any], values: Sequence[Any] = (), value: float | None = None, **_: Any
) -> Tensor:
    """Pairs for the last dimensions, the first of them first."""
    fill = value if value is not None else values[0] if values else 0.0
    pairs = [tuple(pair) for pair in padding]
    return F.pad(input_tensor, [side for pair in reversed(pairs) for side in pair], value=fill)


@golden("experimental.convert_to_hwc")
def _convert_to_hwc(input: Tensor, **_: Any) -> Tensor:
    """(N, 1, C, HW) as (1, 1, NHW, C), channels filled up with zeros to whole eights."""
    rows = input.transpose(-2, -1).reshape(1, 1, -1, input.shape[-2])
    return F.pad(rows, (0, -rows.shape[-1] % 8))


@golden("experimental.convert_to_chw")
def _convert_to_chw(input: Tensor, **_: Any) -> Tensor:
    """(1, 1, HW, C) as (1, 1, C, HW)."""
    return input.transpose(-2, -1)


def _heads(x: Tensor, queries: int, keys: int | None, turned: bool) -> tuple[Tensor, Tensor, Tensor]:
    keys = queries if keys is None else keys
    batch, rows, _ = x.shape
    cut = x.reshape(batch, rows, queries + 2 * keys, -1).transpose(1, 2)
    q, k, v = cut.split([queries, keys, keys], 1)
    return q, k.transpose(2, 3) if turned else k, v


@golden("transformer.split_query_key_value_and_split_heads")
def _split_heads(
    input_tensor: Tensor,
    kv_input_tensor: Tensor | None = None,
    num_heads: int = 1,
    num_kv_heads: int | None = None,
    transpose_key: bool = True,
    **_: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    whole = input_tensor if kv_input_tensor is None else torch.cat([input_tensor, kv_input_tensor], -1)
    return _heads(whole, num_heads, num_kv_heads, transpose_key)
