# SPDX-License-Identifier: Apache-2.0
"""`tensor[...]`: Python's indices as a slice, and a squeeze for the dimensions that were given a single index."""

from __future__ import annotations

from typing import Any

from tt_cnn.virtual.ops.operation import OPERATIONS
from tt_cnn.virtual.ops.shape.slice.slice import cut
from tt_cnn.virtual.tensors.conversion import host_tensor, unpad
from tt_cnn.virtual.tensors.tensor import Tensor, provides


@provides("getitem")
def getitem(tensor: Tensor, index: Any) -> Tensor:
    indices = _completed(index, len(tensor.shape))
    begins, ends, steps, single = [], [], [], []
    for dim, one in enumerate(indices):
        extent = tensor.shape[dim]
        if isinstance(one, int):
            at = one if one >= 0 else one + extent
            if not 0 <= at < extent:
                raise IndexError(
                    f"Index {one} (converted to {at}) is out of bounds for dimension {dim} of size {extent}"
                )
            one = slice(at, at + 1, 1)
            single.append(dim)
        elif not isinstance(one, slice):
            raise TypeError(f"Invalid slice type: {one}")
        begins.append(0 if one.start is None else one.start)
        ends.append(extent if one.stop is None else one.stop)
        steps.append(1 if one.step is None else one.step)
    result: Tensor = (
        _host_box(tensor, begins, ends, steps)
        if tensor._buffer is None
        else OPERATIONS["slice"](tensor, begins, ends, steps)
    )
    for gone, dim in enumerate(single):  # one by one from the front, as the real library squeezes
        result = OPERATIONS["squeeze"](result, dim - gone)
    return result


def _host_box(tensor: Tensor, begins: list[int], ends: list[int], steps: list[int]) -> Tensor:
    if any(step != 1 for step in steps):
        raise RuntimeError("Host tensors cannot be accessed with non-unit stride")
    values = [cut(unpad(v, tuple(tensor.shape)), begins, ends, steps) for v in tensor.host_values("Tensor.__getitem__")]
    return host_tensor(values, tensor.dtype, tensor.layout, tensor.memory_config())


def _completed(index: Any, rank: int) -> list[Any]:
    """One index a dimension: an ellipsis stands for as many whole dimensions as are missing."""
    indices = [index] if isinstance(index, (int, slice)) or index is Ellipsis else list(index)
    places = [i for i, one in enumerate(indices) if one is Ellipsis]
    if len(places) > 1:
        raise ValueError("Only one ellipsis ('...') is allowed in a slice.")
    given = len(indices) - len(places)
    if given > rank:
        raise IndexError(f"Too many indices for tensor of dimension {rank}")
    missing = [slice(None)] * (rank - given)
    at = places[0] if places else len(indices)
    return indices[:at] + missing + indices[at + 1 :]
