# SPDX-License-Identifier: Apache-2.0
"""Kernels are compiled side by side, before the first of them is launched."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Hashable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import torch

log = logging.getLogger("tt_cnn.virtual")

Job = Callable[[], Any]
MOST_THREADS = 16
_under_way: set[str] = set()
"""`shared` once what all compilations share is there."""


def compile_all(jobs: Mapping[Hashable, Job]) -> None:
    """The compiler leaves Python alone for most of its time, so threads help."""
    waiting = list(jobs.values())
    if waiting and "shared" not in _under_way:
        _quietly(waiting.pop(0))
        _under_way.add("shared")
    with ThreadPoolExecutor(min(MOST_THREADS, os.cpu_count() or 1)) as pool:
        for job in waiting:
            pool.submit(_quietly, job)
    log.info("%d kernels compiled", len(jobs))


def jobs_of(launches: Iterable[tuple[Any, tuple[Any, ...], dict[str, Any]]]) -> dict[Hashable, Job]:
    """What compiles the kernels of launches, each once: Triton does it again for other keywords, and for positional
    arguments of other kinds."""
    return {
        (id(kernel), *map(kind_of, arguments), *settings.items()): partial(
            kernel.warmup, *arguments, grid=(1,), **settings
        )
        for kernel, arguments, settings in launches
    }


def kind_of(value: Any) -> Hashable:
    """What Triton compiles a kernel anew for."""
    if isinstance(value, torch.Tensor):
        return value.dtype, value.data_ptr() % 16 == 0
    if isinstance(value, int) and not isinstance(value, bool):
        return int, value == 1, value % 16 == 0
    return value.__class__.__name__


def _quietly(job: Job) -> None:
    """What does not compile here is met again when it is launched; where it is measured, it is left out."""
    try:
        job()
    except Exception as error:
        log.info("a kernel does not compile: %s", str(error)[:200])
