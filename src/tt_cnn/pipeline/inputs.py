# SPDX-License-Identifier: Apache-2.0
"""What a pipeline takes: host tensors like the one that it was compiled with."""

from __future__ import annotations

from typing import Any, NamedTuple

from tt_cnn import ttnn


def check_host_tensor(tensor: Any, refusal: str, name: str) -> None:
    """Only host tensors: the pipeline does the transfers."""
    if not isinstance(tensor, ttnn.Tensor):
        raise TypeError(f"{name} is a {type(tensor).__name__}; a pipeline takes ttnn.Tensor, see ttnn.from_torch")
    if tensor.storage_type() != ttnn.StorageType.HOST:
        raise ValueError(refusal)


class InputSpec(NamedTuple):
    """What every input has in common with the first: a trace and persistent tensors take no other."""

    shape: Any
    dtype: Any
    layout: Any

    @classmethod
    def of(cls, tensor: Any) -> InputSpec:
        return cls(tensor.shape, tensor.dtype, tensor.layout)

    def check(self, tensor: Any, index: int) -> None:
        if (tensor.shape, tensor.dtype, tensor.layout) == self:
            return
        for field, value in self._asdict().items():
            given = getattr(tensor, field)
            if given != value:
                raise ValueError(f"Input {index} has {field} {given}; the pipeline was compiled for {value}.")
