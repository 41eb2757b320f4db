# SPDX-License-Identifier: Apache-2.0
"""The engine of the CPU that compiles traces."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache

import torch

from tt_cnn.virtual.engines.engine import EIGHT_BIT, Engine
from tt_cnn.virtual.engines.precision import EightBits
from tt_cnn.virtual.engines.replay.installed import PACKAGES, installed
from tt_cnn.virtual.engines.replay.int8.replay import Int8Replay, eight_bit_hosts
from tt_cnn.virtual.engines.replay.kernels.alike import OUTSIDE_TRACES
from tt_cnn.virtual.engines.replay.replay import Replay
from tt_cnn.virtual.engines.traced import TracedCell, TracedCommand
from tt_cnn.virtual.numerics.primitive import compiled

_MISSING = {
    "kernels": "install a C++ compiler (g++)",
    "openvino": "pip install 'tt-cnn[cpu]'",
    "onnxruntime": "pip install 'tt-cnn[cpu]'",
}


_COMPILED = {"kernels": ("native", "device"), "openvino": ("native",), "onnxruntime": ("native",)}
"""Numerics that a host engine computes in: only our own kernels have the card's roundings."""


@cache
def say_without_compiler() -> None:
    """Once in a process: all that follows is slow, and nothing else would say why."""
    warnings.warn(
        "no C++ compiler was found (g++, c++, or the program that CXX names), so the card's roundings are computed in "
        "torch, up to ten times slower; install one (apt-get install g++, dnf install gcc-c++, xcode-select --install)",
        RuntimeWarning,
        stacklevel=2,
    )


class CompilingEngine(Engine):
    """Torch on the CPU, and traces compiled for a host engine: `host`, or the quickest of those there are."""

    def __init__(self, numerics: str, host: str | None = None) -> None:
        super().__init__(numerics)
        self.host = host
        self.precision: EightBits | None = None
        if host is None:
            return
        if numerics not in _COMPILED[host]:
            choices = " or ".join(f"numerics={one!r}" for one in _COMPILED[host])
            raise ValueError(f"engine={host!r} has no {numerics!r} numerics; use it with {choices}")
        if host not in installed():
            raise RuntimeError(f"engine={host!r} was asked for, but it is not there; {_MISSING[host]}")

    @contextmanager
    def scope(self, queue: int) -> Iterator[None]:
        """With the card's numerics, commands outside of traces too take roundings and products from our kernels."""
        functions: Mapping[str, Callable[..., torch.Tensor]] = {}
        if self.numerics != "native":
            if "kernels" in installed():
                functions = OUTSIDE_TRACES
            else:
                say_without_compiler()
        with torch.inference_mode(), compiled(functions):
            yield

    def allow(self, precision: EightBits) -> None:
        if precision.name != "int8":
            raise ValueError(
                f"precision={precision.name!r} was asked for with engine={self.host or 'cpu'!r}; "
                f"{EIGHT_BIT[precision.name]}; on the CPU it is precision='int8'"
            )
        if self.numerics != "native" or self.host not in (None, "kernels", *PACKAGES):
            found = f"numerics={self.numerics!r}" if self.numerics != "native" else f"engine={self.host!r}"
            raise ValueError(f"precision='int8' was asked for with {found}; {EIGHT_BIT['int8']}")
        if not eight_bit_hosts(self.host):
            raise RuntimeError(
                f"precision='int8' was asked for with engine={self.host or 'cpu'!r}, and nothing here runs it: our "
                "kernels need a C++ compiler and a processor that multiplies bytes (AVX-512 VNNI), other engines are "
                "installed by pip install 'tt-cnn[cpu]'; leave precision out to replay in float32"
            )
        self.precision = precision

    def replay(self, commands: Sequence[TracedCommand], outputs: Sequence[TracedCell]) -> Callable[[], None]:
        host = self.host
        if self.numerics == "device" and "kernels" in installed():
            host = "kernels"
        elif self.numerics != "native" or not installed():
            return super().replay(commands, outputs)
        if self.precision is not None:
            return Int8Replay(commands, outputs, self.host, self.precision)
        return Replay(commands, outputs, host, exact=self.numerics != "native")

    def captured(self, replay: Callable[[], None]) -> Callable[[], None] | None:
        return getattr(replay, "note_values", None)
