# SPDX-License-Identifier: Apache-2.0
"""The value types against the real library: each expectation here is an answer of TT-NN 0.81.1."""

from __future__ import annotations

import pytest
import torch

from tt_cnn.virtual import ttnn
from tt_cnn.virtual.types.tensor_spec import Spec

C, R, S = ttnn.CoreCoord, ttnn.CoreRange, ttnn.CoreRangeSet
ROW, COL = ttnn.ShardOrientation.ROW_MAJOR, ttnn.ShardOrientation.COL_MAJOR
HEIGHT, WIDTH, BLOCK = ttnn.ShardStrategy.HEIGHT, ttnn.ShardStrategy.WIDTH, ttnn.ShardStrategy.BLOCK
TAIL = ",nd_shard_spec=std::nullopt,created_with_nd_shard_spec=0,per_core_allocation=0,range_lockstep_allocation=0)"


def _grid(x: int, y: int) -> ttnn.CoreRangeSet:
    return S([R(C(0, 0), C(x - 1, y - 1))])


def _sharded() -> ttnn.MemoryConfig:
    return ttnn.MemoryConfig(
        ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.BufferType.L1, ttnn.ShardSpec(_grid(8, 1), [32, 64], ROW)
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (C(1, 2), "1-2"),
        (C((1, 2)), "1-2"),
        (R(C(0, 0), C(1, 2)), "[0-0 - 1-2]"),
        (S([R(C(0, 0), C(1, 2)), R(C(4, 4), C(5, 5))]), "{[0-0 - 1-2], [4-4 - 5-5]}"),
        (S({R(C(0, 0), C(1, 2))}), "{[0-0 - 1-2]}"),
        (S([]), "{}"),
        (ttnn.CoreGrid(x=8, y=4), "ttnn.CoreGrid(x=8, y=4)"),
        (ttnn.Shape([1, 1, 30, 40]), "Shape([1, 1, 30, 40])"),
        (ttnn.Shape([]), "Shape([])"),
        (ttnn.MeshShape(1, 2), "MeshShape([1, 2])"),
        (ttnn.MeshShape([1, 2]), "MeshShape([1, 2])"),
        (ttnn.Tile((32, 32)), "Tile with shape: [32, 32]"),
        (ttnn.bfloat16, "DataType.BFLOAT16"),
        (ttnn.TILE_LAYOUT, "Layout.TILE"),
        (ttnn.BufferType.L1, "BufferType.L1"),
        (ttnn.MathFidelity.HiFi4, "MathFidelity.HiFi4"),
        (ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU), "UnaryWithParam(op_type=UnaryOpType::RELU)"),
        (
            ttnn.DRAM_MEMORY_CONFIG,
            "MemoryConfig(memory_layout=TensorMemoryLayout::INTERLEAVED,buffer_type=BufferType::DRAM,"
            f"shard_spec=std::nullopt{TAIL}",
        ),
        (
            _sharded(),
            "MemoryConfig(memory_layout=TensorMemoryLayout::HEIGHT_SHARDED,buffer_type=BufferType::L1,shard_spec="
            'ShardSpec{grid=[{"start":{"x":0,"y":0},"end":{"x":7,"y":0}], shape=[32, 64], orientation='
            f"ShardOrientation::ROW_MAJOR}}{TAIL}",
        ),
        (
            ttnn.ShardSpec(S([R(C(0, 0), C(7, 3)), R(C(0, 4), C(2, 4))]), [15, 70], COL),
            'ShardSpec{grid=[{"start":{"x":0,"y":0},"end":{"x":7,"y":3}, {"start":{"x":0,"y":4},"end":{"x":2,"y":4}], '
            "shape=[15, 70], orientation=ShardOrientation::COL_MAJOR}",
        ),
    ],
)
def test_printing(value, text):
    assert repr(value) == text
    assert str(value) == text


def test_shard_strategy_prints_as_python_does():
    assert (repr(HEIGHT), str(HEIGHT)) == ("<ShardStrategy.HEIGHT: 1>", "ShardStrategy.HEIGHT")


