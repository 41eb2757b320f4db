# SPDX-License-Identifier: Apache-2.0
"""docs/troubleshooting.md quotes what is really said."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tt_cnn import ttnn
from tt_cnn.builder import (
    Conv2dConfiguration,
    HeightShardedStrategyConfiguration,
    L1FullSliceStrategyConfiguration,
    TtConv2d,
)
from tt_cnn.pipeline import PipelineConfig, create_pipeline_from_config
from tt_cnn.preprocessing import make_parameter_dict

DOCUMENT = " ".join((Path(__file__).parents[2] / "docs" / "troubleshooting.md").read_text().split())


def configuration(size: tuple[int, int], channels: int, block: int = 0, **settings: Any) -> Conv2dConfiguration:
    return Conv2dConfiguration.with_random_weights(
        *size, channels, channels, 1, (3, 3), padding=(1, 1),
        sharding_strategy=HeightShardedStrategyConfiguration(act_block_h_override=block), **settings,
    )  # fmt: skip


def rows(count: int, channels: int, device: Any, **options: Any) -> Any:
    return ttnn.from_torch(torch.zeros(1, 1, count, channels), dtype=ttnn.bfloat16, device=device, **options)


def too_large(open_card: Callable[..., Any]) -> None:
    device = open_card(l1_small_size=32768)
    layer = TtConv2d(configuration((480, 640), 64, 2048, slice_strategy=L1FullSliceStrategyConfiguration()), device)
    layer(rows(480 * 640, 64, device))


def clashing(open_card: Callable[..., Any]) -> None:
    device = open_card(l1_small_size=32768)
    options = {"layout": ttnn.TILE_LAYOUT, "memory_config": ttnn.L1_MEMORY_CONFIG}
    held = [rows(10240, 512, device, **options) for _ in range(6)]
    layer = TtConv2d(configuration((64, 64), 256, 64, slice_strategy=L1FullSliceStrategyConfiguration()), device)
    layer(rows(4096, 256, device))
    del held


def larger_than_l1(open_card: Callable[..., Any]) -> None:
    device = open_card(l1_small_size=32768)
    layer = TtConv2d(configuration((8, 8), 512, slice_strategy=L1FullSliceStrategyConfiguration()), device)
    layer(rows(64, 512, device))


def no_small_region(open_card: Callable[..., Any]) -> None:
    device = open_card()
    TtConv2d(configuration((32, 32), 16), device)(rows(1024, 16, device))


def long_trace(open_card: Callable[..., Any]) -> None:
    device = open_card(trace_region_size=2048)
    x = rows(32, 32, device, layout=ttnn.TILE_LAYOUT)
    ttnn.relu(x)
    trace = ttnn.begin_trace_capture(device, cq_id=0)
    for _ in range(50):
        ttnn.relu(x)
    ttnn.end_trace_capture(device, trace, cq_id=0)


def pipeline(open_card: Callable[..., Any], **settings: Any) -> Any:
    memory = ttnn.create_sharded_memory_config([1, 1, 32, 32], ttnn.CoreGrid(x=1, y=1), ttnn.ShardStrategy.HEIGHT)
    config = PipelineConfig(**{"use_trace": False, "num_command_queues": 1, **settings})
    return create_pipeline_from_config(config, ttnn.clone, open_card(), l1_input_memory_config=memory)


def device_input(open_card: Callable[..., Any]) -> None:
    made = pipeline(open_card)
    made.compile(rows(32, 32, made.executor.device))


def other_shape(open_card: Callable[..., Any]) -> None:
    pipeline(open_card).compile(rows(64, 64, None))


def not_compiled(open_card: Callable[..., Any]) -> None:
    pipeline(open_card).enqueue([rows(32, 32, None)])


def untraced_io(open_card: Callable[..., Any]) -> None:
    pipeline(open_card, num_command_queues=2, all_transfers_on_separate_command_queue=True)


def unordered_queues(open_card: Callable[..., Any]) -> None:
    device = open_card(num_command_queues=2, hazards="raise")
    host = rows(32, 32, None, layout=ttnn.TILE_LAYOUT)
    x = ttnn.allocate_tensor_on_device(host.spec, device)
    ttnn.copy_host_to_device_tensor(host, x, cq_id=1)
    ttnn.relu(x)


def host_tensor(open_card: Callable[..., Any]) -> None:
    ttnn.relu(rows(32, 32, None))


def odd_block(open_card: Callable[..., Any]) -> None:
    HeightShardedStrategyConfiguration(act_block_h_override=48)


def torch_weight(open_card: Callable[..., Any]) -> None:
    replace(configuration((8, 8), 16), weight=torch.zeros(16, 16, 3, 3))


def misspelt(open_card: Callable[..., Any]) -> None:
    _ = make_parameter_dict({"weight": 1, "bias": 2}).bais


@pytest.mark.parametrize(
    ("cause", "quoted"),
    [
        (too_large, "Out of Memory: Not enough space to allocate ... L1 buffer"),
        (clashing, "Statically allocated circular buffers ... clash with L1 buffers"),
        (larger_than_l1, "Statically allocated circular buffers on core range ... beyond max L1 size of ... B"),
        (no_small_region, "... B L1_SMALL buffer ... bank size is 0 B"),
        (long_trace, "Creating trace buffers of size ..."),
        (device_input, "Input tensor must be on host"),
        (other_shape, "Shard width ... must match physical width ..."),
        (not_compiled, "The pipeline must be compiled before enqueue."),
        (untraced_io, "Pipelined I/O (all_transfers_on_separate_command_queue) requires tracing"),
        (unordered_queues, "... and nothing orders the two"),
        (host_tensor, "ttnn.relu needs a tensor on the device, but it was given a host tensor"),
        (odd_block, "act_block_h_override is 48; it must be a multiple of 32, or 0 to let TT-NN choose."),
        (torch_weight, "weight is a torch.Tensor of shape ...; it must be a ttnn.Tensor"),
        (misspelt, "no entry 'bais'; there are: weight, bias"),
    ],
)
def test_what_is_quoted_is_what_is_said(
    open_card: Callable[..., Any], cause: Callable[[Callable[..., Any]], None], quoted: str
) -> None:
    assert f"`{quoted}`" in DOCUMENT
    pattern = ".*".join(re.escape(part) for part in quoted.split("..."))
    with pytest.raises(Exception, match=f"(?s){pattern}"):
        cause(open_card)
