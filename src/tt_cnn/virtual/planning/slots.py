# SPDX-License-Identifier: Apache-2.0
"""Tensors, tables and circular buffers of a plan: they have sizes, and get addresses when the plan is placed."""

from __future__ import annotations

from typing import NamedTuple

from tt_cnn.virtual.types.enums import BufferType
from tt_cnn.virtual.types.geometry import CoreRangeSet
from tt_cnn.virtual.types.tensor_spec import Spec


class Slot(NamedTuple):
    """A tensor of the plan. Slots with the same `buffer` share memory (views, in-place results)."""

    id: int
    buffer: int
    spec: Spec


class AllocateConfig(NamedTuple):
    """A table of a program: a row for each core in L1_SMALL, or a tensor in DRAM. It stays while the program does."""

    bank_bytes: int
    cores: int
    buffer: int
    buffer_type: BufferType = BufferType.L1_SMALL
    row_bytes: int = 0
    """Of one core's part, without what aligns it; 0 where that is not known."""
    spec: Spec | None = None
    """Of a tensor in DRAM, whose rows programs copy to their cores."""


class CircularBuffer(NamedTuple):
    """A circular buffer of a program: its bytes per core, its cores, and the tensor whose memory it borrows, if any.

    `name` says what is in it, and no two buffers of a program have the same. `dataflow` marks the newer dataflow
    buffers, whose addresses the real library does not tell; `scratch` those of them that are a kernel's private
    scratchpad: they take L1 and count in the peak, but are no buffer between kernels. `offset` says where in the
    tensor's memory a borrowed one begins.
    """

    bytes: int
    cores: CoreRangeSet
    alias: Slot | AllocateConfig | None = None
    dataflow: bool = False
    scratch: bool = False
    name: str = ""
    offset: int = 0
