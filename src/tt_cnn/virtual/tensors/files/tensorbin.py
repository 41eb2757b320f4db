# SPDX-License-Identifier: Apache-2.0
"""`dump_tensor` and `load_tensor`: a file with a header (its size, a FlatBuffer) and the bytes of each chip's values.

Read after the files that TT-NN 0.81.1 writes; nothing in them is executed, and sizes are checked before memory is
taken.
"""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

from tt_cnn.virtual.errors.card_error import CardError, fatal
from tt_cnn.virtual.tensors.files.flatbuffer import Damaged, Node, Number, Struct, Table, root, written
from tt_cnn.virtual.tensors.files.stored_bytes import from_bytes, stored_size, to_bytes
from tt_cnn.virtual.tensors.storage import CARRIER, HostStorage
from tt_cnn.virtual.tensors.tensor import OPERATORS, Tensor
from tt_cnn.virtual.types.enums import (
    BufferType,
    DataType,
    DumpTensorMode,
    Layout,
    ShardOrientation,
    TensorMemoryLayout,
)
from tt_cnn.virtual.types.geometry import TILE_SIZE, CoreCoord, CoreRange, CoreRangeSet, Shape
from tt_cnn.virtual.types.memory_config import MemoryConfig, ShardSpec
from tt_cnn.virtual.types.tensor_spec import Spec

_ENDING = ".tensorbin"
_HEADER = "<Q"
_ROW_MAJOR, _TILE = 1, 2
_INLINE = 1
_SPEC, _MESH_SHAPE, _SHARDS = range(3)
"""Fields of the root. The fourth, how the chips' tensors belong together, TT-NN does not need to read a file."""


def dump_tensor(
    file_name: str | Path, tensor: Tensor, *, mode: DumpTensorMode = DumpTensorMode.DISTRIBUTED_GATHER
) -> None:
    """Write a tensor, of a device or of the host, to a file that TT-NN reads too."""
    path = _checked(file_name)
    host = tensor.cpu()
    values = host.host_values("dump_tensor")
    data = [to_bytes(value, host.spec) for value in values]
    header = written(_described(host.spec, [len(part) for part in data]))
    with path.open("wb") as file:
        file.write(struct.pack(_HEADER, len(header)) + header)
        for part in data:
            file.write(part)


def load_tensor(file_name: str | Path, *, device: Any = None) -> Tensor:
    """The tensor of a file, on a device where one is given: in the place that the file says."""
    path = _checked(file_name)
    fatal(path.is_file(), f"Unable to load the tensor from {path}.  The file does not exist.")
    content = path.read_bytes()
    try:
        spec, places = _read_header(content)
    except (Damaged, struct.error, ValueError, KeyError) as error:
        raise CardError(f'Cannot read "{path}": it is not a tensor file of TT-NN ({error})') from error
    start = struct.calcsize(_HEADER) + struct.unpack_from(_HEADER, content)[0]
    values = []
    for offset, size in places:
        fatal(
            size == stored_size(spec) and start + offset + size <= len(content),
            f'Cannot read "{path}": a tensor of {spec.shape} in {spec.dtype.native} takes {stored_size(spec)} bytes, '
            f"the file says {size} and has {len(content) - start - offset}",
        )
        values.append(from_bytes(content[start + offset : start + offset + size], spec, CARRIER[spec.dtype]))
    host = Tensor.on_host(spec, HostStorage(values))
    return host if device is None else OPERATORS["to_device"](host, device, spec.memory_config)


def _checked(file_name: str | Path) -> Path:
    path = Path(file_name)
    fatal(path.suffix == _ENDING, f"File {path} must have {_ENDING} extension")
    return path


# --- reading ----------------------------------------------------------------------------------------------------------


