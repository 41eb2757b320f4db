# SPDX-License-Identifier: Apache-2.0
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
    assert any("1x1x65536x64 bfloat16 from to_device, 131072 B per core" in line for line in lines)
    assert "fits: memory_config=ttnn.DRAM_MEMORY_CONFIG" in lines[-2] and "from relu in DRAM " in lines[-1]


def test_looking_for_advice_leaves_the_memory_as_it_was(card: ttnn.MeshDevice) -> None:
    regions = (ttnn.BufferType.L1, ttnn.BufferType.L1_SMALL)
    before = [card.memory_view(kind).block_table for kind in regions]
    error_of(card, 56, (64, 64), shard_layout=ttnn.TensorMemoryLayout.WIDTH_SHARDED)
    assert [card.memory_view(kind).block_table for kind in regions] == before


# --- what every refusal must be cured by ----------------------------------------------------------------------------


def of_seven_pixels(card: ttnn.MeshDevice, kernel: int = 3, **config: Any) -> Any:
    """512 to 512 channels of 7x7 pixels that lie in height shards on two cores."""
    sharded = ttnn.create_sharded_memory_config(
        (1, 1, 64, 512), core_grid=ttnn.CoreGrid(x=2, y=1), strategy=ttnn.ShardStrategy.HEIGHT
    )
    x = ttnn.from_torch(torch.zeros(1, 1, 49, 512), BF16, layout=ttnn.TILE_LAYOUT, device=card, memory_config=sharded)
    return ttnn.conv2d(
        input_tensor=x,
        weight_tensor=ttnn.from_torch(torch.zeros(512, 512, kernel, kernel)),
        device=card,
        in_channels=512,
        out_channels=512,
        batch_size=1,
        input_height=7,
        input_width=7,
        kernel_size=(kernel, kernel),
        padding=(kernel // 2, kernel // 2),
        conv_config=ttnn.Conv2dConfig(
            **{
                "weights_dtype": BF16,
                "shard_layout": ttnn.TensorMemoryLayout.HEIGHT_SHARDED,
                "enable_weights_double_buffer": True,
                **config,
            }
        ),
    )


@pytest.mark.parametrize("kernel", [3, 7])
def test_many_channels_of_few_pixels_fit_in_block_shards_or_with_smaller_weights(
    card: ttnn.MeshDevice, kernel: int
) -> None:
    with pytest.raises(RuntimeError, match="beyond max L1 size") as caught:
        of_seven_pixels(card, kernel)
    text, block = str(caught.value), ttnn.TensorMemoryLayout.BLOCK_SHARDED
    assert "fits: shard_layout=ttnn.TensorMemoryLayout.BLOCK_SHARDED, reshard_if_not_optimal=True " in text
    shape = of_seven_pixels(card, kernel, shard_layout=block, reshard_if_not_optimal=True).shape
    assert shape == (1, 1, 49, 512)
    said = "weights_dtype=ttnn.bfloat8_b, enable_weights_double_buffer=False " in text
    smaller = {"weights_dtype": ttnn.bfloat8_b, "enable_weights_double_buffer": False}
    if said:
        assert of_seven_pixels(card, kernel, **smaller).shape == shape
    else:
        with pytest.raises(RuntimeError):
            of_seven_pixels(card, kernel, **smaller)
    assert said == (kernel == 3)


def shards(height: int, width: int) -> Any:
    cores = ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(3, 0))})
    spec = ttnn.ShardSpec(cores, [height, width], ttnn.ShardOrientation.ROW_MAJOR)
    return ttnn.MemoryConfig(ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.BufferType.L1, spec)


