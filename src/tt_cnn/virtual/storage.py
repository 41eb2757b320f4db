"""Where values live: a cell on the card for each buffer, a cell on the host for each host tensor.

Values are torch tensors in the padded shape, one for each chip. They are never changed in place: a write puts a new
tensor into the cell. Floating formats are carried as float32 numbers that the format can hold exactly, so that the
host computes with them at full speed.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import torch

from tt_cnn.virtual.errors import CardError
from tt_cnn.virtual.placement import Place
from tt_cnn.virtual.types.enums import DataType
from tt_cnn.virtual.types.tensor_spec import Spec

if TYPE_CHECKING:
    from tt_cnn.virtual.device import MeshDevice

CARRIER: dict[DataType, torch.dtype] = {
    DataType.BFLOAT16: torch.float32,
    DataType.FLOAT32: torch.float32,
    DataType.BFLOAT8_B: torch.float32,
    DataType.BFLOAT4_B: torch.float32,
    DataType.UINT32: torch.int64,
    DataType.INT32: torch.int32,
    DataType.UINT16: torch.int32,
    DataType.UINT8: torch.uint8,
    DataType.INT8: torch.int8,
}


class Cell:
    """The values behind one device buffer. Commands hold cells, so data outlives an early deallocation."""

    __slots__ = ("values",)

    def __init__(self) -> None:
        self.values: list[torch.Tensor] | None = None

    def read(self, spec: Spec, chips: int, device: torch.device) -> list[torch.Tensor]:
        """The values under a spec; memory that was never written reads as zeros here."""
        if self.values is None:
            zeros = torch.zeros(tuple(spec.padded_shape), dtype=CARRIER[spec.dtype], device=device)
            return [zeros] * chips
        shape = tuple(spec.padded_shape)
        return [v if tuple(v.shape) == shape else v.reshape(shape) for v in self.values]


class Buffer:
    """Memory of the card held by tensors; given back when the last of them is gone, or when told to."""

    def __init__(self, device: MeshDevice, place: Place, spec: Spec) -> None:
        self.device = device
        self.place = place
        self.spec = spec
        self.cell = Cell()
        self.owners = 0
        self.allocated = True
        self.freed_by = ""
        self.serial = 0
        self.made_by = ""
        self.written = False
        """A command that writes it was enqueued."""

    def free(self, by: str) -> None:
        """Give the memory back. Doing it twice is harmless, as on the card."""
        with self.device.lock:
            if self.allocated:
                self.allocated = False
                self.freed_by = by
                self.device.release(self)

    def __del__(self) -> None:
        if self.allocated and not self.device.closed:
            self.free("its last reference went away")


class HostStorage:
    """Values on the host, one tensor a chip (one in all for a tensor that was never distributed)."""

    __slots__ = ("pending", "values")

    def __init__(self, values: list[torch.Tensor] | None, pending: threading.Event | None = None) -> None:
        self.values = values
        self.pending = pending

    def get(self) -> list[torch.Tensor]:
        if self.pending is not None:
            self.pending.wait()
        if self.values is None:
            raise CardError("The host tensor was never filled: the read that should fill it failed or was not made.")
        return self.values