def _read_header(content: bytes) -> tuple[Spec, list[tuple[int, int]]]:
    size = struct.unpack_from(_HEADER, content)[0]
    start = struct.calcsize(_HEADER)
    if size > len(content) - start:
        raise Damaged(f"a header of {size} bytes")
    tensor = root(content[start : start + size])
    places = []
    for shard in tensor.tables(_SHARDS):
        if shard.number(0, "<B") != _INLINE:
            raise Damaged("values that are not in the file")
        offset, count = shard.struct(1, "<QQ")
        places.append((offset, count))
    if not places:
        raise Damaged("no values")
    return _spec(_present(tensor.table(_SPEC))), places


def _present(table: Table | None) -> Table:
    if table is None:
        raise Damaged("a field that must be there is not")
    return table


def _spec(table: Table) -> Spec:
    layout = _present(table.table(1))
    kind = layout.number(1, "<B")
    if kind == _TILE:
        tile = _present(layout.table(2)).table(0)
        if tile is not None and (tile.number(0), tile.number(1)) != (TILE_SIZE, TILE_SIZE):
            raise Damaged(f"tiles of {tile.number(0)}x{tile.number(1)}; the virtual card has those of 32x32")
    config = _memory_config(_present(layout.table(3)))
    dtype = DataType(layout.number(0, "<B"))
    shape = Shape(table.numbers(0))
    if math.prod(tuple(shape)) > 2**40:
        raise Damaged(f"a tensor of {shape}")
    return Spec(shape, dtype, Layout.TILE if kind == _TILE else Layout.ROW_MAJOR, config)


def _memory_config(table: Table) -> MemoryConfig:
    shard = table.table(2)
    layout, buffer = TensorMemoryLayout(table.number(0, "<H")), BufferType(table.number(1, "<H"))
    return MemoryConfig(layout, buffer, None if shard is None else _shard_spec(shard))


def _shard_spec(table: Table) -> ShardSpec:
    ranges = []
    for one in _present(table.table(0)).tables(0):
        first, last = (_present(one.table(i)) for i in range(2))
        corners = [CoreCoord(corner.number(0), corner.number(1)) for corner in (first, last)]
        ranges.append(CoreRange(*corners))
    orientation = ShardOrientation(table.number(3, "<B"))
    return ShardSpec(CoreRangeSet(ranges), [table.number(1), table.number(2)], orientation)


# --- writing ----------------------------------------------------------------------------------------------------------


def _described(spec: Spec, sizes: list[int]) -> Node:
    offsets = [sum(sizes[:i]) for i in range(len(sizes))]
    chips = len(sizes)

    def coordinate(chip: int) -> Node:
        return Node({0: [0, chip]})

    shards = [
        Node({0: Number("<B", _INLINE), 1: Struct("<QQ", place), 2: coordinate(chip)})
        for chip, place in enumerate(zip(offsets, sizes, strict=True))
    ]
    return Node({_SPEC: _spec_node(spec), _MESH_SHAPE: Node({0: [1, chips]}), _SHARDS: shards})


def _spec_node(spec: Spec) -> Node:
    tiled = spec.layout is Layout.TILE
    page = Node({0: Node({0: Number("<I", TILE_SIZE), 1: Number("<I", TILE_SIZE)})}) if tiled else Node()
    layout = Node(
        {
            0: Number("<B", spec.dtype.value),
            1: Number("<B", _TILE if tiled else _ROW_MAJOR),
            2: page,
            3: _config_node(spec.memory_config),
            4: [TILE_SIZE, TILE_SIZE] if tiled else [1],
        }
    )
    return Node({0: list(spec.shape), 1: layout})


def _core_node(core: CoreCoord) -> Node:
    return Node({0: Number("<i", core.x), 1: Number("<i", core.y)})


def _config_node(config: MemoryConfig) -> Node:
    node = Node({0: Number("<H", config.memory_layout.value), 1: Number("<H", config.buffer_type.value)})
    shard = config.shard_spec
    if shard is not None:
        ranges = [Node({0: _core_node(one.start), 1: _core_node(one.end)}) for one in shard.grid.ranges()]
        height, width = shard.shape
        node.fields[2] = Node(
            {
                0: Node({0: ranges}),
                1: Number("<I", height),
                2: Number("<I", width),
                3: Number("<B", shard.orientation.value),
            }
        )
    return node
