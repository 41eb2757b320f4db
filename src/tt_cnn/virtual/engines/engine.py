"""The engine of a card: where values live, how queues map to the host's own streams, and which numerics hold."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from tt_cnn.virtual.engines.replay.installed import installed
from tt_cnn.virtual.numerics.packer import pack
from tt_cnn.virtual.numerics.primitive import compiled
from tt_cnn.virtual.types.enums import DataType

if TYPE_CHECKING:
    from tt_cnn.virtual.queues import Command
    from tt_cnn.virtual.storage import Cell

NUMERICS = ("device", "exact", "native")


class Engine:
    """Torch on the CPU. A queue is a thread; a mark is reached when the thread gets there."""

    streams = False
    """Work goes on behind the thread that launched it, so that marks are needed to know when it is done."""

    def __init__(self, numerics: str) -> None:
        if numerics not in NUMERICS:
            raise ValueError(f"numerics is {numerics!r}; it must be one of {', '.join(NUMERICS)}")
        self.numerics = numerics
        self.device = torch.device("cpu")

    def scope(self, queue: int) -> AbstractContextManager[Any]:
        """Where the jobs of a queue run."""
        return torch.inference_mode()

    def mark(self) -> Any:
        """A mark after all that this queue has launched."""
        return None

    def after(self, mark: Any) -> None:
        """Order what follows on this queue after a mark of another."""

    def finish(self, mark: Any) -> None:
        """Block the caller until a mark is reached."""

    def stamp(self) -> Any:
        """The time at which this queue gets here; `seconds` says when that was."""
        return time.perf_counter()

    def seconds(self, stamp: Any) -> float:
        """A stamp in seconds, from a start that all queues share. Waits for it where it lies ahead."""
        return float(stamp)

    def replay(self, commands: Sequence[Command], outputs: Sequence[Cell]) -> Callable[[], None]:
        """What a replay of a trace runs: its commands, one after the other."""
        jobs = [command.run for command in commands]

        def run() -> None:
            for job in jobs:
                job()

        return run

    def captured(self, replay: Callable[[], None]) -> Callable[[], None] | None:
        """What the queue must do at the end of a capture, after all that was enqueued before it."""
        return None

    def pack(self, value: torch.Tensor, dtype: DataType) -> torch.Tensor:
        """Round to what the card's packer stores; `native` numerics keeps what the host computed."""
        if dtype.is_float and self.numerics == "native":
            return value
        return pack(value, dtype)

    def upload(self, host: torch.Tensor) -> torch.Tensor:
        """Values are never changed in place, so card and host may share them."""
        return host

    def download(self, value: torch.Tensor) -> torch.Tensor:
        return value


_MISSING = {
    "kernels": "install a C++ compiler (g++)",
    "openvino": "pip install 'tt-cnn[cpu]'",
    "onnxruntime": "pip install 'tt-cnn[cpu]'",
}


_COMPILED = {"kernels": ("native", "device"), "openvino": ("native",), "onnxruntime": ("native",)}
"""Numerics that a host engine computes in: only our own kernels have the card's roundings."""


class CompilingEngine(Engine):
    """Torch on the CPU, and traces compiled for OpenVINO or ONNX Runtime: `host`, or the quicker of those there are."""

    def __init__(self, numerics: str, host: str | None = None) -> None:
        super().__init__(numerics)
        self.host = host
        if host is None:
            return
        if numerics not in _COMPILED[host]:
            told = " or ".join(f"numerics={one!r}" for one in _COMPILED[host])
            raise ValueError(f"engine={host!r} has no {numerics!r} numerics; use it with {told}")
        if host not in installed():
            raise RuntimeError(f"engine={host!r} was asked for, but it is not there; {_MISSING[host]}")

    @contextmanager
    def scope(self, queue: int) -> Iterator[None]:
        """With the card's numerics, commands outside of traces too take roundings and products from our kernels."""
        functions: Mapping[str, Callable[..., torch.Tensor]] = {}
        if self.numerics != "native" and "kernels" in installed():
            from tt_cnn.virtual.engines.replay.kernels.registers import COMPILED as functions
        with torch.inference_mode(), compiled(functions):
            yield

    def replay(self, commands: Sequence[Command], outputs: Sequence[Cell]) -> Callable[[], None]:
        host = self.host
        if self.numerics == "device" and "kernels" in installed():
            host = "kernels"
        elif self.numerics != "native" or not installed():
            return super().replay(commands, outputs)
        from tt_cnn.virtual.engines.replay.replay import Replay

        return Replay(commands, outputs, host)

    def captured(self, replay: Callable[[], None]) -> Callable[[], None] | None:
        return getattr(replay, "note_values", None)


class CudaEngine(Engine):
    """Torch on CUDA. A queue is a thread with a stream of its own; a mark is a CUDA event."""

    streams = True

    def __init__(self, numerics: str) -> None:
        super().__init__(numerics)
        if not torch.cuda.is_available():
            raise RuntimeError("engine='cuda' was asked for, but torch sees no CUDA device; use engine='cpu'")
        self.device = torch.device("cuda", torch.cuda.current_device())
        self._streams: dict[int, torch.cuda.Stream] = {}
        self._start: Any = None
        """What stamps are counted from: the first of them."""

    @contextmanager
    def scope(self, queue: int) -> Iterator[None]:
        if queue not in self._streams:
            self._streams[queue] = torch.cuda.Stream(self.device)
        with torch.inference_mode(), torch.cuda.stream(self._streams[queue]):
            yield

    def mark(self) -> Any:
        event = torch.cuda.Event()
        event.record(torch.cuda.current_stream(self.device))
        return event

    def after(self, mark: Any) -> None:
        if mark is not None:
            torch.cuda.current_stream(self.device).wait_event(mark)

    def finish(self, mark: Any) -> None:
        if mark is not None:
            mark.synchronize()

    def stamp(self) -> Any:
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self.device))
        self._start = self._start or event
        return event

    def seconds(self, stamp: Any) -> float:
        for event in (self._start, stamp):
            event.synchronize()
        return float(self._start.elapsed_time(stamp)) / 1000

    def replay(self, commands: Sequence[Command], outputs: Sequence[Cell]) -> Callable[[], None]:
        """With `native` numerics, a CUDA graph of kernels in bfloat16; the commands themselves where Triton lacks."""
        if self.numerics != "native" or importlib.util.find_spec("triton") is None:
            return super().replay(commands, outputs)
        from tt_cnn.virtual.engines.replay.cuda.replay import CudaReplay

        return CudaReplay(commands, outputs)

    def captured(self, replay: Callable[[], None]) -> Callable[[], None] | None:
        return getattr(replay, "note_values", None)

    def upload(self, host: torch.Tensor) -> torch.Tensor:
        """Through pinned memory, which torch keeps until the copy is done."""
        return host.pin_memory().to(self.device, non_blocking=True)

    def download(self, value: torch.Tensor) -> torch.Tensor:
        return value.cpu()  # waits for this queue's stream, on this queue's worker


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


def create_engine(name: str, numerics: str) -> Engine:
    if name not in ENGINES:
        raise ValueError(f"engine is {name!r}; it must be one of {', '.join(ENGINES)}")
    return ENGINES[name](numerics)
