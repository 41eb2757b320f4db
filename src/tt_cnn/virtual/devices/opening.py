# SPDX-License-Identifier: Apache-2.0
"""Opening and closing cards, with TT-NN's functions and a few arguments of our own.

`card`, `numerics`, `engine`, `hazards` and `precision` are ours; without them the environment decides (`TT_CNN_CARD`,
`TT_CNN_NUMERICS`, `TT_CNN_ENGINE`, `TT_CNN_HAZARDS`, `TT_CNN_PRECISION`), so that code written for TT-NN needs no
change. `guard` and `samples` belong to `precision="int8"` and `"fp8"`.
"""

from __future__ import annotations

import atexit
import gc
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from weakref import WeakValueDictionary

from tt_cnn.virtual.arch import Card, card_by_name
from tt_cnn.virtual.arguments.refusals import refuse_unfollowed
from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.errors.card_error import CardError
from tt_cnn.virtual.types.enums import BufferType, NativeEnum
from tt_cnn.virtual.types.geometry import CoreCoord, MeshShape

_DEFAULTS = {"card": "n150", "numerics": "device", "engine": "cpu", "hazards": "warn", "precision": "float32"}
_CHOICES = ("numerics", "engine", "hazards", "precision")
_open: WeakValueDictionary[int, MeshDevice] = WeakValueDictionary()
"""Devices by chip; one that nothing holds any more is as good as closed."""
_default: list[MeshDevice | None] = [None]
recorded_devices: list[MeshDevice] = []
"""Devices whose commands a report records; they need not have been opened by a user."""


class DispatchCoreType(NativeEnum):
    WORKER = 0
    ETH = 1


class DispatchCoreAxis(NativeEnum):
    ROW = 0
    COL = 1


class DispatchCoreConfig:
    """Where dispatch runs. Only on an n300 does it change what ops may use."""

    def __init__(self, type: DispatchCoreType | None = None, axis: DispatchCoreAxis | None = None, **_: Any) -> None:
        self.type = type
        self.axis = axis


def option(name: str, given: str | None) -> str:
    return given or os.environ.get(f"TT_CNN_{name.upper()}") or _DEFAULTS[name]


def default_card() -> Card:
    return card_by_name(option("card", None))


def _card(name: str | None, dispatch: DispatchCoreConfig | None, grid: CoreCoord | Sequence[int] | None = None) -> Card:
    card = card_by_name(option("card", name))
    if grid is not None:
        columns, rows = (grid.x, grid.y) if isinstance(grid, CoreCoord) else grid
        return card.with_grid((int(columns), int(rows)))
    if dispatch is not None and dispatch.type is DispatchCoreType.WORKER:
        return card.with_tensix_dispatch()
    return card


def _open_chips(card: Card, chips: Sequence[int], shape: MeshShape, **options: Any) -> MeshDevice:
    available = GetNumAvailableDevices(card)
    for chip in chips:
        if not isinstance(chip, int) or not 0 <= chip < available:
            raise CardError(
                f"device_id is {chip}; the virtual {card.name} has {available} device{'s' * (available > 1)}, 0 to "
                f"{available - 1}."
            )
        if _is_open(chip):
            raise CardError(f"Device {chip} is already open. Close it with ttnn.close_device before opening it again.")
    options |= {name: option(name, options[name]) for name in _CHOICES}
    device = MeshDevice(card, shape=shape, device_ids=chips, **options)
    for chip in chips:
        _open[chip] = device
    return device


def _is_open(chip: int) -> bool:
    if chip in _open and not _open[chip].closed:
        gc.collect()  # a dropped device may be waiting in a cycle
    return chip in _open and not _open[chip].closed


def open_devices() -> list[MeshDevice]:
    return [device for device in dict.fromkeys(_open.values()) if not device.closed]


def _forget_open() -> None:
    """In the child of a fork: what the parent has open is the parent's."""
    _open.clear()
    _default[0] = None


os.register_at_fork(after_in_child=_forget_open)


@atexit.register
def _close_all() -> None:
    """No worker may run while Python goes down."""
    for device in open_devices():
        with suppress(Exception):
            device.close()


def open_device(
    *,
    device_id: int = 0,
    l1_small_size: int = 0,
    trace_region_size: int = 0,
    num_command_queues: int = 1,
    dispatch_core_config: DispatchCoreConfig | None = None,
    worker_l1_size: int = 0,
    card: str | None = None,
    grid: CoreCoord | Sequence[int] | None = None,
    numerics: str | None = None,
    engine: str | None = None,
    hazards: str | None = None,
    precision: str | None = None,
    guard: float | None = None,
    samples: int | None = None,
) -> MeshDevice:
    """Open one chip of the virtual card.

    `grid`: columns and rows of cores that ops may use, where the board's are not the card's usual ones: `(13, 10)` on a
    p150 whose dispatch leaves them. `card="p150-13x10"` says the same.

    With `numerics="native"`, `precision="int8"` lets compiled replays compute in 8 bits where the PCC of their outputs
    against float32 stays above `guard` (0.99); with `engine="cuda"` too it is `"fp8"`. The first `samples` (4)
    different inputs are replayed as they would be without it.
    """
    refuse_unfollowed("open_device", worker_l1_size=worker_l1_size or None)
    return _open_chips(
        _card(card, dispatch_core_config, grid),
        [device_id],
        MeshShape(1, 1),
        numerics=numerics,
        engine=engine,
        hazards=hazards,
        precision=precision,
        guard=guard,
        samples=samples,
        l1_small_size=l1_small_size,
        trace_region_size=trace_region_size,
        num_command_queues=num_command_queues,
    )


