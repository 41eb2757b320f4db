# SPDX-License-Identifier: Apache-2.0
"""Host forms: to_layout, to_dtype, padding methods, creation, and the file of as_tensor. Answers of TT-NN 0.81.1."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tt_cnn.virtual import ttnn

X = torch.arange(30 * 40, dtype=torch.float32).reshape(1, 1, 30, 40)


@pytest.fixture
def rows() -> Any:
    return ttnn.from_torch(X, dtype=ttnn.bfloat16)


@pytest.fixture
def tiles() -> Any:
    return ttnn.from_torch(X, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT)


def test_layouts_on_the_host(rows: Any, tiles: Any) -> None:
    made = ttnn.to_layout(rows, ttnn.TILE_LAYOUT, dtype=ttnn.float32, pad_value=7.0)
    assert (made.dtype, made.layout, list(made.padded_shape)) == (ttnn.bfloat16, ttnn.TILE_LAYOUT, [1, 1, 32, 64])
    assert made.to_torch_with_padded_shape()[0, 0, 31, 63] == 7.0
    back = tiles.to(ttnn.ROW_MAJOR_LAYOUT)
    assert list(back.padded_shape) == [1, 1, 30, 40] and torch.equal(back.to_torch(), X.bfloat16())
    flat = ttnn.to_layout(ttnn.from_torch(torch.zeros(5)), ttnn.TILE_LAYOUT)
    assert list(flat.shape) == [5] and list(flat.padded_shape) == [32, 32]


def test_block_floats_stay_in_tiles(rows: Any, tiles: Any) -> None:
    packed = ttnn.to_dtype(tiles, ttnn.bfloat8_b)
    assert packed.dtype is ttnn.bfloat8_b and packed.layout is ttnn.TILE_LAYOUT
    with pytest.raises(RuntimeError, match="Tensor layout must be ROW_MAJOR for unpadding"):
        ttnn.to_layout(packed, ttnn.ROW_MAJOR_LAYOUT)
    message = r"implicitly changed physical shape from \(30, 40\) to \(32, 64\) due to alignment constraints"
    with pytest.raises(RuntimeError, match=message):
        ttnn.to_dtype(rows, ttnn.bfloat8_b)
    whole = ttnn.to_dtype(ttnn.from_torch(torch.ones(32, 64), dtype=ttnn.bfloat16), ttnn.bfloat8_b)
    assert whole.layout is ttnn.TILE_LAYOUT and torch.equal(whole.to_torch(), torch.ones(32, 64))


@pytest.mark.parametrize("dtype", [ttnn.float32, ttnn.uint32, ttnn.int32, ttnn.uint16, ttnn.uint8])
def test_to_dtype_keeps_layout(rows: Any, dtype: Any) -> None:
    made = ttnn.to_dtype(rows, dtype)
    assert made.dtype is dtype and made.layout is ttnn.ROW_MAJOR_LAYOUT
    want = X.bfloat16().long() % (256 if dtype is ttnn.uint8 else 2**32)
    assert torch.equal(made.to_torch().long(), want)


def test_padding_methods_leave_the_logical_shape_alone(rows: Any, tiles: Any, card: Any) -> None:
    padded = rows.pad([1, 1, 33, 64], [0, 0, 1, 0], 3.0)
    assert list(padded.shape) == [1, 1, 30, 40] and list(padded.padded_shape) == [1, 1, 33, 64]
    corner = padded.to_torch_with_padded_shape()[0, 0, :3, :3]
    assert corner.tolist() == [[3, 3, 3], [0, 1, 2], [40, 41, 42]]
    assert list(rows.pad_to_tile(1.0).padded_shape) == [1, 1, 32, 64]
    assert list(ttnn.from_torch(torch.zeros(5)).pad_to_tile(0.0).padded_shape) == [32, 32]
    assert list(tiles.pad([1, 1, 64, 64], [0, 0, 0, 0], 0.0).padded_shape) == [1, 1, 32, 64]
    with pytest.raises(RuntimeError, match="Tensor must be on host for padding"):
        ttnn.to_device(rows, card).pad([1, 1, 32, 64], [0, 0, 0, 0], 0.0)


def test_unpadding_methods_cut(rows: Any, tiles: Any) -> None:
    padded = rows.pad_to_tile(0.0)
    cut = padded.unpad([0, 0, 2, 2], [1, 1, 20, 20])
    assert list(cut.shape) == [1, 1, 18, 18] and cut.to_torch()[0, 0, :2, :2].tolist() == [[82, 83], [122, 123]]
    assert list(padded.unpad_from_tile([1, 1, 20, 40]).shape) == [1, 1, 20, 40]
    with pytest.raises(RuntimeError, match="Last 2 dims of input shape must be multiples of 32"):
        rows.unpad_from_tile([1, 1, 30, 40])
    with pytest.raises(RuntimeError, match="Tensor layout must be ROW_MAJOR for unpadding"):
        tiles.unpad([0, 0, 0, 0], [1, 1, 20, 20])
    with pytest.raises(RuntimeError, match="does not fit"):  # the real library writes beyond its memory here
        rows.pad([1, 1, 20, 64], [0, 0, 0, 0], 0.0)


def test_creation_on_the_host() -> None:
    assert ttnn.zeros([3, 50]).dtype is ttnn.bfloat16
    assert torch.equal(ttnn.ones([2, 3], dtype=ttnn.float32).to_torch(), torch.ones(2, 3))
    assert ttnn.full([2, 3], 2.7, dtype=ttnn.uint16).to_torch().tolist() == [[2, 2, 2], [2, 2, 2]]
    block = ttnn.full([2, 3], 7, dtype=ttnn.bfloat8_b)
    assert block.layout is ttnn.TILE_LAYOUT and list(block.padded_shape) == [32, 32]
    assert ttnn.arange(0, 10, 3).to_torch().tolist() == [0, 3, 6, 9]
    assert ttnn.arange(10, 0, -3).to_torch().tolist() == [10, 7, 4, 1]
    assert list(ttnn.arange(5).shape) == [5] and list(ttnn.arange(0, 0, 1).shape) == [0]
    assert list(ttnn.arange(start=0, end=3, layout=ttnn.TILE_LAYOUT).padded_shape) == [32, 32]
    with pytest.raises(RuntimeError, match="Step must be nonzero"):
        ttnn.arange(0, 5, 0)
    with pytest.raises(RuntimeError, match="Unsupported dtype"):
        ttnn.arange(0, 40, 1, dtype=ttnn.bfloat8_b, layout=ttnn.TILE_LAYOUT)
    with pytest.raises(TypeError, match="incompatible function arguments"):
        ttnn.arange(0.5, 3, 1)


@pytest.mark.parametrize("layout", [ttnn.ROW_MAJOR_LAYOUT, ttnn.TILE_LAYOUT])
def test_creation_after_a_model(card: Any, layout: Any) -> None:
    like = ttnn.from_torch(X, dtype=ttnn.bfloat16, layout=layout, device=card, memory_config=ttnn.L1_MEMORY_CONFIG)
    for made, value in (
        (ttnn.zeros_like(like), 0),
        (ttnn.ones_like(like), 1),
        (ttnn.full_like(like, 2.5), 2.5),
        (ttnn.full_like(like, 3, dtype=ttnn.float32), 3),
        (ttnn.ones_like(like, memory_config=ttnn.DRAM_MEMORY_CONFIG), 1),
    ):
        assert made.shape == like.shape and made.layout is layout
        assert ttnn.to_torch(made).eq(value).all()
    target = ttnn.empty_like(like)
    assert target.memory_config() == like.memory_config()
    assert ttnn.full_like(like, 4.0, optional_tensor=target).buffer_address() == target.buffer_address()
    assert ttnn.to_torch(target).eq(4).all()


def test_as_tensor_needs_a_memory_config_with_a_device(card: Any) -> None:
    with pytest.raises(RuntimeError, match="memory_config must be specified when device is specified"):
        ttnn.as_tensor(X, device=card)
    assert list(ttnn.as_tensor(X, preprocess=lambda x: x[..., :10]).shape) == [1, 1, 30, 10]


@pytest.mark.parametrize("dtype", [None, ttnn.bfloat16, ttnn.bfloat8_b, ttnn.uint32])
def test_as_tensor_believes_its_file(tmp_path: Path, card: Any, dtype: Any) -> None:
    name = tmp_path / "cache" / "weight"
    options: dict[str, Any] = {"dtype": dtype, "layout": ttnn.TILE_LAYOUT, "cache_file_name": name}
    first = ttnn.as_tensor(X, **options)
    path = tmp_path / "cache" / f"weight_dtype_{dtype.name if dtype else None}_layout_TILE.tensorbin"
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    again = ttnn.as_tensor(torch.zeros(3, 3), device=card, memory_config=ttnn.L1_MEMORY_CONFIG, **options)
    assert again.dtype is first.dtype and again.memory_config() == ttnn.L1_MEMORY_CONFIG
    assert torch.equal(ttnn.to_torch(again), first.to_torch())


def with_head(data: bytes, **fields: Any) -> bytes:
    head, _, values = data.partition(b"\n")
    return json.dumps(json.loads(head) | fields).encode() + b"\n" + values


DAMAGES: dict[str, Any] = {
    "truncated": lambda b: b[:-8],
    "flipped": lambda b: b[:-1] + bytes([b[-1] ^ 1]),
    "a pickle": lambda b: b"\x80\x04K\x01." + b,
    "no fields": lambda b: b"{}\n",
    "a list": lambda b: b"[]\n",
    "empty": lambda b: b"",
    "too deep": lambda b: b"[" * 100_000 + b"\n",
    "an odd shape": lambda b: with_head(b, shape="x"),
    "a huge shape": lambda b: with_head(b, shape=[1 << 40, 1 << 20]),
    "a negative shape": lambda b: with_head(b, shape=[-1, 32]),
    "no such dtype": lambda b: with_head(b, dtype="BFLOAT3"),
    "an odd alignment": lambda b: with_head(b, alignment=0),
    "no parts": lambda b: with_head(b, parts=0),
    "too many parts": lambda b: with_head(b, parts=1 << 60),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_written_anew(tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    name = tmp_path / "w"
    first = ttnn.as_tensor(X, cache_file_name=name)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    path.write_bytes(DAMAGES[damage](whole))
    assert torch.equal(ttnn.as_tensor(X, cache_file_name=name).to_torch(), first.to_torch())
    assert path.read_bytes() == whole and "will be written again" in caplog.text


def test_where_no_file_can_be_written_there_is_none(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    assert torch.equal(
        ttnn.as_tensor(X, cache_file_name=tmp_path / "file" / "w").to_torch(), ttnn.from_torch(X).to_torch()
    )
    assert "the converted tensor is not kept" in caplog.text
