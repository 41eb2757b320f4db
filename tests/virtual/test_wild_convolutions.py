# SPDX-License-Identifier: Apache-2.0
"""Convolutions that nobody would ask for: each is planned, or refused with a typed error that says why.

The real library ends the process for about 3 % of such calls. Here nothing may crash, hang, break inside (an
AssertionError, a KeyError, a division by zero, also where one is the cause of a TypeError), or leave memory behind.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from functools import cache
from typing import Any

import pytest
import torch

from tests.virtual.networks.noting import PlanOnlyCard
from tt_cnn.virtual import ttnn

REFUSALS = (RuntimeError, ValueError, TypeError)
HANGS = 30.0
"""Seconds of this thread after which a call counts as hanging. None takes a tenth of a second by itself; now and then
Python collects meanwhile what all tests before have left, which takes some seconds."""
FEW, ALL, PART = 800, 10_000, 400

LAYOUTS = [ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.TensorMemoryLayout.BLOCK_SHARDED]
LAYOUTS += [ttnn.TensorMemoryLayout.WIDTH_SHARDED]
DTYPES = [ttnn.bfloat16, ttnn.bfloat8_b, ttnn.float32, ttnn.bfloat4_b, ttnn.uint16, ttnn.uint32, ttnn.int32]
SLICES = [ttnn.Conv2dL1Full, ttnn.Conv2dDRAMSliceHeight, ttnn.Conv2dDRAMSliceWidth]
ODD_NUMBERS = [0, -1, -7, 2, 33, 1 << 16, (1 << 31) - 1, 1 << 32, 1 << 70]
ODD_THINGS = [None, 2.5, "3", True, (), (1,), (1, 2, 3), [1, 1, 1, 1], object()]


class Wild:
    """One call's arguments. Most of them make sense together; a few are bent."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        size = draw.choice([1, 2, 5, 7, 14, 20, 28, 33, 56, 80, 128, 224])
        channels = [1, 3, 8, 16, 17, 32, 48, 64, 100, 128, 256, 512] if size < 60 else [1, 3, 8, 16, 32, 64]
        self.sizes: dict[str, Any] = {
            "in_channels": draw.choice(channels),
            "out_channels": draw.choice(channels),
            "batch_size": draw.choice([1, 1, 1, 2, 3, 8]),
            "input_height": size,
            "input_width": draw.choice([size, size, size + 1, max(1, size // 3), 2 * size]),
        }
        self.windows: dict[str, Any] = {
            "kernel_size": self._pair([1, 1, 2, 3, 3, 5, 7, 9]),
            "stride": self._pair([1, 1, 1, 2, 3, 4, 8]),
            "padding": self._padding(),
            "dilation": self._pair([1, 1, 1, 1, 2, 3]),
        }
        self.groups = draw.choice([1, 1, 1, 1, 2, 3, self.sizes["in_channels"], 64])
        self.bent = {name: value for name in (*self.sizes, *self.windows, "groups") for value in self._bent(name)}

    def _pair(self, numbers: list[int]) -> tuple[int, int]:
        first = self.draw.choice(numbers)
        return first, self.draw.choice([first, first, first, *numbers])

    def _padding(self) -> tuple[int, ...]:
        return tuple(self.draw.choice([0, 0, 1, 1, 2, 3, 5]) for _ in range(self.draw.choice([2, 2, 2, 4])))

    def _bent(self, name: str) -> list[Any]:
        chance = self.draw.random()
        if chance > 0.025:
            return []
        if chance < 0.004:
            return [self.draw.choice(ODD_THINGS)]
        number = self.draw.choice(ODD_NUMBERS)
        return [number if name in self.sizes or name == "groups" else (number, self.draw.choice([1, number]))]

    def image(self, card: PlanOnlyCard) -> Any:
        """The input: on the host, interleaved or sharded; now and then of another shape than the call says."""
        draw, sizes = self.draw, self.sizes
        n, h, w, c = (sizes[k] for k in ("batch_size", "input_height", "input_width", "in_channels"))
        shape: tuple[int, ...] = draw.choice([(1, 1, n * h * w, c)] * 6 + [(n, h, w, c)] * 3)
        if draw.random() < 0.08:
            shape = draw.choice([(n * h * w, c), (1, n * h * w, c), (1, 1, n * h * w + 5, c), (1, 1, 32, 2 * c), (1,)])
        dtype = draw.choice([ttnn.bfloat16] * 12 + DTYPES)
        layout = ttnn.TILE_LAYOUT if dtype in (ttnn.bfloat8_b, ttnn.bfloat4_b) else draw.choice([*ttnn.Layout][:2])
        if draw.random() < 0.25:
            return ttnn.zeros(shape, dtype=dtype, layout=layout)
        memory = draw.choice([ttnn.DRAM_MEMORY_CONFIG, ttnn.L1_MEMORY_CONFIG, "shards", "shards"])
        if memory == "shards":
            memory = self._shards(n * h * w, c, 32 if layout == ttnn.TILE_LAYOUT else draw.choice([1, 8, 32]))
        spec = ttnn.TensorSpec(
            shape, dtype, layout, memory.memory_layout, memory.shard_spec, buffer_type=memory.buffer_type
        )
        return ttnn.allocate_tensor_on_device(spec, card)

    def _shards(self, rows: int, channels: int, unit: int = 32) -> Any:
        draw = self.draw
        x, y = draw.randint(1, 8), draw.randint(1, 8)
        layout = draw.choice(LAYOUTS)
        high = {LAYOUTS[0]: x * y, LAYOUTS[1]: y, LAYOUTS[2]: 1}[layout]
        wide = {LAYOUTS[0]: 1, LAYOUTS[1]: x, LAYOUTS[2]: x * y}[layout]
        shape = tuple(-(-size // (parts * unit)) * unit for size, parts in ((rows, high), (channels, wide)))
        grid = ttnn.CoreRangeSet([ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(x - 1, y - 1))])
        orientation = draw.choice([ttnn.ShardOrientation.ROW_MAJOR] * 3 + [ttnn.ShardOrientation.COL_MAJOR])
        return ttnn.MemoryConfig(layout, ttnn.BufferType.L1, ttnn.ShardSpec(grid, shape, orientation))

    def parameters(self) -> tuple[Any, Any]:
        draw = self.draw
        inputs, outputs = self.sizes["in_channels"], self.sizes["out_channels"]
        shape = [outputs, max(1, inputs // self.groups), *self.windows["kernel_size"]]
        if draw.random() < 0.06:
            shape = draw.choice([shape[::-1], shape[:2], [1, 1, 1, 1], [shape[0] + 1, *shape[1:]], [2, 2, *shape]])
        dtype = draw.choice([ttnn.bfloat16] * 5 + [ttnn.float32, ttnn.bfloat16, ttnn.int32])
        bias = (
            [1, 1, 1, outputs] if draw.random() < 0.95 else draw.choice([[outputs], [1, 1, 1, 1], [1, 1, outputs, 1]])
        )
        return on_host(tuple(shape), dtype), on_host(tuple(bias), dtype) if draw.random() < 0.6 else None

    def options(self) -> dict[str, Any]:
        draw = self.draw
        config = {
            "weights_dtype": draw.choice([None, *DTYPES[:4], ttnn.bfloat8_b, ttnn.bfloat8_b]),
            "shard_layout": draw.choice([None, *LAYOUTS, *LAYOUTS]),
            "act_block_h_override": draw.choice([0] * 8 + [32, 32, 64, 64, 96, 48, 1 << 12, 1 << 30]),
            "act_block_w_div": draw.choice([1] * 12 + [2, 3, 0, 1 << 20]),
            "output_layout": draw.choice([ttnn.TILE_LAYOUT, ttnn.TILE_LAYOUT, ttnn.ROW_MAJOR_LAYOUT]),
            "activation": draw.choice([None, None, ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU), ttnn.UnaryOpType.SILU]),
            "padding_mode": draw.choice([ttnn.PaddingMode.Zeros] * 9 + [ttnn.PaddingMode.Replicate]),
        }
        for switch in SWITCHES:
            if draw.random() < 0.08:
                config[switch] = draw.random() < 0.7
        if draw.random() < 0.15:
            corner = ttnn.CoreCoord(draw.choice([0, 3, 7, 8, 12]), draw.choice([0, 1, 7, 9]))
            config["core_grid"] = ttnn.CoreRangeSet([ttnn.CoreRange(ttnn.CoreCoord(0, 0), corner)])
        given: dict[str, Any] = {"conv_config": ttnn.Conv2dConfig(**config)}
        if draw.random() < 0.4:
            slices = draw.choice([0, 1, 2, 3, 7, 64, 1000])
            given["slice_config"] = ttnn.Conv2dSliceConfig(slice_type=draw.choice(SLICES), num_slices=slices)
        if draw.random() < 0.5:
            given["compute_config"] = ttnn.WormholeComputeKernelConfig(
                fp32_dest_acc_en=draw.random() < 0.5, packer_l1_acc=draw.random() < 0.5
            )
        given["dtype"] = draw.choice([None, ttnn.bfloat16, ttnn.bfloat16, *DTYPES])
        if draw.random() < 0.1:
            given["memory_config"] = draw.choice([ttnn.DRAM_MEMORY_CONFIG, ttnn.L1_MEMORY_CONFIG, self._shards(64, 64)])
        for returned in ("return_output_dim", "return_weights_and_bias"):
            given[returned] = draw.random() < 0.3
        return given


SWITCHES = (
    "deallocate_activation",
    "reallocate_halo_output",
    "config_tensors_in_dram",
    "reshard_if_not_optimal",
    "override_sharding_config",
    "transpose_shards",
    "enable_act_double_buffer",
    "enable_weights_double_buffer",
    "full_inner_dim",
    "enable_kernel_stride_folding",
    "enable_activation_reuse",
    "force_split_reader",
    "override_output_sharding_config",
)


@cache
def on_host(shape: tuple[int, ...], dtype: Any) -> Any:
    return ttnn.from_torch(torch.zeros(shape), dtype=dtype)


def outcome(seed: int, card: PlanOnlyCard) -> str:
    """`planned`, or the type of the refusal; anything else is told as it is."""
    wild = Wild(random.Random(seed))
    try:
        image = wild.image(card)
    except REFUSALS:  # shards that cannot be, or do not fit
        image = on_host((1, 1, 64, 32), ttnn.bfloat16)
    weight, bias = wild.parameters()
    arguments = {**wild.sizes, **wild.windows, "groups": wild.groups, **wild.options(), **wild.bent}
    begin = time.thread_time()
    try:
        ttnn.conv2d(input_tensor=image, weight_tensor=weight, bias_tensor=bias, device=card, **arguments)
        word = "planned"
    except REFUSALS as error:
        assert str(error).strip(), "a refusal says why"
        word = next(kind.__name__ for kind in REFUSALS if isinstance(error, kind))
        cause = error.__cause__
        if cause is not None and not isinstance(cause, REFUSALS):
            word = f"{word} for a {type(cause).__name__} inside: {cause}"
    except Exception as error:
        word = f"{type(error).__name__}: {error}"
    seconds = time.thread_time() - begin
    if seconds > HANGS:
        word = f"{word} after {seconds:.1f} s"
    if image.storage_type() == ttnn.StorageType.DEVICE and image.is_allocated():
        image.deallocate()
    return word


def left_behind(card: PlanOnlyCard) -> dict[str, int]:
    card.clear_program_cache()
    return {kind.name: region.allocated for kind, region in card.memory.regions.items() if region.allocated}


def calls(first: int, count: int, name: str) -> None:
    card = PlanOnlyCard(name)
    outcomes: Counter[str] = Counter()
    wrong = []
    for seed in range(first, first + count):
        word = outcome(seed, card)
        outcomes[word] += 1
        left = left_behind(card)
        if left or " " in word:
            wrong.append(f"{seed}: {word} {left or ''}")
            card = PlanOnlyCard(name)
    assert not wrong, "\n".join(wrong)
    assert outcomes["planned"] > count // 20, f"the calls are too wild: {outcomes}"
    assert outcomes["RuntimeError"] > count // 20, f"the calls are too tame: {outcomes}"


@pytest.mark.parametrize("name", ["n150", "p150"])
def test_wild_calls_are_planned_or_refused(name: str) -> None:
    calls(0, FEW // 2, name)


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, ALL, PART))
def test_ten_thousand_wild_calls_are_planned_or_refused(first: int) -> None:
    calls(first, PART, "p150" if first // PART % 4 == 3 else "n150")
