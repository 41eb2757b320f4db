# SPDX-License-Identifier: Apache-2.0
"""What a pool refuses before it starts (`validate_input_params` in TT-NN's pool_utils.cpp and its neighbours)."""

from __future__ import annotations

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.pool.problem import Kind, Pool, Wish
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, round_up
from tt_cnn.virtual.types.tensor_spec import Spec

_OUTPUT_DTYPES = (DataType.BFLOAT16, DataType.BFLOAT8_B, DataType.BFLOAT4_B)


def check_output(wish: Wish) -> None:
    fatal(
        wish.dtype in _OUTPUT_DTYPES,
        "Currently only BFLOAT16, BFLOAT8_B, and BFLOAT4_B output data formats are supported",
    )
    fatal(
        not (wish.dtype.is_block_float and wish.layout is Layout.ROW_MAJOR),
        "BFLOAT8_B/BFLOAT4_B output data format is not supported with ROW_MAJOR layout",
    )


def check_window(pool: Pool, spec: Spec) -> None:
    """Sizes that make sense, whatever the card."""
    for name, size in (
        ("Batch size", pool.batch),
        ("Input height", pool.height),
        ("Input width", pool.width),
        ("Channels", pool.channels),
    ):
        fatal(size > 0, f"Pool2D: {name} must be greater than 0, got {size}")
    _check_shape(pool, spec)
    for name, pair in (("Kernel size", pool.kernel), ("Stride", pool.stride), ("Dilation", pool.dilation)):
        fatal(min(pair) > 0, f"Pool2D: {name} must be greater than 0 in both dimensions, got ({pair[0]}, {pair[1]})")
    top, bottom, left, right = pool.padding
    height, width = pool.kernel
    fatal(
        max(top, bottom) <= height // 2 and left <= width // 2,
        f"Pool2D: Padding ({top}, {bottom}, {left}) should not exceed half of kernel size ({height}, {width})",
        f"  fits: at most {height // 2} above and below, {width // 2} at the sides; pad the tensor before for more",
    )
    covered = pool.window.dilated
    padded = pool.height + top + bottom, pool.width + left + right
    fatal(
        covered[0] <= padded[0] and covered[1] <= padded[1],
        f"Pool2D: Effective kernel size ({covered[0]}, {covered[1]}) cannot exceed padded input size "
        f"({padded[0]}, {padded[1]})",
    )


def _check_shape(pool: Pool, spec: Spec) -> None:
    rows = pool.batch * pool.height * pool.width
    if spec.layout is not Layout.TILE or tuple(spec.shape) != (1, 1, rows, pool.channels):
        return
    expected = (1, 1, round_up(rows, TILE_SIZE), round_up(pool.channels, TILE_SIZE))
    fatal(
        tuple(spec.padded_shape) == expected,
        f"Padded input tensor shape {spec.padded_shape} does not match expected shape "
        f"(1, 1, {expected[2]}, {expected[3]})",
    )


def check_program(pool: Pool, wish: Wish, halo: Spec, cores_c: int) -> None:
    """The checks of the device operation, on the halo's output (`validate_pool2d`)."""
    fatal(halo.dtype is DataType.BFLOAT16, "Only BFLOAT16 supported for now")
    fatal(halo.layout is Layout.ROW_MAJOR, "Only ROW_MAJOR supported for now. Tracked by issue #23338")
    if wish.indices:
        fatal(pool.kind is Kind.MAX, "Return_indices is only supported for MAX pool type")
        fatal(not wish.tiled, "Only ROW_MAJOR supported when return_indices is true")
    channels = halo.padded_shape[3]
    fatal(
        channels % cores_c == 0,
        f"For width and block sharding, input channels ({channels}) should be divisible by num_shards ({cores_c})",
    )
