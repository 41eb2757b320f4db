# SPDX-License-Identifier: Apache-2.0
"""Steps of the kernels' program, and the forms in which they take their weights."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import torch

from tt_cnn.virtual.engines.replay.kernels.memory import allocate
from tt_cnn.virtual.kernel_library import library
from tt_cnn.virtual.types.enums import DataType

LANES = 16
"""Columns of a vector."""
KINDS = (
    "convolution", "winograd", "depthwise", "max_pool", "average_pool", "upsample", "activate", "mean", "gather",
    "walk", "pair", "byte_convolution", "byte_depthwise", "byte_max_pool", "byte_pixels",
    "largest",
)  # fmt: skip
ELSEWHERE = {
    "depthwise": (KINDS.index("depthwise"),),
    "bytes": tuple(number for number, kind in enumerate(KINDS) if kind.startswith("byte_")),
}
"""Steps that not every program needs, by the library that has them."""
ACTIVATIONS = {
    "Relu": 1, "leaky_relu": 2, "clip": 3, "Sigmoid": 4, "silu": 5, "mish": 6, "Exp": 7, "Tanh": 8,
}  # fmt: skip
"""Unary operations that a step can do on its way out, as vector.h numbers them."""
ROUNDINGS = {
    "to_bfloat16": 24, "round_away": 25, "round_even": 26, "nearest_even": 27, "stored": 28, "cut": 29,
    "flush_denormals": 30,
}  # fmt: skip
BOUNDS = {"at_least": 34, "at_most": 35}
"""In the order of the vector unit."""
STAGES = ACTIVATIONS | ROUNDINGS | BOUNDS
BLOCKS = {(DataType.BFLOAT8_B, False): 31, (DataType.BFLOAT8_B, True): 32, (DataType.BFLOAT4_B, False): 33}
"""Block formats, rounded once or twice; numbers as rounding.h has them."""
BINARIES = {"add": (16, 16), "sub": (17, 18), "mul": (19, 19)}
"""With an image on the right or on the left; four more is with a number per channel."""
ROW = 4
BETWEEN = {None: ROUNDINGS["nearest_even"], DataType.BFLOAT16: ROUNDINGS["to_bfloat16"]} | {
    dtype: number for (dtype, precise), number in BLOCKS.items() if not precise
}
"""Roundings of sums between two pieces of the inner dimension."""

_POINTERS = ("x", "weights", "bias", "other", "y", "stages", "pieces", "between", "scales", "offsets", "odd")
_NUMBERS = (
    "batch", "height", "width", "channels", "x_pixel", "out_height", "out_width", "out_channels", "y_image", "y_row",
    "y_pixel", "other_pixel", "other_first", "kernel_h", "kernel_w", "stride_h", "stride_w", "top", "left",
    "dilation_h", "dilation_w", "activation", "tile_side", "tiles", "count_padding", "stage_count", "piece_count",
    "between_count",
    "paired", "x_bytes", "other_bytes", "y_bytes", "x_zero", "other_zero", "y_zero", "by_rows",
    "in_steps",
)  # fmt: skip


class Stage(ctypes.Structure):
    """As rounding.h has it."""

    _fields_ = (
        ("kind", ctypes.c_int64),
        ("row", ctypes.c_void_p),
        ("a", ctypes.c_double),
        ("b", ctypes.c_double),
    )


class Piece(ctypes.Structure):
    """As step.h has it."""

    _fields_ = tuple((name, ctypes.c_int64) for name in ("top", "bottom", "first", "last", "rounds"))


class Instruction(ctypes.Structure):
    """As step.h has it."""

    _fields_ = (
        ("kind", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in _POINTERS),
        *((name, ctypes.c_int64) for name in _NUMBERS),
        *((name, ctypes.c_double) for name in ("a", "b", "scale", "x_scale", "other_scale", "y_inverse")),
    )  # fmt: skip


def instruction(kind: str, **fields: Any) -> Instruction:
    ones = {"kernel_h": 1, "kernel_w": 1, "stride_h": 1, "stride_w": 1, "dilation_h": 1, "dilation_w": 1}
    return Instruction(kind=KINDS.index(kind), **(ones | fields))


class Weights(ctypes.Structure):
    """As weights.h has it."""

    _fields_ = (("values", ctypes.c_void_p), ("sizes", ctypes.c_int64 * 4), ("distances", ctypes.c_int64 * 4))


def direct_weights(weight: torch.Tensor, threads: int) -> torch.Tensor:
    """(out, in, height, width) as panels of (height * width * in) rows."""
    packed = allocate(math.prod(weight.shape[1:]) * -(-weight.shape[0] // LANES) * LANES)
    pack(weight, packed, 0, threads)
    return packed


def pack(weight: torch.Tensor, packed: torch.Tensor, tile_side: int, threads: int) -> None:
    """Rows of panels, one for each place of the kernel and input, or those of Winograd's matrices."""
    weight = weight.float()
    sizes, distances = (ctypes.c_int64 * 4)(*weight.shape), (ctypes.c_int64 * 4)(*weight.stride())
    arguments = Weights(values=weight.data_ptr(), sizes=sizes, distances=distances)
    to = ctypes.c_void_p(packed.data_ptr())
    library().pack_weights(ctypes.byref(arguments), ctypes.c_int64(tile_side), to, ctypes.c_int64(threads))


def padded_bias(bias: torch.Tensor | None, channels: int) -> torch.Tensor:
    row = torch.zeros(channels) if bias is None else bias.float()
    return torch.nn.functional.pad(row, (0, -channels % LANES)).contiguous()
