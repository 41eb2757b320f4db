# SPDX-License-Identifier: Apache-2.0
"""`ttnn.device`: opening and closing, and questions about a device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tt_cnn.virtual.devices.device import MeshDevice as MeshDevice
from tt_cnn.virtual.devices.opening import CloseDevice as CloseDevice
from tt_cnn.virtual.devices.opening import CreateDevice as CreateDevice
from tt_cnn.virtual.devices.opening import DispatchCoreAxis as DispatchCoreAxis
from tt_cnn.virtual.devices.opening import DispatchCoreConfig as DispatchCoreConfig
from tt_cnn.virtual.devices.opening import DispatchCoreType as DispatchCoreType
from tt_cnn.virtual.devices.opening import GetDefaultDevice as GetDefaultDevice
from tt_cnn.virtual.devices.opening import GetNumAvailableDevices as GetNumAvailableDevices
from tt_cnn.virtual.devices.opening import SetDefaultDevice as SetDefaultDevice
from tt_cnn.virtual.devices.opening import close_device as close_device
from tt_cnn.virtual.devices.opening import default_card
from tt_cnn.virtual.devices.opening import dump_device_memory_state as dump_device_memory_state
from tt_cnn.virtual.devices.opening import get_memory_view as get_memory_view
from tt_cnn.virtual.devices.opening import manage_device as manage_device
from tt_cnn.virtual.devices.opening import open_device as open_device
from tt_cnn.virtual.devices.synchronization import synchronize_device as synchronize_device
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ttnn.missing import resolver
from tt_cnn.virtual.types import Arch as Arch
from tt_cnn.virtual.types import BufferType
from tt_cnn.virtual.types import init_device_compute_kernel_config as init_device_compute_kernel_config

Device = MeshDevice
DEFAULT_L1_SMALL_SIZE = 0
DEFAULT_TRACE_REGION_SIZE = 0


def _arch(device: MeshDevice | None) -> Arch:
    return default_card().arch if device is None else device.arch()


def is_wormhole_b0(device: MeshDevice | None = None) -> bool:
    return _arch(device) is Arch.WORMHOLE_B0


def is_blackhole(device: MeshDevice | None = None) -> bool:
    return _arch(device) is Arch.BLACKHOLE


def is_trace_capture_active(device: MeshDevice) -> bool:
    return device.capturing is not None


def get_allocator_base_address(device: MeshDevice, buffer_type: BufferType) -> int:
    """The lowest address that tensors of this kind may have."""
    return device.memory.regions[buffer_type].base


def get_dram_alignment() -> int:
    return default_card().dram_alignment


def get_l1_alignment() -> int:
    return default_card().l1_alignment


def ReadDeviceProfiler(device: MeshDevice, *args: Any, **kwargs: Any) -> None:
    """Waits for the device, as the real one does before it reads; the virtual card keeps no profiler buffer."""
    device.synchronize()


def GetNumPCIeDevices() -> int:
    """Chips that the host reaches itself."""
    return default_card().links


def GetPCIeDeviceID(device_id: int) -> int:
    """The chip through which the host reaches this one. The machine's first ones are those with links."""
    fatal(0 <= device_id < GetNumAvailableDevices(), f"Device {device_id} is not there")
    return device_id % GetNumPCIeDevices()


def get_pcie_device_ids() -> list[int]:
    return list(range(GetNumPCIeDevices()))


def CreateDevices(device_ids: Sequence[int], **options: Any) -> dict[int, MeshDevice]:
    """A device for each chip, by its number."""
    return {device_id: CreateDevice(device_id, **options) for device_id in device_ids}


def CloseDevices(devices: Mapping[int, MeshDevice]) -> None:
    if not isinstance(devices, Mapping):
        raise TypeError(f"CloseDevices takes what CreateDevices gave, devices by their number, not {devices!r}")
    for device in devices.values():
        close_device(device)


def EnableMemoryReports() -> None:
    """Memory is inspected with `tt-cnn memory`, not with files that each run leaves behind."""


def DisableMemoryReports() -> None:
    """There are none."""


__getattr__ = resolver("device.")
