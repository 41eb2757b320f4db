"""The engine of a card: where values live, how queues map to the host's own streams, and which numerics hold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch

from tt_cnn.virtual.numerics.packer import pack
from tt_cnn.virtual.types.enums import DataType

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


class CudaEngine(Engine):
    """Torch on CUDA. A queue is a thread with a stream of its own; a mark is a CUDA event."""

    streams = True

    def __init__(self, numerics: str) -> None:
        super().__init__(numerics)
        if not torch.cuda.is_available():
            raise RuntimeError("engine='cuda' was asked for, but torch sees no CUDA device; use engine='cpu'")
        self.device = torch.device("cuda", torch.cuda.current_device())
        self._streams: dict[int, torch.cuda.Stream] = {}

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

    def upload(self, host: torch.Tensor) -> torch.Tensor:
        """Through pinned memory, which torch keeps until the copy is done."""
        return host.pin_memory().to(self.device, non_blocking=True)

    def download(self, value: torch.Tensor) -> torch.Tensor:
        return value.cpu()  # waits for this queue's stream, on this queue's worker


ENGINES = {"cpu": Engine, "cuda": CudaEngine}


def create_engine(name: str, numerics: str) -> Engine:
    if name not in ENGINES:
        raise ValueError(f"engine is {name!r}; it must be one of {', '.join(ENGINES)}")
    return ENGINES[name](numerics)
