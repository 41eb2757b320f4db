# SPDX-License-Identifier: Apache-2.0
"""Values as a host tensor of TT-NN stores them: rows, or tiles of four faces, in bfloat16, integers or block formats.

A tile of a block format is 64 exponents, one for each row of 16 elements of a face, and then the elements: a sign and
six bits of the mantissa below its leading one (bfloat8_b), or two (bfloat4_b, two elements in a byte).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, Shape
from tt_cnn.virtual.types.tensor_spec import Spec

_FACE = TILE_SIZE // 2
_EXPONENTS = 4 * _FACE
_ELEMENTS = TILE_SIZE * TILE_SIZE
_BITS = {DataType.BFLOAT8_B: 7, DataType.BFLOAT4_B: 3}
"""Of a magnitude, its leading one included."""
_BIAS = 127
_WHOLE: dict[DataType, Any] = {
    DataType.FLOAT32: np.dtype("<f4"),
    DataType.INT32: np.dtype("<i4"),
    DataType.UINT32: np.dtype("<u4"),
    DataType.UINT16: np.dtype("<u2"),
    DataType.UINT8: np.dtype("u1"),
    DataType.INT8: np.dtype("i1"),
}


def _in_tiles(values: np.ndarray) -> np.ndarray:
    """(rows, columns) as (tiles, 1024): tile after tile along rows, four faces each."""
    rows, columns = values.shape
    cut = values.reshape(rows // TILE_SIZE, 2, _FACE, columns // TILE_SIZE, 2, _FACE)
    return cut.transpose(0, 3, 1, 4, 2, 5).reshape(-1, _ELEMENTS)


def _out_of_tiles(tiles: np.ndarray, rows: int, columns: int) -> np.ndarray:
    cut = tiles.reshape(rows // TILE_SIZE, columns // TILE_SIZE, 2, 2, _FACE, _FACE)
    return cut.transpose(0, 2, 4, 1, 3, 5).reshape(rows, columns)


def _sides(shape: Shape) -> tuple[int, int]:
    columns = shape[-1] if len(shape) else 1
    return (shape.volume() // columns if columns else 0), columns


def to_bytes(value: torch.Tensor, spec: Spec) -> bytes:
    """Padded values of one chip, which the tensor's format holds exactly."""
    array = value.detach().cpu().contiguous().numpy().reshape(_sides(spec.padded_shape))
    if spec.layout is Layout.TILE:
        array = _in_tiles(array)
    if spec.dtype in _BITS:
        return _packed(array.astype(np.float32), _BITS[spec.dtype])
    if spec.dtype is DataType.BFLOAT16:
        bits = np.ascontiguousarray(array, dtype="<f4").view("<u4") >> 16
        return bits.astype("<u2").tobytes()
    return array.astype(_WHOLE[spec.dtype]).tobytes()


def from_bytes(data: bytes, spec: Spec, carrier: torch.dtype) -> torch.Tensor:
    rows, columns = _sides(spec.padded_shape)
    if spec.dtype in _BITS:
        array = _unpacked(np.frombuffer(data, np.uint8), _BITS[spec.dtype])
    elif spec.dtype is DataType.BFLOAT16:
        array = (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4")
    else:
        array = np.frombuffer(data, _WHOLE[spec.dtype])
    if spec.layout is Layout.TILE:
        array = _out_of_tiles(array, rows, columns)
    wide = array.astype(np.int64) if array.dtype == np.dtype("<u4") else array.astype(array.dtype, copy=True)
    if array.dtype == np.dtype("<u2"):
        wide = array.astype(np.int32)
    return torch.from_numpy(wide.reshape(tuple(spec.padded_shape))).to(carrier)


def stored_size(spec: Spec) -> int:
    """Bytes of one chip's values."""
    elements = spec.padded_shape.volume()
    if spec.dtype in _BITS:
        return elements // _ELEMENTS * spec.dtype.tile_bytes
    return elements * spec.dtype.element_bytes


def _packed(tiles: np.ndarray, magnitude_bits: int) -> bytes:
    """Exponents of the largest of 16; the values are multiples of their last bit already."""
    groups = tiles.reshape(len(tiles), _EXPONENTS, _FACE)
    bits = np.ascontiguousarray(groups).view(np.uint32)
    exponents = ((bits >> 23) & 0xFF).max(-1)
    scale = np.exp2(exponents.astype(np.float64) - _BIAS - (magnitude_bits - 1))[..., None]
    magnitudes = np.minimum(np.rint(np.abs(groups) / scale), 2**magnitude_bits - 1).astype(np.uint8)
    signs = ((bits >> 31) & (magnitudes != 0)).astype(np.uint8)
    elements = (signs << magnitude_bits | magnitudes).reshape(len(tiles), _ELEMENTS)
    if magnitude_bits == 3:
        elements = elements[:, 0::2] | elements[:, 1::2] << 4
    return np.concatenate([exponents.astype(np.uint8), elements.astype(np.uint8)], axis=1).tobytes()


def _unpacked(data: np.ndarray, magnitude_bits: int) -> np.ndarray:
    body = _ELEMENTS if magnitude_bits == 7 else _ELEMENTS // 2
    tiles = data.reshape(-1, _EXPONENTS + body)
    exponents, elements = tiles[:, :_EXPONENTS], tiles[:, _EXPONENTS:]
    if magnitude_bits == 3:
        elements = np.stack([elements & 0xF, elements >> 4], -1).reshape(len(tiles), _ELEMENTS)
    groups = elements.reshape(len(tiles), _EXPONENTS, _FACE)
    magnitudes = (groups & (2**magnitude_bits - 1)).astype(np.float64)
    signs = 1.0 - 2.0 * (groups >> magnitude_bits)
    scale = np.exp2(exponents.astype(np.float64) - _BIAS - (magnitude_bits - 1))[..., None]
    return (signs * magnitudes * scale).astype(np.float32).reshape(len(tiles), _ELEMENTS)
