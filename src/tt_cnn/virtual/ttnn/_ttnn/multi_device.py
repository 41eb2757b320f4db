# SPDX-License-Identifier: Apache-2.0
"""`ttnn._ttnn.multi_device`: the chips of the machine, before any is opened."""

from __future__ import annotations

from tt_cnn.virtual.devices.opening import get_num_devices
from tt_cnn.virtual.types.geometry import MeshShape


class SystemMeshDescriptor:
    """The mesh of all chips; they belong to one host."""

    def shape(self) -> MeshShape:
        return MeshShape(1, get_num_devices())

    def local_shape(self) -> MeshShape:
        return self.shape()

    def all_local(self) -> bool:
        return True
