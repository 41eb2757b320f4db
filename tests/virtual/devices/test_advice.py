"""Errors that help: TT-NN's sentence first, then the step, the holders of L1, and changes that really fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from tt_cnn.virtual import ttnn
from tt_cnn.virtual.errors.card_error import layer

BF16 = ttnn.bfloat16


@pytest.fixture
def card() -> Iterator[ttnn.MeshDevice]:
    with ttnn.manage_device(0, card="n150", l1_small_size=32768) as device:
        yield device


def convolve(card: ttnn.MeshDevice, size: int, channels: tuple[int, int], slices: Any = None, **config: Any) -> Any:
    inputs, outputs = channels
    x = ttnn.from_torch(torch.zeros(1, 1, size * size, inputs), dtype=BF16, device=card)
    return ttnn.conv2d(
        input_tensor=x,
        weight_tensor=ttnn.from_torch(torch.zeros(outputs, inputs, 3, 3)),
        bias_tensor=ttnn.from_torch(torch.zeros(1, 1, 1, outputs)),
        device=card,
        in_channels=inputs,
        out_channels=outputs,
        batch_size=1,
        input_height=size,
        input_width=size,
        kernel_size=(3, 3),
        padding=(1, 1),
        conv_config=ttnn.Conv2dConfig(weights_dtype=BF16, **config),
        slice_config=slices or ttnn.Conv2dL1FullSliceConfig,
    )


def error_of(card: ttnn.MeshDevice, *args: Any, **kwargs: Any) -> str:
    with pytest.raises(RuntimeError) as caught, layer("encoder1"), layer("conv2"):
        convolve(card, *args, **kwargs)
    return str(caught.value)


def test_the_first_sentence_is_the_real_one_and_the_step_is_named(card: ttnn.MeshDevice) -> None:
    text = error_of(card, 7, (512, 512), shard_layout=ttnn.TensorMemoryLayout.HEIGHT_SHARDED)
    lines = text.splitlines()
    assert lines[0] == (  # recorded on a real 0.81.1
        "Statically allocated circular buffers on core range [0-0 - 1-0] grow to 1908128 B which is beyond max L1 size "
        "of 1499136 B"
    )
    assert lines[1] == "  conv2d (1x7x7x512 -> 512, 3x3, height sharded) of 'encoder1.conv2', step 4 of 4: Conv2d"


def test_what_is_said_to_fit_fits(card: ttnn.MeshDevice) -> None:
    text = error_of(card, 56, (64, 64), shard_layout=ttnn.TensorMemoryLayout.WIDTH_SHARDED)
    assert "act_block_h_override=512 " in text
    assert "shard_layout=ttnn.TensorMemoryLayout.HEIGHT_SHARDED " in text
    assert "slice_config height, 4 slices " in text
    width = ttnn.TensorMemoryLayout.WIDTH_SHARDED
    slices = ttnn.Conv2dSliceConfig(slice_type=ttnn.Conv2dDRAMSliceHeight, num_slices=4)
    for change in (
        {"shard_layout": width, "act_block_h_override": 512},
        {"shard_layout": ttnn.TensorMemoryLayout.HEIGHT_SHARDED},
        {"shard_layout": width, "slices": slices},
    ):
        assert convolve(card, 56, (64, 64), **change).shape == (1, 1, 3136, 64)


def test_a_skip_goes_to_dram_where_that_is_enough(card: ttnn.MeshDevice) -> None:
    height = ttnn.TensorMemoryLayout.HEIGHT_SHARDED
    small, skip = (
        ttnn.from_torch(torch.zeros(1, 1, rows, 256), BF16, device=card, memory_config=ttnn.L1_MEMORY_CONFIG)
        for rows in (64 * 100, 64 * 2400)
    )
    text = error_of(card, 128, (64, 64), shard_layout=height)
    assert "1x1x153600x256 bfloat16 from to_device in DRAM " in text
    assert "1x1x6400x256 bfloat16 from to_device in DRAM" not in text
    small = ttnn.to_memory_config(small, ttnn.DRAM_MEMORY_CONFIG)
    assert "clash" in error_of(card, 128, (64, 64), shard_layout=height)
    skip = ttnn.to_memory_config(skip, ttnn.DRAM_MEMORY_CONFIG)
    assert convolve(card, 128, (64, 64), shard_layout=height).shape == (1, 1, 16384, 64)
    del small, skip


def test_what_is_not_said_does_not_fit(card: ttnn.MeshDevice) -> None:
    """Two slices are milder than four; they are not named because they fail too."""
    slices = ttnn.Conv2dSliceConfig(slice_type=ttnn.Conv2dDRAMSliceHeight, num_slices=2)
    with pytest.raises(RuntimeError):
        convolve(card, 56, (64, 64), slices, shard_layout=ttnn.TensorMemoryLayout.WIDTH_SHARDED)


def test_the_holders_are_named_largest_first(card: ttnn.MeshDevice) -> None:
    def tensor(rows: int) -> Any:
        return ttnn.from_torch(
            torch.zeros(1, 1, rows, 64), dtype=BF16, device=card, memory_config=ttnn.L1_MEMORY_CONFIG
        )

    small, large = tensor(64 * 1024), tensor(64 * 4096)
    kept = [small]
    with pytest.raises(RuntimeError, match="Out of Memory") as caught:
        for _ in range(4):
            kept.append(ttnn.relu(large))
    lines = str(caught.value).splitlines()
    assert lines[1] == "  ttnn.relu(1x1x262144x64), step 1 of 1: Unary output"
    assert lines[2].startswith("  held by: 1x1x262144x64 bfloat16 from ")
    assert any("1x1x65536x64 bfloat16 from to_device, 131072 B a core" in line for line in lines)
    assert "fits: memory_config=ttnn.DRAM_MEMORY_CONFIG" in lines[-2] and "from relu in DRAM " in lines[-1]


def test_looking_for_advice_leaves_the_memory_as_it_was(card: ttnn.MeshDevice) -> None:
    regions = (ttnn.BufferType.L1, ttnn.BufferType.L1_SMALL)
    before = [card.memory_view(kind).block_table for kind in regions]
    error_of(card, 56, (64, 64), shard_layout=ttnn.TensorMemoryLayout.WIDTH_SHARDED)
    assert [card.memory_view(kind).block_table for kind in regions] == before
