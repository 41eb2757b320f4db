# SPDX-License-Identifier: Apache-2.0
"""Engines by the names that users give."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tt_cnn.virtual.engines.compiling import CompilingEngine
from tt_cnn.virtual.engines.cuda import CudaEngine
from tt_cnn.virtual.engines.engine import Engine
from tt_cnn.virtual.engines.precision import EightBits

ENGINES: dict[str, Callable[[str], Engine]] = {
    "cpu": CompilingEngine,
    "torch": Engine,
    "kernels": partial(CompilingEngine, host="kernels"),
    "openvino": partial(CompilingEngine, host="openvino"),
    "onnxruntime": partial(CompilingEngine, host="onnxruntime"),
    "cuda": CudaEngine,
}
"""`cpu` takes the quickest of `kernels`, `openvino` and `onnxruntime` for a trace.
`torch` runs every command of a trace by itself."""


def create_engine(name: str, numerics: str, precision: EightBits | None = None) -> Engine:
    if name not in ENGINES:
        raise ValueError(f"engine is {name!r}; it must be one of {', '.join(ENGINES)}")
    engine = ENGINES[name](numerics)
    if precision is not None:
        engine.allow(precision)
    return engine
