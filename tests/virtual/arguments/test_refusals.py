# SPDX-License-Identifier: Apache-2.0
"""What can be known when a call is made is refused then: with TT-NN's words, and with the card as it was.

The texts were asked of TT-NN 0.81.1 on a mocked card. Where it ends the process, ours is an error that says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from tt_cnn.virtual import ttnn
from tt_cnn.virtual.errors.card_error import ValuesError
from tt_cnn.virtual.types.enums import BufferType

Make = Callable[..., Any]
HEIGHT, BLOCK = ttnn.L1_HEIGHT_SHARDED_MEMORY_CONFIG, ttnn.L1_BLOCK_SHARDED_MEMORY_CONFIG
ROWS = ttnn.ROW_MAJOR_LAYOUT


@pytest.fixture
def card() -> Iterator[Any]:
    device = ttnn.open_device(device_id=0, l1_small_size=65536)
    yield device
    ttnn.close_device(device)


@pytest.fixture
def make(card: Any) -> Make:
    def made(*shape: int, dtype: Any = ttnn.bfloat16, layout: Any = ttnn.TILE_LAYOUT) -> Any:
        values = torch.arange(torch.Size(shape).numel()).reshape(shape) % 7
        return ttnn.from_torch(values, dtype=dtype, layout=layout, device=card)

    return made


REFUSED: list[tuple[Callable[[Make], Any], type[Exception], str]] = [
    (lambda t: ttnn.max(t(2, 0), dim=1), RuntimeError, "Expected reduction dim 1 to have non-zero size"),
    (lambda t: ttnn.min(t(1, 1, 0, 32)), RuntimeError, "Expected reduction dim 2 to have non-zero size"),
    (lambda t: ttnn.argmax(t(0, 32), dim=0), RuntimeError, "Expected reduction dim 0 to have non-zero size"),
    (lambda t: ttnn.sum(t(40, 33), dim=[0, 0]), RuntimeError, "contains a duplicate axis after sorting"),
    (lambda t: ttnn.sum(t(40, 33), dim="x"), TypeError, "incompatible function arguments"),
    (lambda t: ttnn.sum(t(40, 33, dtype=ttnn.uint16)), RuntimeError, "Only FLOAT32, BFLOAT16, BFLOAT8_B, and UINT32"),
    (lambda t: ttnn.mean(t(40, 33, dtype=ttnn.int32)), RuntimeError, "does not support integer inputs"),
    (lambda t: ttnn.std(t(40, 33, dtype=ttnn.int32)), RuntimeError, "are supported for Std/Var reduction"),
    (lambda t: ttnn.roll(t(2, 0), 1, 0), RuntimeError, "without elements"),
    (lambda t: ttnn.softmax(t(40, 33, dtype=ttnn.uint32)), RuntimeError, "must be FLOAT32, BFLOAT16, or BFLOAT8_B"),
    (lambda t: ttnn.layer_norm(t(40, 33, dtype=ttnn.int32)), RuntimeError, "must be FLOAT32, BFLOAT16, or BFLOAT8_B"),
    (lambda t: ttnn.layer_norm(t(64, 64), weight=t(1, 32)), RuntimeError, "gamma logical width must be >= input"),
    (lambda t: ttnn.layer_norm(t(64, 64), bias=t(64, 64)), RuntimeError, "Beta tensor height must equal tile height"),
    (lambda t: ttnn.layer_norm(t(64, 64), program_config={}), TypeError, "incompatible function arguments"),
    (
        lambda t: ttnn.batch_norm(t(1, 1, 64, 32), running_mean=t(1, 2, 1, 1), running_var=t(1, 1, 1, 1)),
        RuntimeError,
        "must be the same as input's channel size",
    ),
    (
        lambda t: ttnn.matmul(
            t(1, 8, 8, 32, layout=ROWS),
            t(1, 1, 32, 32),
            memory_config=ttnn.MemoryConfig(ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.BufferType.L1),
        ),
        RuntimeError,
        "Number of shards along height 8 must not exceed number of cores 0",
    ),
    (lambda t: ttnn.divide(t(32, 32), 2.0, rounding_mode="up"), RuntimeError, "Incorrect rounding mode"),
    (lambda t: ttnn.rdiv(t(32, 32), 2.0, rounding_mode="up"), RuntimeError, "Incorrect rounding mode"),
    (lambda t: ttnn.pow(t(32, 32, dtype=ttnn.int32), -3), RuntimeError, "negative integer powers are not allowed"),
    (lambda t: ttnn.pow(t(32, 32, dtype=ttnn.int32), 1e30), RuntimeError, "requires an integral exponent"),
    (lambda t: ttnn.sigmoid(t(32, 32), mode=3), TypeError, "incompatible function arguments"),
    (lambda t: ttnn.sigmoid(t(32, 32), vector_mode=9), RuntimeError, "Invalid Vector mode value"),
    (lambda t: ttnn.leaky_relu(t(32, 32), None), TypeError, "incompatible function arguments"),
    (lambda t: ttnn.prelu(t(32, 32), [0.5, 0.2]), TypeError, "incompatible function arguments"),
    (lambda t: ttnn.bitwise_not(t(32, 32)), RuntimeError, "has no numbers for floats"),
    (lambda t: ttnn.add(t(32, 32), 1.0, activations=["relu"]), TypeError, "incompatible function arguments"),
    (lambda t: ttnn.exp(t(2, 0), memory_config=HEIGHT), RuntimeError, "zero-volume specless-sharded"),
    (
        lambda t: ttnn.relu(t(32, 32), sub_core_grids=ttnn.CoreRangeSet([])),
        RuntimeError,
        "Core grid must contain at least one core",
    ),
    (
        lambda t: ttnn.matmul(t(32, 32, dtype=ttnn.int32), t(32, 32, dtype=ttnn.int32)),
        RuntimeError,
        "Unsupported data format for input A: DataType::INT32",
    ),
    (
        lambda t: ttnn.max_pool2d(
            t(1, 1, 64, 32, layout=ROWS), 1, 8, 8, 32, [2, 2], [2, 2], [0, 0], [1, 1], memory_config=HEIGHT
        ),
        RuntimeError,
        "bad optional access",
    ),
    (
        lambda t: ttnn.avg_pool2d(
            t(1, 1, 64, 32, layout=ROWS), 1, 8, 8, 32, [2, 2], [2, 2], [0, 0], memory_config=BLOCK
        ),
        RuntimeError,
        "bad optional access",
    ),
    (
        lambda t: ttnn.upsample(t(1, 8, 8, 32, layout=ROWS), 2, mode="bilinear", memory_config=HEIGHT),
        RuntimeError,
        "MemoryConfig must have Shard Spec specified for sharded memory layout",
    ),
    (lambda t: ttnn.fold(t(1, 8, 8, 32, layout=ROWS), 3, 3), RuntimeError, "must be divisible by stride_h"),
    (lambda t: ttnn.slice(t(40, 33)), TypeError, "incompatible function arguments"),
    (lambda t: ttnn.pad(t(40, 33), (64, 64), 0.0), TypeError, "incompatible function arguments"),
    (lambda t: ttnn.concat([t(32, 32), t(32, 32)], 0, groups=0), RuntimeError, "it must be at least 1"),
    (lambda t: ttnn.fold(t(1, 8, 8, 32, layout=ROWS), 0, 2), RuntimeError, "must be > 0"),
    (lambda t: ttnn.fold(t(1, 8, 8, 32, layout=ROWS), -1, 2), TypeError, "incompatible function arguments"),
    (lambda t: ttnn.group_norm(t(1, 8, 8, 32), num_groups=32, inplace=False), RuntimeError, "must be 1"),
    (
        lambda t: ttnn.max_pool2d(t(1, 1, 64, 32, layout=ROWS), 1, 8, 8, 32, [2, 2], [0, 0], [0, 0], [1, 1]),
        RuntimeError,
        "Stride must be greater than 0",
    ),
    (lambda t: ttnn.permute(t(32, 32), [1, 1]), RuntimeError, "twice"),
    (lambda t: ttnn.chunk(t(0, 32), 8), RuntimeError, "must not be empty"),
    (lambda t: ttnn.gather(t(40, 33), 0, t(40, 33)), RuntimeError, "must be of type UINT32 or UINT16"),
    (
        lambda t: ttnn.scatter(t(40, 33), 0, t(17, dtype=ttnn.int32), t(17)),
        RuntimeError,
        "input_rank must be equal to index_rank",
    ),
    (lambda t: ttnn.arange(3, 0), RuntimeError, "Step direction does not match range bounds"),
    (lambda t: ttnn.arange(0, 2**45), RuntimeError, "more than the host makes"),
]


@pytest.mark.parametrize(("call", "kind", "words"), REFUSED)
def test_refused_when_called(
    card: Any, make: Make, call: Callable[[Make], Any], kind: type[Exception], words: str
) -> None:
    made: list[Any] = []

    def noted(*shape: int, **options: Any) -> Any:
        made.append(make(*shape, **options))
        return made[-1]

    with pytest.raises(kind, match=words):
        call(noted)
    assert all(tensor.is_allocated() for tensor in made)
    assert len(card.live) == len(made)
    assert card.memory_view(BufferType.L1).total_bytes_allocated_per_bank == 0
    ttnn.synchronize_device(card)  # and nothing comes later


COMPUTED: list[tuple[Callable[[Make], Any], list[float]]] = [
    (lambda t: ttnn.sum(t(2, 0)), [0.0]),
    (lambda t: ttnn.mean(t(0, 2), dim=0), [float("inf")] * 2),  # no number; a packer writes bfloat16 NaN as inf
    (lambda t: ttnn.sum(t(), dim=0), [0.0]),
    (lambda t: ttnn.max(t()), [0.0]),
    (lambda t: ttnn.softmax(t(2, 0), -1), []),
    (lambda t: ttnn.add(t(2, 0, dtype=ttnn.bfloat8_b), t(2, 0, dtype=ttnn.bfloat8_b)), []),
    (lambda t: ttnn.permute(t(1, 1, 0, 32), (0, 2, 3, 1)), []),
    (lambda t: ttnn.sum(t(2, 3, dtype=ttnn.uint32)), [15]),
    (lambda t: ttnn.max(t(2, 3, dtype=ttnn.int32), dim=0), [3, 4, 5]),
    (lambda t: ttnn.prelu(ttnn.neg(t(1, 3)), [0.5]), [0.0, -0.5, -1.0]),
    (lambda t: ttnn.add(t(1, 3, dtype=ttnn.int32), t(1, 3, dtype=ttnn.int32), dtype=ttnn.float32), [0.0, 2.0, 4.0]),
    (lambda t: ttnn.add(t(1, 3), t(1, 3), dtype=ttnn.int32), [0, 2, 4]),
    (lambda t: ttnn.fmod(t(1, 3, dtype=ttnn.int32), t(1, 3, dtype=ttnn.int32)), [0, 0, 0]),  # padding holds zeros
    (lambda t: ttnn.round(t(1, 3), decimals=None), [0.0, 1.0, 2.0]),
    (lambda t: ttnn.full([1], 2**70), [2.0**70]),
    (lambda t: ttnn.full([1], 1e39, dtype=ttnn.float32), [float("inf")]),
    (lambda t: ttnn.full([1], float("nan"), dtype=ttnn.int32), [-(2**31)]),
    (lambda t: ttnn.full([1], -1.0, dtype=ttnn.uint32), [2**32 - 1]),
    (lambda t: ttnn.full([1], 70000, dtype=ttnn.uint16), [4464]),
]


@pytest.mark.parametrize(("call", "numbers"), COMPUTED)
def test_computed_where_the_real_library_does(make: Make, call: Callable[[Make], Any], numbers: list[float]) -> None:
    assert ttnn.to_torch(call(make)).flatten().tolist() == numbers


def test_a_mixed_product_gives_its_temporaries_back(card: Any, make: Make) -> None:
    whole, broken = make(32, 32, dtype=ttnn.uint32, layout=ROWS), make(32, 32)
    kept = ttnn.mul(whole, broken)
    before = card.memory_view(BufferType.DRAM).total_bytes_allocated_per_bank
    more = [ttnn.mul(whole, broken) for _ in range(3)]
    ttnn.synchronize_device(card)
    del more
    assert card.memory_view(BufferType.DRAM).total_bytes_allocated_per_bank == before
    del kept


def test_values_are_seen_when_the_card_reads_them(card: Any, make: Make) -> None:
    """What indices are is known on the card alone: the queue tells, and says what it found."""
    table = make(4, 32, layout=ROWS)
    indices = ttnn.from_torch(torch.tensor([[0, 9]]), dtype=ttnn.uint32, layout=ROWS, device=card)
    kept = ttnn.embedding(indices, table)
    with pytest.raises(ValuesError, match="indices from 0 to 9 for 4 rows"):
        ttnn.synchronize_device(card)
    del kept
