# SPDX-License-Identifier: Apache-2.0
"""From a configuration to a pipeline with the executor that it asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tt_cnn import ttnn
from tt_cnn.pipeline.config import PipelineConfig
from tt_cnn.pipeline.executors import (
    Executor,
    ModelExecutor,
    MultiCQModelOverlappedInputExecutor,
    MultiCQTracedModelOverlappedInputExecutor,
    MultiCQTracedModelPipelinedIOExecutor,
    TracedModelExecutor,
)
from tt_cnn.pipeline.outputs import leaves_of
from tt_cnn.pipeline.pipeline import Pipeline

_EXECUTORS: dict[tuple[bool, int, bool], type[Executor]] = {
    # trace, queues, all transfers on their own queue
    (False, 1, False): ModelExecutor,
    (True, 1, False): TracedModelExecutor,
    (False, 2, False): MultiCQModelOverlappedInputExecutor,
    (True, 2, False): MultiCQTracedModelOverlappedInputExecutor,
    (True, 2, True): MultiCQTracedModelPipelinedIOExecutor,
}


def create_pipeline_from_config(
    config: PipelineConfig,
    model: Callable[[Any], Any],
    device: Any,
    l1_input_memory_config: Any = None,
    dram_input_memory_config: Any = None,
    dram_output_memory_config: Any = None,
) -> Pipeline:
    """A pipeline for a model that takes one tensor in L1 and returns tensors, or lists and tuples of them.

    `dram_output_memory_config` is one for all outputs, or as many as the model returns, in the same structure.
    """
    if not isinstance(config, PipelineConfig):
        raise TypeError(f"config is a {type(config).__name__}; it must be a PipelineConfig")
    if not callable(model):
        raise TypeError(f"model is a {type(model).__name__}; it must be callable with a ttnn.Tensor")
    executor = _executor_for(config)
    _check_place("l1_input_memory_config", l1_input_memory_config, ttnn.BufferType.L1, "for every executor")
    if executor is not ModelExecutor:
        why = "when using trace" if config.num_command_queues == 1 else "when using multi-CQ executor"
        _check_place("dram_input_memory_config", dram_input_memory_config, ttnn.BufferType.DRAM, why)
    if executor.spills:
        why = "when all_transfers_on_separate_command_queue=True."
        for one in leaves_of(dram_output_memory_config):
            _check_place("dram_output_memory_config", one, ttnn.BufferType.DRAM, why)
    places = {"l1_input_memory_config": l1_input_memory_config}
    if executor is not ModelExecutor:
        places["dram_input_memory_config"] = dram_input_memory_config
    if executor.spills:
        places["dram_output_memory_config"] = dram_output_memory_config
    return Pipeline(executor(model, device, **places))


def _executor_for(config: PipelineConfig) -> type[Executor]:
    separate = config.all_transfers_on_separate_command_queue
    if separate and not config.use_trace:
        raise ValueError("Pipelined I/O (all_transfers_on_separate_command_queue) requires tracing")
    if separate and config.num_command_queues != 2:
        raise ValueError(
            f"Pipelined I/O (all_transfers_on_separate_command_queue) requires num_command_queues=2 "
            f"(was {config.num_command_queues})"
        )
    return _EXECUTORS[config.use_trace, config.num_command_queues, separate]


def _check_place(name: str, memory_config: Any, where: Any, why: str) -> None:
    if memory_config is None:
        raise ValueError(f"{name} must be provided {why}")
    if not isinstance(memory_config, ttnn.MemoryConfig):
        raise TypeError(f"{name} is a {type(memory_config).__name__}; it must be a ttnn.MemoryConfig")
    if memory_config.buffer_type != where:
        raise ValueError(f"{name} is in {memory_config.buffer_type}; it must be in {where}")