def test_shards_that_cut_tiles_are_told_with_shards_that_do_not(card: ttnn.MeshDevice) -> None:
    def placed(config: Any, layout: Any = ttnn.TILE_LAYOUT) -> Any:
        return ttnn.from_torch(torch.zeros(1, 1, 196, 64), BF16, layout=layout, device=card, memory_config=config)

    with pytest.raises(RuntimeError, match=r"Physical shard shape \(49, 64\) must be tile") as caught:
        placed(shards(49, 64))
    assert str(caught.value).splitlines()[1] == (
        "  tiles are not cut; fits: shards of (64, 64), or layout=ttnn.ROW_MAJOR_LAYOUT with these shards, or an "
        "interleaved memory_config"
    )
    assert placed(shards(64, 64)).shape == (1, 1, 196, 64)
    rows = placed(shards(49, 64), ttnn.ROW_MAJOR_LAYOUT)
    assert placed(ttnn.L1_MEMORY_CONFIG).shape == (1, 1, 196, 64)
    with pytest.raises(RuntimeError, match=r"Physical shard shape \(49, 64\) must be tile") as caught:
        ttnn.to_layout(rows, ttnn.TILE_LAYOUT)
    assert "fits: its input after ttnn.to_memory_config(input, ttnn.L1_MEMORY_CONFIG) " in str(caught.value)
    moved = ttnn.to_memory_config(rows, ttnn.L1_MEMORY_CONFIG)
    assert ttnn.to_layout(moved, ttnn.TILE_LAYOUT).shape == (1, 1, 196, 64)


def test_what_l1_small_needs_is_told_by_its_name() -> None:
    def pooled(device: ttnn.MeshDevice) -> Any:
        x = ttnn.from_torch(torch.zeros(1, 1, 3136, 64), BF16, device=device, memory_config=ttnn.L1_MEMORY_CONFIG)
        return ttnn.max_pool2d(x, 1, 56, 56, 64, [3, 3], [2, 2], [1, 1], [1, 1])

    with (
        ttnn.manage_device(0, card="n150") as device,
        pytest.raises(RuntimeError, match="L1_SMALL buffer") as caught,
    ):
        pooled(device)
    text = str(caught.value)
    assert "fits: l1_small_size=8192 when the device is opened " in text and "held by" not in text
    with ttnn.manage_device(0, card="n150", l1_small_size=8192) as device:
        assert pooled(device).shape == (1, 1, 784, 64)


def test_an_input_that_is_too_large_for_a_pool_or_a_convolution_goes_to_dram(card: ttnn.MeshDevice) -> None:
    def of_image(run: Any, config: Any) -> Any:
        pixels = torch.zeros(1, 1, 640 * 640, 64)
        return run(ttnn.from_torch(pixels, BF16, device=card, memory_config=config))

    def pooled(x: Any) -> Any:
        return ttnn.max_pool2d(x, 1, 640, 640, 64, [3, 3], [1, 1], [1, 1], [1, 1])

    def convolved(x: Any) -> Any:
        sizes = {"in_channels": 64, "out_channels": 64, "batch_size": 1, "input_height": 640, "input_width": 640}
        weight = ttnn.from_torch(torch.zeros(64, 64, 3, 3))
        return ttnn.conv2d(
            input_tensor=x, weight_tensor=weight, device=card, kernel_size=(3, 3), padding=(1, 1), **sizes
        )

    grid, strategy = ttnn.CoreGrid(x=8, y=8), ttnn.ShardStrategy.HEIGHT
    sharded = ttnn.create_sharded_memory_config((1, 1, 640 * 640, 64), core_grid=grid, strategy=strategy)
    for run in (pooled, convolved):
        with pytest.raises(RuntimeError) as caught:
            of_image(run, sharded)
        assert "its input in DRAM: TT-NN " in str(caught.value)
        assert of_image(run, ttnn.DRAM_MEMORY_CONFIG).shape[-1] == 64


def test_tables_of_a_convolution_may_go_to_dram_too() -> None:
    with ttnn.manage_device(0, card="n150") as device:
        text = error_of(device, 56, (64, 64), shard_layout=ttnn.TensorMemoryLayout.HEIGHT_SHARDED)
        assert "l1_small_size=8192 " in text and "config_tensors_in_dram=True " in text
        sharded = {"shard_layout": ttnn.TensorMemoryLayout.HEIGHT_SHARDED, "config_tensors_in_dram": True}
        assert convolve(device, 56, (64, 64), **sharded).shape == (1, 1, 3136, 64)


