# SPDX-License-Identifier: Apache-2.0
"""Weights as the card holds them, and what is made of them once and used by every call."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tt_cnn.virtual.numerics.convolution.inner import TILE, Inner
from tt_cnn.virtual.numerics.fidelity import effective_operands, split_a, to_source
from tt_cnn.virtual.numerics.formats import host_round
from tt_cnn.virtual.types.enums import DataType, MathFidelity


class Weights:
    """Weights (out, in / groups, height, width) in a weights format.

    The host rounds them as a matrix whose rows are output channels: 16 of those share an exponent in the block
    formats, whatever the order of the rows. Results that depend on them alone are kept.
    """

    def __init__(self, values: Tensor, dtype: DataType, groups: int = 1, *, rounded: bool = False) -> None:
        """`rounded`: the values are those of the format already."""
        self.dtype = dtype
        self.groups = groups
        self.values = values
        self._kept: dict[Any, Any] = {}
        if not rounded:
            # The matrix is made dense before it is rounded: a group's zeros count in the blocks of the others.
            self._kept["dense"] = _rounded(self._dense(), dtype)
            self.values = self._own_blocks(self._kept["dense"])

    def _keep(self, key: Any, make: Any) -> Any:
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    def dense(self) -> Tensor:
        """Without groups: (out, in, height, width), zeros where a group does not look."""
        return self._keep("dense", self._dense)

    def _dense(self) -> Tensor:
        if self.groups == 1:
            return self.values
        out, inner, height, width = self.values.shape
        dense = self.values.new_zeros(self.groups, out // self.groups, self.groups, inner, height, width)
        own = torch.arange(self.groups, device=dense.device)
        dense[own, :, own] = self.values.reshape(self.groups, -1, inner, height, width)
        return dense.reshape(out, self.groups * inner, height, width)

    def _own_blocks(self, dense: Tensor) -> Tensor:
        """The reverse: what groups look at."""
        if self.groups == 1:
            return dense
        out, inner, height, width = self.values.shape
        blocks = dense.reshape(self.groups, out // self.groups, self.groups, inner, height, width)
        own = torch.arange(self.groups, device=dense.device)
        return blocks[own, :, own].reshape(out, inner, height, width)

    def taps(self) -> Tensor:
        """(taps * channels + 1, output channels padded to tiles): rows as `Inner` numbers them, the last of zeros."""
        dense = self.dense()
        rows = dense.permute(2, 3, 1, 0).reshape(-1, dense.shape[0])
        return F.pad(rows, (0, -dense.shape[0] % TILE, 0, 1))

    def prepared(self, inner: Inner) -> Tensor:
        """The prepared weight matrix, without the padding of its columns beyond tiles."""
        return self.taps()[inner.prepared_rows().to(self.values.device)]

    def worked(self, inner: Inner) -> Tensor:
        """The matrix in the order in which it is worked through, as it stands in a source register."""
        return self._keep(inner, lambda: to_source(self.taps()[inner.worked_rows().to(self.values.device)], self.dtype))

    def seen(self, fidelity: MathFidelity, scale: float) -> tuple[Tensor, Tensor]:
        """(all, high): what the multiplier sees of them, in torch's layout for channels-last images, times `scale`.

        The second is the high part, which alone meets the low part of activations at HiFi3.
        """
        return self._keep((fidelity, scale), lambda: self._seen(fidelity, scale))

    def _seen(self, fidelity: MathFidelity, scale: float) -> tuple[Tensor, Tensor]:
        source = to_source(self.values, self.dtype)
        high, low = split_a(source)
        operands = effective_operands(source, source, fidelity)
        every = high + low if operands is None else operands[0]
        return _channels_last(every * scale), _channels_last(high * scale)

    @staticmethod
    def of_prepared(matrix: Tensor, inner: Inner, out_channels: int, dtype: DataType) -> Weights:
        """The weights of a prepared matrix (rows, columns); groups stay spread out."""
        rows = inner.prepared_rows().to(matrix.device)
        height, width = inner.kernel
        taps = matrix.new_zeros(inner.blank + 1, out_channels)
        taps[rows] = matrix[: len(rows), :out_channels]
        values = taps[:-1].reshape(height, width, inner.channels, out_channels).permute(3, 2, 0, 1)
        return Weights(values.contiguous(), dtype, rounded=True)


def rounded_bias(bias: Tensor, dtype: DataType) -> Tensor:
    """A bias (out channels) as a padded row of tiles in the weights' format."""
    return host_round(F.pad(bias.reshape(1, -1), (0, -bias.numel() % TILE)), dtype)


def _rounded(values: Tensor, dtype: DataType) -> Tensor:
    rows = values.permute(2, 3, 1, 0)
    out = rows.shape[-1]
    return host_round(F.pad(rows, (0, -out % TILE)).contiguous(), dtype)[..., :out].permute(3, 2, 0, 1)


def _channels_last(values: Tensor) -> Tensor:
    return values.contiguous(memory_format=torch.channels_last)
