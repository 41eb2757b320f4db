# SPDX-License-Identifier: Apache-2.0
"""Tensors in files: those of the real library are read, ours hold the same bytes, damaged ones are refused."""

from __future__ import annotations

import contextlib
import struct
from pathlib import Path
from typing import Any

import pytest
import torch

from tt_cnn.virtual import ttnn
from tt_cnn.virtual.devices.device import MeshDevice

DATA = Path(__file__).parent / "data"
SHAPES = {
    "bfloat16_tile": (2, 20, 40),
    "float32_rows": (2, 3),
    "bfloat8_b": (32, 64),
    "bfloat4_b": (32, 32),
    "int32_shards": (1, 1, 64, 32),
    "uint16_l1": (1, 6),
    "uint32_tile": (3, 33),
}
"""Files that `ttnn.dump_tensor` of TT-NN 0.81.1 wrote, and the shapes of their tensors."""


def expected(name: str) -> Any:
    """The tensor that was written."""
    shape = SHAPES[name]
    value = torch.arange(torch.Size(shape).numel()).reshape(shape)
    dtype = getattr(ttnn, name if name.endswith("_b") else name.partition("_")[0])
    if "float" in name:
        value = (value % 251 - 125).float() / 7
    rows = name.endswith(("rows", "l1"))
    memory = None
    if name.endswith("shards"):
        memory = ttnn.create_sharded_memory_config(shape, ttnn.CoreGrid(x=1, y=2), ttnn.ShardStrategy.HEIGHT)
    elif name.endswith("l1"):
        memory = ttnn.L1_MEMORY_CONFIG
    layout = ttnn.ROW_MAJOR_LAYOUT if rows else ttnn.TILE_LAYOUT
    return ttnn.from_torch(value, dtype, layout=layout, memory_config=memory)


def header_size(content: bytes) -> int:
    return 8 + int(struct.unpack_from("<Q", content)[0])


@pytest.mark.parametrize("name", SHAPES)
def test_files_of_the_real_library_are_read(name: str) -> None:
    found, wanted = ttnn.load_tensor(DATA / f"{name}.tensorbin"), expected(name)
    assert found.spec == wanted.spec
    assert torch.equal(ttnn.to_torch(found), ttnn.to_torch(wanted))


@pytest.mark.parametrize("name", SHAPES)
def test_values_are_written_byte_for_byte(name: str, tmp_path: Path) -> None:
    path = tmp_path / "ours.tensorbin"
    ttnn.dump_tensor(path, expected(name))
    ours, theirs = path.read_bytes(), (DATA / f"{name}.tensorbin").read_bytes()
    assert ours[header_size(ours) :] == theirs[header_size(theirs) :]
    again = ttnn.load_tensor(str(path))
    assert again.spec == expected(name).spec
    assert torch.equal(ttnn.to_torch(again), ttnn.to_torch(expected(name)))


def test_a_tensor_of_the_card_goes_to_a_file_and_back_to_its_place(card: MeshDevice, tmp_path: Path) -> None:
    value = torch.randn(1, 1, 64, 32).bfloat16()
    memory = ttnn.create_sharded_memory_config((1, 1, 64, 32), ttnn.CoreGrid(x=1, y=2), ttnn.ShardStrategy.HEIGHT)
    x = ttnn.from_torch(value, layout=ttnn.TILE_LAYOUT, device=card, memory_config=memory)
    ttnn.dump_tensor(tmp_path / "x.tensorbin", x)
    found = ttnn.load_tensor(tmp_path / "x.tensorbin", device=card)
    assert found.memory_config() == memory
    assert torch.equal(ttnn.to_torch(found), value)


def test_other_files_are_refused_in_the_real_librarys_words(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"File x\.bin must have \.tensorbin extension"):
        ttnn.load_tensor("x.bin")
    with pytest.raises(RuntimeError, match=r"Unable to load the tensor from .*  The file does not exist\."):
        ttnn.load_tensor(tmp_path / "none.tensorbin")


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    """Whatever the byte that is changed, and wherever the file ends."""
    content = (DATA / "uint16_l1.tensorbin").read_bytes()
    path = tmp_path / "damaged.tensorbin"
    for end in range(0, len(content), 7):
        path.write_bytes(content[:end])
        with pytest.raises(RuntimeError, match="Cannot read"):
            ttnn.load_tensor(path)
    for at in range(header_size(content)):
        path.write_bytes(content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :])
        with contextlib.suppress(RuntimeError, ValueError):  # any other error is a fault
            ttnn.load_tensor(path)
