# SPDX-License-Identifier: Apache-2.0
"""Which host engines there are. Nothing is imported to find out."""

from __future__ import annotations

import importlib.util
from functools import cache

from tt_cnn.virtual.kernel_library import compiler

PACKAGES = ("openvino", "onnxruntime")


@cache
def installed() -> tuple[str, ...]:
    """The host engines that there are: ours where a compiler is, the others (reported by `onnx`) where imported."""
    own = ("kernels",) if compiler() is not None else ()
    if importlib.util.find_spec("onnx") is None:
        return own
    return own + tuple(name for name in PACKAGES if importlib.util.find_spec(name) is not None)
