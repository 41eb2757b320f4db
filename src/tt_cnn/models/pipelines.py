# SPDX-License-Identifier: Apache-2.0
"""A model behind each of the five executors, by name."""

from __future__ import annotations

from tt_cnn.models.tt_model import TtModel
from tt_cnn.pipeline import Pipeline, PipelineConfig, create_pipeline_from_config

EXECUTORS: dict[str, PipelineConfig] = {
    "plain": PipelineConfig(use_trace=False),
    "trace": PipelineConfig(use_trace=True),
    "2cq": PipelineConfig(use_trace=False, num_command_queues=2),
    "trace+2cq": PipelineConfig(use_trace=True, num_command_queues=2),
    "trace+2cq+io": PipelineConfig(use_trace=True, num_command_queues=2, all_transfers_on_separate_command_queue=True),
}
"""As users say them; `trace+2cq` is the one to start with."""


def create_pipeline(model: TtModel, executor: str = "trace+2cq") -> Pipeline:
    """The device must have been opened with two command queues for those whose name says so."""
    if executor not in EXECUTORS:
        raise ValueError(f"executor is {executor!r}; it must be one of {', '.join(EXECUTORS)}")
    return create_pipeline_from_config(
        EXECUTORS[executor],
        model,
        model.device,
        l1_input_memory_config=model.l1_input_memory_config,
        dram_input_memory_config=model.dram_input_memory_config,
        dram_output_memory_config=model.dram_output_memory_config,
    )
