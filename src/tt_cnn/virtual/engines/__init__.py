# SPDX-License-Identifier: Apache-2.0
"""What computes the numbers: torch on the CPU or on CUDA."""

from tt_cnn.virtual.engines.creation import create_engine
from tt_cnn.virtual.engines.engine import MAX_QUEUES, Engine
from tt_cnn.virtual.engines.streams import in_host_memory, used_here

__all__ = ["MAX_QUEUES", "Engine", "create_engine", "in_host_memory", "used_here"]
