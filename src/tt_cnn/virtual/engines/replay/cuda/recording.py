# SPDX-License-Identifier: Apache-2.0
"""A CUDA graph of what a function launches."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch


def recorded(launch: Callable[[], Any]) -> torch.cuda.CUDAGraph:
    """Nothing is garbage collected meanwhile: a dropped device waits for its streams, which breaks a capture."""
    graph = torch.cuda.CUDAGraph()
    collecting = gc.isenabled()
    gc.disable()
    try:
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            launch()
        except BaseException:
            with suppress(RuntimeError):  # it only says that something failed before
                graph.capture_end()
            raise
        graph.capture_end()
    finally:
        if collecting:
            gc.enable()
    return graph
