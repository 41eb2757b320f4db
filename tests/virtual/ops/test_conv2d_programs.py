# SPDX-License-Identifier: Apache-2.0
"""What a convolution's program says of itself: its kind, its buffers, who sends to whom, and how it reads."""

from __future__ import annotations

from typing import Any

import pytest

from tests.virtual.cost.layers import conv_steps, only
from tt_cnn.virtual.ops.conv2d.blocks import Blocks, Compute, CoreWork, Formats
from tt_cnn.virtual.ops.conv2d.config import Settings
from tt_cnn.virtual.ops.conv2d.dispatch import (
    BlockShardedConvProgram,
    HeightShardedConvProgram,
    WidthShardedConvProgram,
)
from tt_cnn.virtual.ops.conv2d.program import ConvProgram, CoreRoles
from tt_cnn.virtual.ops.conv2d.split_reader import splits_reader
from tt_cnn.virtual.types.enums import Arch, DataType, TensorMemoryLayout

KINDS = {"HEIGHT": HeightShardedConvProgram, "BLOCK": BlockShardedConvProgram, "WIDTH": WidthShardedConvProgram}


def program_of(size: int, inputs: int, outputs: int, layout: str) -> ConvProgram:
    program = only(conv_steps(size, inputs, outputs, layout=layout), "Conv2d").program
    assert isinstance(program, ConvProgram)
    return program


@pytest.mark.parametrize("layout", KINDS)
def test_each_way_of_sharding_has_its_program_with_named_buffers(layout: str) -> None:
    program = program_of(14, 256, 256, layout)
    assert type(program) is KINDS[layout]
    names = [buffer.name for buffer in program.buffers]
    assert len(set(names)) == len(names) and {"input", "weights", "output", "tilized activations"} <= set(names)
    assert program.multiply_adds(only(conv_steps(14, 256, 256, layout=layout), "Conv2d")) == 14 * 14 * 256 * 256 * 9


def test_one_core_fetches_the_weights_of_height_shards() -> None:
    program = program_of(56, 64, 64, "HEIGHT")
    assert program.roles == CoreRoles(0, 0, 1, program.cores.num_cores() - 1)


def test_width_shards_send_their_channels_to_all_and_weights_to_nobody() -> None:
    program = program_of(7, 512, 512, "WIDTH")
    assert program.roles.activation_senders == 512 // 32
    assert program.roles.weight_receivers == 0 and not program.splits_reader


def work(**changes: Any) -> CoreWork:
    return CoreWork(
        Arch.WORMHOLE_B0,
        TensorMemoryLayout.HEIGHT_SHARDED,
        Blocks(4, 2, 4, 6, 1, 2),
        (3, 3),
        (1, 1),
        56,
        64,
        (576, 64),
        Formats(DataType.BFLOAT16, DataType.BFLOAT8_B, DataType.BFLOAT16),
        False,
        Compute(),
        Settings(),
    )._replace(**changes)


def test_a_reader_is_split_where_there_is_something_to_split() -> None:
    assert splits_reader(work(settings=Settings(force_split_reader=True)))
    assert not splits_reader(work(settings=Settings(force_split_reader=True), blocks=Blocks(4, 2, 1, 6, 1, 2)))
    assert not splits_reader(work(depthwise_1d=True))
    assert splits_reader(work(layout=TensorMemoryLayout.BLOCK_SHARDED))


def test_formats_without_a_measured_rate_are_refused() -> None:
    """TT-NN's table of tilize cycles has no bfloat4_b; it throws in `get_tilize_cycles_per_tile`."""
    formats = Formats(DataType.BFLOAT16, DataType.BFLOAT8_B, DataType.BFLOAT4_B)
    with pytest.raises(RuntimeError, match="Unsupported output data type when calculating tilize cycles"):
        splits_reader(work(formats=formats))