def test_memory_configs_as_json():
    sharded = (
        '{"buffer_type":1,"created_with_nd_shard_spec":false,"memory_layout":2,"per_core_allocation":false,"shard_spec":'
        '{"grid":[{"end":{"x":7,"y":0},"start":{"x":0,"y":0}}],"orientation":0,"shape":[32,64]}}'
    )
    plain = '{"buffer_type":0,"created_with_nd_shard_spec":false,"memory_layout":0,"per_core_allocation":false}'
    assert _sharded().to_json() == sharded
    assert ttnn.DRAM_MEMORY_CONFIG.to_json() == plain
    assert ttnn.MemoryConfig.from_json(sharded) == _sharded()
    assert ttnn.MemoryConfig.from_json(plain) == ttnn.DRAM_MEMORY_CONFIG


def test_equality_and_hashing():
    assert C(1, 2) == C(1, 2) == (1, 2) and hash(C(1, 2)) == hash(C(1, 2))
    assert _sharded() == _sharded() and hash(_sharded()) == hash(_sharded())
    assert ttnn.CoreGrid(x=8, y=4) != ttnn.CoreGrid(x=8, y=4)
    assert S([R(C(0, 0), C(1, 1)), R(C(4, 4), C(5, 5))]) != S([R(C(4, 4), C(5, 5)), R(C(0, 0), C(1, 1))])
    shape = ttnn.Shape([1, 2])
    assert shape == [1, 2] and shape == (1, 2) and shape == torch.Size([1, 2]) and torch.Size([1, 2]) == shape
    assert ttnn.bfloat16 != 0 and ttnn.DataType(0) is ttnn.bfloat16


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (lambda: S([R(C(0, 0), C(1, 2))]).merge(S([R(C(2, 0), C(3, 2))])), "{[0-0 - 3-2]}"),
        (lambda: S([R(C(0, 0), C(1, 2))]).merge(S([R(C(1, 0), C(5, 5))])), "{[0-0 - 5-2], [1-3 - 5-5]}"),
        (lambda: S([R(C(0, 0), C(7, 0)), R(C(0, 1), C(3, 1))]).merge(S([R(C(4, 1), C(7, 1))])), "{[0-0 - 7-1]}"),
        (
            lambda: S([R(C(0, 0), C(7, 0)), R(C(0, 1), C(3, 1))]).merge(S([R(C(6, 1), C(7, 3))])),
            "{[0-0 - 7-0], [0-1 - 3-1], [6-1 - 7-3]}",
        ),
        (
            lambda: _grid(8, 8).subtract(S([R(C(3, 3), C(5, 5))])),
            "{[0-0 - 2-7], [6-0 - 7-7], [3-0 - 5-2], [3-6 - 5-7]}",
        ),
        (lambda: _grid(8, 8).subtract(S([R(C(0, 7), C(7, 7))])), "{[0-0 - 7-6]}"),
        (lambda: S([R(C(0, 0), C(1, 2)), R(C(4, 4), C(5, 5))]).bounding_box(), "[0-0 - 5-5]"),
        (lambda: ttnn.num_cores_to_corerangeset(20, C(8, 8), True), "{[0-0 - 7-1], [0-2 - 3-2]}"),
        (lambda: ttnn.num_cores_to_corerangeset(20, C(8, 8), False), "{[0-0 - 1-7], [2-0 - 2-3]}"),
        (lambda: ttnn.num_cores_to_corerangeset(0, C(8, 8), True), "{}"),
        (lambda: ttnn.Shape([3, 4]).to_rank(4), "Shape([1, 1, 3, 4])"),
        (lambda: ttnn.Shape([1, 1, 3, 4]).to_rank(2), "Shape([3, 4])"),
    ],
)
def test_what_they_compute(made, text):
    assert repr(made()) == text


