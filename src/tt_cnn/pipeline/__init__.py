# SPDX-License-Identifier: Apache-2.0
"""Models end to end: inputs from the host, through the card, outputs back, on one or two command queues.

`create_pipeline_from_config` picks one of five executors; `Pipeline` drives it. docs/pipeline.md says which when.
"""

from tt_cnn.pipeline.config import PipelineConfig
from tt_cnn.pipeline.creation import create_pipeline_from_config
from tt_cnn.pipeline.executors import (
    Executor,
    ModelExecutor,
    MultiCQModelOverlappedInputExecutor,
    MultiCQTracedModelOverlappedInputExecutor,
    MultiCQTracedModelPipelinedIOExecutor,
    TracedModelExecutor,
)
from tt_cnn.pipeline.memory import get_memory_config_for_persistent_dram_tensor
from tt_cnn.pipeline.pipeline import Pipeline, pipeline
from tt_cnn.pipeline.statistics import PipelineStats

__all__ = [
    "Executor",
    "ModelExecutor",
    "MultiCQModelOverlappedInputExecutor",
    "MultiCQTracedModelOverlappedInputExecutor",
    "MultiCQTracedModelPipelinedIOExecutor",
    "Pipeline",
    "PipelineConfig",
    "PipelineStats",
    "TracedModelExecutor",
    "create_pipeline_from_config",
    "get_memory_config_for_persistent_dram_tensor",
    "pipeline",
]
