# SPDX-License-Identifier: Apache-2.0
"""Small questions about tensors of meshes: their parts, and tensors made of parts."""

from __future__ import annotations

from collections.abc import Sequence

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.tensors.storage import HostStorage
from tt_cnn.virtual.tensors.tensor import Tensor


def get_device_tensors(tensor: Tensor) -> list[Tensor]:
    """A tensor's parts, one per chip; a tensor on one chip is its own part."""
    host = tensor.cpu()
    values = host.host_values("get_device_tensors")
    if len(values) == 1:
        return [tensor]
    return [Tensor.on_host(tensor.spec, HostStorage([value])) for value in values]


def combine_device_tensors(*, tensors: Sequence[Tensor]) -> Tensor:
    """One tensor of parts that lie on one chip each."""
    fatal(len(tensors) > 0, "At least one tensor must be provided")
    if len(tensors) == 1:
        return tensors[0]
    first = tensors[0]
    fatal(all(t.spec == first.spec for t in tensors), "All tensors must have the same tensor spec")
    return Tensor.on_host(first.spec, HostStorage([t.cpu().host_values("combine_device_tensors")[0] for t in tensors]))