def CreateDevice(
    device_id: int,
    num_command_queues: int = 1,
    l1_small_size: int = 0,
    trace_region_size: int = 0,
    dispatch_core_config: DispatchCoreConfig | None = None,
    *,
    worker_l1_size: int = 0,
    **ours: Any,
) -> MeshDevice:
    return open_device(
        device_id=device_id,
        num_command_queues=num_command_queues,
        l1_small_size=l1_small_size,
        trace_region_size=trace_region_size,
        dispatch_core_config=dispatch_core_config,
        worker_l1_size=worker_l1_size,
        **ours,
    )


def open_mesh_device(
    mesh_shape: MeshShape | None = None,
    l1_small_size: int = 0,
    trace_region_size: int = 0,
    num_command_queues: int = 1,
    dispatch_core_config: DispatchCoreConfig | None = None,
    offset: Any = None,
    physical_device_ids: Sequence[int] = (),
    worker_l1_size: int = 0,
    *,
    card: str | None = None,
    grid: CoreCoord | Sequence[int] | None = None,
    numerics: str | None = None,
    engine: str | None = None,
    hazards: str | None = None,
    precision: str | None = None,
    guard: float | None = None,
    samples: int | None = None,
) -> MeshDevice:
    """Open a row of chips for data parallelism. A mesh may be larger than one card: several cards are assumed."""
    refuse_unfollowed("open_mesh_device", offset=offset, worker_l1_size=worker_l1_size or None)
    chosen = _card(card, dispatch_core_config, grid)
    shape = mesh_shape if mesh_shape is not None else MeshShape(1, chosen.chips)
    if not isinstance(shape, MeshShape):
        shape = MeshShape(*shape)
    if shape.dims() != 2 or 0 in tuple(shape):
        raise CardError(f"mesh_shape is {shape}; it must have rows and columns")
    ids = list(physical_device_ids) or list(range(shape.mesh_size()))
    if len(ids) != shape.mesh_size():
        raise CardError(f"mesh_shape {shape} needs {shape.mesh_size()} device ids; {len(ids)} were given")
    return _open_chips(
        chosen,
        ids,
        shape,
        numerics=numerics,
        engine=engine,
        hazards=hazards,
        precision=precision,
        guard=guard,
        samples=samples,
        l1_small_size=l1_small_size,
        trace_region_size=trace_region_size,
        num_command_queues=num_command_queues,
    )


def close_device(device: MeshDevice) -> None:
    if not isinstance(device, MeshDevice):
        raise TypeError(f"close_device takes a device; it was given a {type(device).__name__}")
    try:
        device.close()
    finally:
        for chip in device.get_device_ids():
            if _open.get(chip) is device:
                del _open[chip]
        if _default[0] is device:
            _default[0] = None


close_mesh_device = close_device
CloseDevice = close_device


@contextmanager
def manage_device(device_id: int, **kwargs: Any) -> Iterator[MeshDevice]:
    """A device for the length of a `with` block."""
    device = open_device(device_id=device_id, **kwargs)
    try:
        yield device
    finally:
        close_device(device)


MESH_LIMIT = 32
"""Chips that a mesh of virtual cards may have."""


def GetNumAvailableDevices(card: Card | None = None) -> int:
    """Chips that can be opened: the machine is taken to hold as many cards as a mesh asks for, up to a limit."""
    return max((card or default_card()).chips, int(os.environ.get("TT_CNN_DEVICES", MESH_LIMIT)))


def get_num_devices() -> int:
    """Chips of the card that is simulated."""
    return int(os.environ.get("TT_CNN_DEVICES", default_card().chips))


def get_device_ids() -> list[int]:
    return list(range(get_num_devices()))


def get_arch_name() -> str:
    return default_card().arch_name


def SetDefaultDevice(device: MeshDevice | None = None) -> None:
    _default[0] = device


def GetDefaultDevice() -> MeshDevice | None:
    return _default[0]


def get_memory_view(device: MeshDevice, buffer_type: BufferType) -> Any:
    return device.memory_view(buffer_type)


def dump_device_memory_state(device: MeshDevice, prefix: str = "") -> None:
    """Write the memory of a device as CSV files, as TT-NN does: a summary and a table of blocks."""
    import csv
    from pathlib import Path

    folder = Path("generated") / "reports"
    folder.mkdir(parents=True, exist_ok=True)
    views = {kind.name: device.memory_view(kind) for kind in device.memory.regions}
    with open(folder / f"{prefix}memory_usage_summary.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["memory", "banks", "total B", "allocated B", "free B", "largest free block B"])
        for name, view in views.items():
            rows.writerow(
                [
                    name,
                    view.num_banks,
                    view.total_bytes_per_bank,
                    view.total_bytes_allocated_per_bank,
                    view.total_bytes_free_per_bank,
                    view.largest_contiguous_bytes_free_per_bank,
                ]
            )
    with open(folder / f"{prefix}detailed_memory_usage.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["memory", "address", "size B", "allocated"])
        for name, view in views.items():
            for block in view.block_table:
                rows.writerow([name, block["address"], block["size"], block["allocated"]])