@pytest.mark.parametrize(
    ("made", "kind", "message"),
    [
        (lambda: R(C(3, 0), C(1, 2)), RuntimeError, "Invalid core range for start_coord: 3-0, end_coord: 1-2"),
        (
            lambda: S([R(C(0, 0), C(1, 2)), R(C(1, 1), C(5, 5))]),
            RuntimeError,
            "Cannot create CoreRangeSet with specified core ranges because core ranges [0-0 - 1-2] and [1-1 - 5-5] "
            "overlap!",
        ),
        (lambda: S([]).bounding_box(), RuntimeError, "Cannot get bounding_box of an empty CoreRangeSet!"),
        (
            lambda: ttnn.num_cores_to_corerangeset(65, C(8, 8), True),
            RuntimeError,
            "Target number of cores 65 is greater than total number of available cores 64",
        ),
        (lambda: ttnn.Shape([1, 1, 30, 40])[7], RuntimeError, "ShapeBase[] index out of range. 7 not in [-4, 4)"),
        (lambda: ttnn.Shape([2, 1, 3, 4]).to_rank(2), RuntimeError, "Can't convert shape rank"),
        (lambda: ttnn.Shape([1, 2])[1:], TypeError, ""),
        (lambda: ttnn.Shape([1, -1]), TypeError, ""),
        (lambda: ttnn.Shape([2**40]), TypeError, ""),
        (lambda: C(-1, 2), TypeError, ""),
        (lambda: ttnn.CoreGrid(8, 4), TypeError, ""),
        (lambda: ttnn.MemoryConfig(1, 2), TypeError, ""),
        (lambda: ttnn.MemoryConfig(ttnn.BufferType.L1), TypeError, ""),
        (lambda: ttnn.ShardSpec(R(C(0, 0), C(1, 1)), [32, 64], ROW), TypeError, ""),
        (lambda: ttnn.ShardSpec(_grid(8, 1), [32, 64, 3], ROW), TypeError, ""),
        (lambda: ttnn.ShardSpec(_grid(8, 1), [-32, 64], ROW), TypeError, ""),
        (lambda: ttnn.ShardSpec(_grid(8, 1), [32, 64]), TypeError, ""),
        (
            lambda: ttnn.TensorSpec([1, 1, 30, 40], ttnn.bfloat8_b, ttnn.ROW_MAJOR_LAYOUT),
            RuntimeError,
            "Only TILE layout is supported for BFLOAT8_B dtype!",
        ),
    ],
)
def test_what_they_refuse(made, kind, message):
    with pytest.raises(kind) as caught:
        made()
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "shard"),
    [
        (((1, 1, 512, 64), ttnn.CoreGrid(x=8, y=1), HEIGHT), [64, 64]),
        (((1, 1, 512, 64), ttnn.CoreGrid(x=2, y=1), WIDTH), [512, 32]),
        (((1, 1, 512, 64), ttnn.CoreGrid(x=2, y=4), BLOCK), [128, 32]),
        (((1, 1, 512, 64), ttnn.CoreGrid(x=2, y=4), BLOCK, COL), [256, 16]),
        (((64, 64), _grid(8, 1), HEIGHT, ROW, True), [64, 64]),
        (((32, 64), _grid(8, 1), HEIGHT, COL, True), [64, 32]),
        ((ttnn.Shape([32, 64]), ttnn.CoreGrid(x=1, y=1), HEIGHT), [32, 64]),
        (((1, 1, 510, 64), ttnn.CoreGrid(x=8, y=1), HEIGHT), "Invalid sharding core_grid"),
        (((1, 1, 512, 64), _grid(8, 1), HEIGHT), "height and width must be shard shape with CoreRangeSet"),
        (((32, 64), (1, 2), HEIGHT), "Invalid core_grid type"),
        (((32, 64), ttnn.CoreGrid(x=1, y=1), 3), "Invalid sharding strategy"),
        (((32, 64), ttnn.CoreGrid(x=1, y=1), ttnn.TensorMemoryLayout.HEIGHT_SHARDED), "Invalid sharding strategy"),
        (((32, 64), ttnn.CoreGrid(x=1, y=1), HEIGHT, 4), "Invalid shard orientation"),
        (((64,), ttnn.CoreGrid(x=1, y=1), HEIGHT), "not enough values to unpack (expected at least 2, got 1)"),
        ((None, ttnn.CoreGrid(x=1, y=1), HEIGHT), "Invalid input shape"),
    ],
)
def test_create_sharded_memory_config(arguments, shard):
    if isinstance(shard, str):
        with pytest.raises((RuntimeError, ValueError)) as caught:
            ttnn.create_sharded_memory_config(*arguments)
        assert str(caught.value) == shard
    else:
        made = ttnn.create_sharded_memory_config(*arguments)
        assert made.shard_spec.shape == shard and made.buffer_type is ttnn.BufferType.L1


