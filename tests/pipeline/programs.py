# SPDX-License-Identifier: Apache-2.0
"""Small models, the configurations of the five executors, and pipelines made of both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from tt_cnn import ttnn
from tt_cnn.pipeline import (
    Executor,
    ModelExecutor,
    MultiCQModelOverlappedInputExecutor,
    MultiCQTracedModelOverlappedInputExecutor,
    MultiCQTracedModelPipelinedIOExecutor,
    Pipeline,
    PipelineConfig,
    TracedModelExecutor,
    create_pipeline_from_config,
)

CONFIGS: dict[type[Executor], PipelineConfig] = {
    ModelExecutor: PipelineConfig(use_trace=False),
    TracedModelExecutor: PipelineConfig(),
    MultiCQModelOverlappedInputExecutor: PipelineConfig(use_trace=False, num_command_queues=2),
    MultiCQTracedModelOverlappedInputExecutor: PipelineConfig(num_command_queues=2),
    MultiCQTracedModelPipelinedIOExecutor: PipelineConfig(
        num_command_queues=2, all_transfers_on_separate_command_queue=True
    ),
}
EXECUTORS = list(CONFIGS)
TWO_QUEUES = [executor for executor, config in CONFIGS.items() if config.num_command_queues == 2]
TRACED = [executor for executor, config in CONFIGS.items() if config.use_trace]

DEVICE = {"l1_small_size": 16384, "trace_region_size": 65536, "num_command_queues": 2, "hazards": "raise"}


class Size(NamedTuple):
    shape: tuple[int, ...]
    dram_banks: int
    cores: int


SMALL, TALL = Size((1, 1, 32, 32), 1, 1), Size((1, 1, 512, 64), 4, 8)


def sharded(size: Size, where: Any, cores: int) -> Any:
    """Height shards on the first cores of a row."""
    grid = ttnn.CoreRangeSet([ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(cores - 1, 0))])
    spec = ttnn.ShardSpec(grid, [size.shape[-2] // cores, size.shape[-1]], ttnn.ShardOrientation.ROW_MAJOR)
    return ttnn.MemoryConfig(ttnn.TensorMemoryLayout.HEIGHT_SHARDED, where, spec)


def dram(size: Size) -> Any:
    return sharded(size, ttnn.BufferType.DRAM, size.dram_banks)


def l1(size: Size) -> Any:
    return sharded(size, ttnn.BufferType.L1, size.cores)


def pipeline(executor: type[Executor], model: Callable[[Any], Any], device: Any, size: Size = SMALL) -> Pipeline:
    return create_pipeline_from_config(
        CONFIGS[executor],
        model,
        device,
        dram_input_memory_config=dram(size),
        l1_input_memory_config=l1(size),
        dram_output_memory_config=dram(size),
    )


def host(values: torch.Tensor, **options: Any) -> Any:
    return ttnn.from_torch(values, dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT, **options)


def random_inputs(count: int, size: Size = SMALL, seed: int = 0) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(size.shape, generator=generator).bfloat16() for _ in range(count)]


def to_torch(outputs: Any) -> Any:
    """Host outputs as torch tensors, in their structure."""
    if isinstance(outputs, (list, tuple)):
        return type(outputs)(to_torch(one) for one in outputs)
    assert outputs.storage_type() == ttnn.StorageType.HOST
    return ttnn.to_torch(outputs)


def same(one: Any, other: Any) -> bool:
    """Bit by bit, structure included."""
    if isinstance(one, (list, tuple)):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    return torch.equal(one, other)


# --- models: what runs on the card, and what it should give ------------------------------------------------------


def relu(x: Any) -> Any:
    """One output; the input is given back half way."""
    tiled = ttnn.tilize(x)
    ttnn.deallocate(x)
    return ttnn.to_layout(ttnn.relu(tiled), ttnn.ROW_MAJOR_LAYOUT)


def identity(x: Any) -> Any:
    return ttnn.identity(x)


def nested(x: Any) -> Any:
    """A list with a tuple in it."""
    tiled = ttnn.tilize(x)
    rows = [ttnn.to_layout(y, ttnn.ROW_MAJOR_LAYOUT) for y in (ttnn.relu(tiled), ttnn.neg(tiled), ttnn.abs(tiled))]
    return [rows[0], (rows[1], rows[2])]


def surviving(x: Any) -> Any:
    """The input is needed to the end."""
    tiled = ttnn.relu(ttnn.tilize(x))
    again = ttnn.to_layout(tiled, ttnn.ROW_MAJOR_LAYOUT)
    ttnn.deallocate(tiled)
    return ttnn.to_layout(ttnn.add(ttnn.tilize(again), ttnn.tilize(x)), ttnn.ROW_MAJOR_LAYOUT)


def surviving_reference(x: torch.Tensor) -> torch.Tensor:
    return (x.float().relu() + x.float()).bfloat16()


MODELS: dict[str, tuple[Callable[[Any], Any], Callable[[torch.Tensor], Any]]] = {
    "one output": (relu, torch.relu),
    "nested outputs": (nested, lambda x: [torch.relu(x), (-x, x.abs())]),
    "surviving input": (surviving, surviving_reference),
}
