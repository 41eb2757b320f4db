# SPDX-License-Identifier: Apache-2.0
"""Five schedules over the same verbs."""

from tt_cnn.pipeline.executors.base import Executor
from tt_cnn.pipeline.executors.overlapped import MultiCQModelOverlappedInputExecutor
from tt_cnn.pipeline.executors.pipelined_io import MultiCQTracedModelPipelinedIOExecutor
from tt_cnn.pipeline.executors.plain import ModelExecutor
from tt_cnn.pipeline.executors.traced import TracedModelExecutor
from tt_cnn.pipeline.executors.traced_overlapped import MultiCQTracedModelOverlappedInputExecutor

__all__ = [
    "Executor",
    "ModelExecutor",
    "MultiCQModelOverlappedInputExecutor",
    "MultiCQTracedModelOverlappedInputExecutor",
    "MultiCQTracedModelPipelinedIOExecutor",
    "TracedModelExecutor",
]