def test_a_fault_of_ours_is_told_with_the_refusal(card: ttnn.MeshDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    from tt_cnn.virtual.devices import advice

    def broken(*_: Any) -> Any:
        raise KeyError("ours")

    monkeypatch.setattr(advice, "check_shard_grid", broken)
    lines = error_of(card, 56, (64, 64), shard_layout=ttnn.TensorMemoryLayout.WIDTH_SHARDED).splitlines()
    assert "Statically allocated" in lines[0] or "Out of Memory" in lines[0]
    assert lines[2] == "  a fault of tt-cnn, please report it: KeyError of a change: 'ours'"


def shards_on_few_cores(rows: int, cores: int) -> Any:
    grid = ttnn.CoreRangeSet([ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(cores - 1, 0))])
    spec = ttnn.ShardSpec(grid, (rows // cores, 64), ttnn.ShardOrientation.ROW_MAJOR)
    return ttnn.MemoryConfig(ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.BufferType.L1, spec)


@pytest.mark.parametrize("way", ["to_device", "from_torch", "allocate", "empty"])
def test_a_tensor_that_does_not_fit_is_told_its_other_forms(card: ttnn.MeshDevice, way: str) -> None:
    """2 MB a core on two cores; over all cores, interleaved and in DRAM there is room, and each of them is true."""
    rows, tiles = 32768, ttnn.TILE_LAYOUT
    config, host = shards_on_few_cores(rows, 2), torch.zeros(1, 1, rows, 64)

    def put(memory_config: Any, dtype: Any = BF16) -> Any:
        if way == "to_device":
            made = ttnn.from_torch(host, dtype=dtype, layout=tiles)
            return ttnn.to_device(made, card, memory_config=memory_config)
        if way == "from_torch":
            return ttnn.from_torch(host, dtype=dtype, layout=tiles, device=card, memory_config=memory_config)
        make = ttnn.allocate_tensor_on_device if way == "allocate" else ttnn.empty
        return make(ttnn.Shape(host.shape), dtype, tiles, card, memory_config)

    before = card.memory.snapshot()
    with pytest.raises(RuntimeError) as caught, layer("stem"):
        put(config)
    assert card.memory.snapshot() == before
    lines = str(caught.value).splitlines()
    name = {"allocate": "allocate_tensor_on_device", "from_torch": "to_device"}.get(way, way)
    assert lines[0].startswith("Out of Memory: Not enough space to allocate 4194304 B L1 buffer across 2 banks")
    assert lines[1] == f"  ttnn.{name}(1x1x32768x64 bfloat16) of 'stem'"
    told = [line.removeprefix("  fits:").split(" needs ")[0].strip() for line in lines[2:]]
    assert told == [
        "memory_config with shards of (512, 64) on 8x8 cores",
        "memory_config=ttnn.L1_MEMORY_CONFIG",
        "memory_config=ttnn.DRAM_MEMORY_CONFIG",
    ]
    for remedy in caught.value.remedies():
        ttnn.deallocate(put(remedy.change["memory_config"]))


def test_a_tensor_fits_in_a_smaller_format_where_nothing_else_helps(card: ttnn.MeshDevice) -> None:
    """DRAM that is nearly full: bfloat8_b is the only form that is left."""
    bank = card.memory.regions[ttnn.BufferType.DRAM]
    banks = card.card.dram_banks
    rows = (bank.size // 2048 - 100) * 32 * banks
    held = ttnn.allocate_tensor_on_device(ttnn.Shape([rows, 32]), BF16, ttnn.TILE_LAYOUT, card)
    asked = ttnn.Shape([150 * 32 * banks, 32])
    with pytest.raises(RuntimeError, match="Out of Memory") as caught:
        ttnn.allocate_tensor_on_device(asked, BF16, ttnn.TILE_LAYOUT, card)
    text = str(caught.value)
    assert "fits: dtype=ttnn.bfloat8_b of the tensor" in text and "memory_config" not in text
    ttnn.allocate_tensor_on_device(asked, ttnn.bfloat8_b, ttnn.TILE_LAYOUT, card)
    del held
