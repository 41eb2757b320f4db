"""The engine of a card: where values live, how queues map to the host's own streams, and which numerics hold."""

from __future__ import annotations

import importlib.util
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from tt_cnn.virtual.engines.precision import EightBits
from tt_cnn.virtual.engines.replay.installed import PACKAGES, installed
from tt_cnn.virtual.errors.failures import run_commands
from tt_cnn.virtual.numerics.packer import pack
from tt_cnn.virtual.numerics.primitive import compiled
from tt_cnn.virtual.types.enums import DataType

if TYPE_CHECKING:
    from tt_cnn.virtual.queues.queue import Command
    from tt_cnn.virtual.tensors.storage import Cell

NUMERICS = ("device", "exact", "native")
_EIGHT_BIT = {
    "int8": "use it with numerics='native' and engine='cpu', 'openvino' or 'onnxruntime'",
    "fp8": "use it with numerics='native' and engine='cuda'",
}
_E4M3_FROM = (8, 9)
"""The compute capability from which GPUs multiply e4m3 numbers."""
MAX_QUEUES = 2
"""Of a card."""


class Engine:
    """Torch on the CPU. A queue is a thread."""

    streams = False
    """Jobs only launch work, which goes on by itself: marks tell when it is done."""

    def __init__(self, numerics: str) -> None:
        if numerics not in NUMERICS:
            raise ValueError(f"numerics is {numerics!r}; it must be one of {', '.join(NUMERICS)}")
        self.numerics = numerics
        self.device = torch.device("cpu")

    def allow(self, precision: EightBits) -> None:
        """Let replays compute in 8 bits."""
        name = precision.name
        raise ValueError(f"precision={name!r} is for compiled traces, which this engine has not; {_EIGHT_BIT[name]}")

    def scope(self, queue: int) -> AbstractContextManager[Any]:
        """Where the jobs of a queue run."""
        return torch.inference_mode()

    def mark(self, queue: int) -> Any:
        """A mark after all that a queue has launched."""
        return None

    def mark_of_reads(self, queue: int) -> Any:
        """A mark after what a queue has downloaded."""
        return None

    def after(self, mark: Any, queue: int) -> None:
        """Order what follows on a queue after a mark of another."""

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
        return partial(run_commands, commands)

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
        """The values are there once a mark of the queue, or of its reads, is reached that is made after this call."""
        return value


_MISSING = {
    "kernels": "install a C++ compiler (g++)",
    "openvino": "pip install 'tt-cnn[cpu]'",
    "onnxruntime": "pip install 'tt-cnn[cpu]'",
}


_COMPILED = {"kernels": ("native", "device"), "openvino": ("native",), "onnxruntime": ("native",)}
"""Numerics that a host engine computes in: only our own kernels have the card's roundings."""


class CompilingEngine(Engine):
    """Torch on the CPU, and traces compiled for a host engine: `host`, or the quickest of those there are."""

    def __init__(self, numerics: str, host: str | None = None) -> None:
        super().__init__(numerics)
        self.host = host
        self.precision: EightBits | None = None
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
            from tt_cnn.virtual.engines.replay.kernels.alike import OUTSIDE_TRACES as functions
        with torch.inference_mode(), compiled(functions):
            yield

    def allow(self, precision: EightBits) -> None:
        if precision.name != "int8":
            raise ValueError(
                f"precision={precision.name!r} was asked for with engine={self.host or 'cpu'!r}; "
                f"{_EIGHT_BIT[precision.name]}; on the CPU it is precision='int8'"
            )
        if self.numerics != "native" or self.host not in (None, *PACKAGES):
            found = f"numerics={self.numerics!r}" if self.numerics != "native" else f"engine={self.host!r}"
            raise ValueError(f"precision='int8' was asked for with {found}; {_EIGHT_BIT['int8']}")
        if not any(name in installed() for name in PACKAGES):
            raise RuntimeError(
                "precision='int8' needs OpenVINO or ONNX Runtime, and neither is there; pip install 'tt-cnn[cpu]', or "
                "leave precision out to replay in float32"
            )
        self.precision = precision

    def replay(self, commands: Sequence[Command], outputs: Sequence[Cell]) -> Callable[[], None]:
        host = self.host
        if self.numerics == "device" and "kernels" in installed():
            host = "kernels"
        elif self.numerics != "native" or not installed():
            return super().replay(commands, outputs)
        if self.precision is not None:
            from tt_cnn.virtual.engines.replay.int8.replay import Int8Replay

            return Int8Replay(commands, outputs, self.host, self.precision)
        from tt_cnn.virtual.engines.replay.replay import Replay

        return Replay(commands, outputs, host, exact=self.numerics != "native")

    def captured(self, replay: Callable[[], None]) -> Callable[[], None] | None:
        return getattr(replay, "note_values", None)


