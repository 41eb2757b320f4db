# SPDX-License-Identifier: Apache-2.0
"""Host conversions, bit for bit against what the real library made of the same tensors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tt_cnn.virtual.numerics import host_round, to_integer
from tt_cnn.virtual.numerics.formats import block_exponents
from tt_cnn.virtual.types.enums import DataType

CORPUS = np.load(Path(__file__).parents[2] / "golden" / "data" / "numerics.npz")
TENSORS = sorted(name[: -len("_in")] for name in CORPUS.files if name.endswith("_in"))
FORMATS = (DataType.BFLOAT16, DataType.BFLOAT8_B, DataType.BFLOAT4_B)


def rounded(x: torch.Tensor, dtype: DataType) -> torch.Tensor:
    """Rows padded to whole tiles, as the library does before it looks for shared exponents."""
    width = x.shape[-1]
    return host_round(torch.nn.functional.pad(x, (0, -width % 32)), dtype)[..., :width].contiguous()


@pytest.mark.parametrize("dtype", FORMATS, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("name", TENSORS)
def test_conversion_equals_the_recorded_one(name: str, dtype: DataType) -> None:
    ours = rounded(torch.from_numpy(CORPUS[f"{name}_in"]), dtype)
    real = torch.from_numpy(CORPUS[f"{name}_{dtype.name.lower()}"].astype(np.float32))
    same_bits = ours.view(torch.int32) == real.view(torch.int32)
    assert bool((same_bits | (ours.isnan() & real.isnan())).all())


def test_corpus_has_the_hard_values() -> None:
    """Denormals, infinities and NaN are in it, or the test above would prove little."""
    special = CORPUS["special_in"]
    assert np.isnan(special).any() and np.isinf(special).any()
    tiny = np.abs(CORPUS["tiny_in"])
    assert ((tiny > 0) & (tiny < 2.0**-126)).any()


def test_tie_is_that_of_the_aligned_mantissa() -> None:
    """-26.500004 quanta: the bit that breaks the tie is lost when the mantissa is aligned, so it goes to even."""
    block = torch.zeros(16)
    block[0], block[1] = 1.5, -26.500004 / 64
    assert rounded(block[None], DataType.BFLOAT8_B)[0, 1].item() == -26 / 64


def test_magnitude_saturates_and_the_exponent_stays() -> None:
    block = torch.full((1, 16), 1.9999)
    assert rounded(block, DataType.BFLOAT8_B).unique().tolist() == [127 / 64]
    assert rounded(block, DataType.BFLOAT4_B).unique().tolist() == [7 / 4]


def test_shared_exponent_is_per_16_values_of_a_row() -> None:
    x = torch.full((2, 32), 0.01)
    x[0, 0] = 1000.0
    stored = rounded(x, DataType.BFLOAT8_B)
    assert stored[0, 1:16].abs().max() == 0
    assert stored[0, 16:].min() > 0 and stored[1].min() > 0


def test_rows_that_are_not_blocks_are_refused() -> None:
    with pytest.raises(ValueError, match="blocks of 16"):
        block_exponents(torch.zeros(4, 20))


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (DataType.UINT8, [44, 1, 255, 0]),
        (DataType.INT8, [44, 1, -1, 0]),
        (DataType.UINT16, [300, 1, 65535, 0]),
        (DataType.INT32, [300, 1, -1, 0]),
        (DataType.UINT32, [300, 1, 4294967295, 0]),
    ],
    ids=lambda value: value.name if isinstance(value, DataType) else "",
)
def test_integers_are_cut_and_wrap(dtype: DataType, expected: list[int]) -> None:
    assert to_integer(torch.tensor([300.7, 1.9, -1.9, -0.9]), dtype).tolist() == expected


def test_float32_is_kept() -> None:
    x = torch.randn(3, 32)
    assert host_round(x, DataType.FLOAT32) is x