@pytest.mark.parametrize(
    ("arguments", "options", "shard"),
    [
        (((1, 1, 512, 64), ttnn.CoreGrid(x=8, y=1), HEIGHT, ROW), {}, [64, 64]),
        (((1, 1, 510, 64), ttnn.CoreGrid(x=8, y=1), HEIGHT, ROW), {"tile_layout": True}, [64, 64]),
        (((1, 1, 510, 70), ttnn.CoreGrid(x=2, y=4), BLOCK, ROW), {"tile_layout": True}, [128, 35]),
        (((1, 1, 510, 70), (ttnn.CoreGrid(x=8, y=4), ttnn.CoreGrid(x=3, y=1)), HEIGHT, ROW), {}, [15, 70]),
        (((32, 64), ttnn.CoreGrid(x=1, y=1), ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ROW), {}, [32, 64]),
        (((1, 1, 510, 70), ttnn.CoreGrid(x=8, y=4), HEIGHT, None), {}, "Invalid type of shard orientation"),
        (((1, 1, 510, 70), 4, HEIGHT, ROW), {}, "Invalid core_grid type"),
        (((1, 1, 510, 70), ttnn.CoreGrid(x=8, y=4), 4, ROW), {}, "Invalid type of sharding strategy"),
        (("abc", ttnn.CoreGrid(x=8, y=4), HEIGHT, ROW), {}, "Invalid input shape"),
        (
            ((1, 1, 512, 64), S([R(C(0, 0), C(7, 0)), R(C(0, 1), C(3, 1))]), BLOCK, ROW),
            {},
            "Invalid CoreRangeSet for block sharding strategy",
        ),
        (((1, 1, 33, 33), ttnn.CoreGrid(x=1, y=1), WIDTH, ROW), {"tile_layout": True}, "Incorrect tensor shape"),
    ],
)
def test_create_sharded_memory_config_(arguments, options, shard):
    if isinstance(shard, str):
        with pytest.raises(RuntimeError) as caught:
            ttnn.create_sharded_memory_config_(*arguments, **options)
        assert str(caught.value) == shard
    else:
        assert ttnn.create_sharded_memory_config_(*arguments, **options).shard_spec.shape == shard


@pytest.mark.parametrize(
    ("shape", "layout", "padded"),
    [
        ((1, 1, 30, 40), ttnn.TILE_LAYOUT, (1, 1, 32, 64)),
        ((1, 1, 30, 40), ttnn.ROW_MAJOR_LAYOUT, (1, 1, 30, 40)),
        ((5,), ttnn.TILE_LAYOUT, (32, 32)),
        ((2, 1, 3, 4, 5), ttnn.TILE_LAYOUT, (2, 1, 3, 32, 32)),
    ],
)
def test_padded_shapes(shape, layout, padded):
    assert Spec(ttnn.Shape(shape), ttnn.bfloat16, layout).padded_shape == padded


def test_tiles():
    tile = ttnn.Tile((32, 32))
    assert (tile.tile_shape, tile.face_shape, tile.num_faces) == ([32, 32], [16, 16], 4)
    assert [tile.get_tile_size(d) for d in (ttnn.bfloat16, ttnn.bfloat8_b, ttnn.bfloat4_b)] == [2048, 1088, 576]