_on_gpus: weakref.WeakSet[Engine] = weakref.WeakSet()
_here = threading.local()
"""`streams` are those of the queue that this thread works for."""


def used_here(value: torch.Tensor) -> None:
    """Keep the memory of a value on a GPU, which another queue may have made, until this queue is done with it."""
    own: _Streams | None = getattr(_here, "streams", None)
    if own is not None:
        value.record_stream(own.work)


def from_host(value: torch.Tensor, host: torch.Tensor) -> torch.Tensor:
    value.of_host = host  # type: ignore[attr-defined]
    return value


def on_host(value: torch.Tensor) -> torch.Tensor | None:
    """The same values in the host's memory, where they were uploaded and nothing has been computed with them since: the
    host can look at them without waiting for the GPU. They are given only once."""
    host: torch.Tensor | None = getattr(value, "of_host", None)
    if host is not None:
        value.of_host = None  # type: ignore[attr-defined]
    return host


def in_host_memory(value: torch.Tensor) -> torch.Tensor:
    """A host tensor's values where a card reads them best: in pinned memory while there is an engine on a GPU."""
    return value.pin_memory() if _on_gpus else value


class _Streams:
    """Of a queue: one for its work, and one for reads to the host, which nothing on the card waits for."""

    def __init__(self, device: torch.device) -> None:
        self.work, self.reads = torch.cuda.Stream(device), torch.cuda.Stream(device)
        self.names_of_work, self.names_of_reads = _names(self.work), _names(self.reads)
        self.computed = torch.cuda.Event()
        """Before the last read."""
        self.last_read: Any = None
        """After it."""
        self.reads_since_stamp = False


def _names(stream: torch.cuda.Stream) -> tuple[int, int, int]:
    """As `_set_stream` takes them; the stream itself makes them anew every time."""
    return stream.stream_id, stream.device_index, stream.device_type


class _Scope:
    """Work of this thread goes to a queue's stream. Entered for every command, so it takes as little as it can: what
    `torch.cuda.stream` calls itself, without the objects around it."""

    __slots__ = ("_inference", "_outside", "_streams")

    def __init__(self, streams: _Streams) -> None:
        self._streams = streams

    def __enter__(self) -> None:
        own = self._streams
        self._outside = getattr(_here, "streams", None), _current_stream(own.work.device_index)
        _here.streams = own
        _set_stream(*own.names_of_work)
        self._inference = torch._C._InferenceMode(True)
        self._inference.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._inference.__exit__(None, None, None)
        _here.streams, stream = self._outside
        _set_stream(*stream)


def _current_stream(device: int) -> tuple[int, int, int]:
    found: tuple[int, int, int] = torch._C._cuda_getCurrentStream(device)
    return found


def _set_stream(stream: int, device: int, kind: int) -> None:
    torch._C._cuda_setStream(stream_id=stream, device_index=device, device_type=kind)


class CudaEngine(Engine):
    """Torch on CUDA. A queue is a pair of streams; a mark is a pair of CUDA events: of what the queue has computed, and
    of what it has read to the host."""

    streams = True

    def __init__(self, numerics: str) -> None:
        super().__init__(numerics)
        if not torch.cuda.is_available():
            raise RuntimeError("engine='cuda' was asked for, but torch sees no CUDA device; use engine='cpu'")
        self.device = torch.device("cuda", torch.cuda.current_device())
        _on_gpus.add(self)
        self._queues = [_Streams(self.device) for _ in range(MAX_QUEUES)]
        self._start: Any = None
        """What stamps are counted from: the first of them."""
        self.precision: EightBits | None = None

    def allow(self, precision: EightBits) -> None:
        if precision.name != "fp8":
            raise ValueError(
                f"precision={precision.name!r} was asked for with engine='cuda'; {_EIGHT_BIT[precision.name]}; "
                "on a GPU it is precision='fp8'"
            )
        if self.numerics != "native":
            raise ValueError(f"precision='fp8' was asked for with numerics={self.numerics!r}; {_EIGHT_BIT['fp8']}")
        capability = torch.cuda.get_device_capability(self.device)
        if capability < _E4M3_FROM:
            raise RuntimeError(
                "precision='fp8' needs a GPU that multiplies e4m3 numbers, of compute capability "
                f"{'.'.join(map(str, _E4M3_FROM))} or more; {torch.cuda.get_device_name(self.device)} has "
                f"{'.'.join(map(str, capability))}; leave precision out to replay in 16 bits"
            )
        if importlib.util.find_spec("triton") is None:
            raise RuntimeError(
                "precision='fp8' needs Triton, which compiles its kernels, and it is not there; pip install triton, or "
                "leave precision out to replay the commands one by one"
            )
        self.precision = precision

    def scope(self, queue: int) -> AbstractContextManager[Any]:
        return _Scope(self._queues[queue])

    @property
    def _streams(self) -> _Streams | None:
        """Those of the queue that this thread works for."""
        return getattr(_here, "streams", None)

    def mark(self, queue: int) -> Any:
        own = self._queues[queue]
        return own.work.record_event(), own.last_read

    def mark_of_reads(self, queue: int) -> Any:
        own = self._queues[queue]
        return None, own.last_read

    def after(self, mark: Any, queue: int) -> None:
        """Reads leave the card as it is, so other queues need not wait for them."""
        self._queues[queue].work.wait_event(mark[0])

    def finish(self, mark: Any) -> None:
        for event in mark or ():
            if event is not None:
                event.synchronize()

    def stamp(self) -> Any:
        """On the stream of the reads where the queue has read since the last one."""
        own = self._streams
        assert own is not None, "stamps are made by a queue"
        event = torch.cuda.Event(enable_timing=True)
        event.record(own.reads if own.reads_since_stamp else own.work)
        own.reads_since_stamp = False
        if self._start is None:
            event.synchronize()
            self._start = event
        return event

    def seconds(self, stamp: Any) -> float:
        stamp.synchronize()
        return float(self._start.elapsed_time(stamp)) / 1000

    def replay(self, commands: Sequence[Command], outputs: Sequence[Cell]) -> Callable[[], None]:
        """With `native` numerics, a CUDA graph of kernels of 16 bits; the commands themselves where Triton lacks."""
        if self.numerics != "native" or importlib.util.find_spec("triton") is None:
            return super().replay(commands, outputs)
        from tt_cnn.virtual.engines.replay.cuda.replay import CudaReplay, Fp8Replay

        if self.precision is not None:
            return Fp8Replay(commands, outputs, self.precision)
        return CudaReplay(commands, outputs)

    def captured(self, replay: Callable[[], None]) -> Callable[[], None] | None:
        return getattr(replay, "note_values", None)

    def upload(self, host: torch.Tensor) -> torch.Tensor:
        """On a queue through pinned memory, which torch keeps until the copy is done. Others are not ordered with
        the queues: what they upload is there when this returns, and stays until all queues are done with it."""
        if self._streams is not None:
            return from_host(host.pin_memory().to(self.device, non_blocking=True), host)
        value = from_host(host.to(self.device), host)
        torch.cuda.current_stream(self.device).synchronize()
        for queue in self._queues:
            value.record_stream(queue.work)
        return value

    def download(self, value: torch.Tensor) -> torch.Tensor:
        """Into pinned memory, on a stream of its own: the queue goes on. A mark says when the values are there."""
        own = self._streams
        assert own is not None, "reads are done by a queue"
        host = torch.empty(value.shape, dtype=value.dtype, pin_memory=True)
        own.computed.record(own.work)
        own.reads.wait_event(own.computed)
        _set_stream(*own.names_of_reads)
        try:
            host.copy_(value, non_blocking=True)
            own.last_read = own.reads.record_event()
        finally:
            _set_stream(*own.names_of_work)
        value.record_stream(own.reads)
        own.reads_since_stamp = True
        return host


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
