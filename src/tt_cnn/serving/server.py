# SPDX-License-Identifier: Apache-2.0
"""The process that serves: uvicorn, the models in threads of their own, drained when it is asked to end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import uvicorn

from tt_cnn.serving.application import Limits, application
from tt_cnn.serving.figures import Figures
from tt_cnn.serving.served import Served

HEADER_BYTES = 16 * 1024
"""Of all headers of a request."""
IDLE_SECONDS = 30
DRAIN_SECONDS = 60
"""What is being answered may take so long once the server was asked to end."""
LOOK_SECONDS = 0.1


class _Server(uvicorn.Server):
    """Ends in peace when it was asked to: uvicorn's own raises the signal again once all was answered."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        former = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)


def run_server(
    models: Mapping[str, Served],
    figures: Figures,
    limits: Limits,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    on_ready: Callable[[int], None] = lambda port: None,
) -> None:
    """Serve until SIGINT or SIGTERM, or until a model cannot be loaded, which is a RuntimeError.

    `on_ready` is called, with the port, when all models are ready; port 0 takes one that is free.
    """
    config = uvicorn.Config(
        application(models, figures, limits),
        host=host,
        port=port,
        log_level="warning",
        access_log=False,
        server_header=False,
        http="h11",
        ws="none",
        loop="asyncio",
        h11_max_incomplete_event_size=HEADER_BYTES,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )
    server = _Server(config)
    watch = threading.Thread(target=_watch, args=(server, models, on_ready), daemon=True)
    watch.start()
    server.run()
    if not server.started:
        raise RuntimeError(f"nothing could listen on {host}:{port}")
    failed = [f"{name} cannot be served: {model.reason}" for name, model in models.items() if model.state == "failed"]
    if failed:
        raise RuntimeError("; ".join(failed))


def _watch(server: uvicorn.Server, models: Mapping[str, Served], on_ready: Callable[[int], None]) -> None:
    """Tell when all are ready; end the server where one cannot be, then or later."""
    announced, pause = False, threading.Event()
    while not server.should_exit:
        states = {model.state for model in models.values()}
        if "failed" in states:
            server.should_exit = True
        elif states == {"ready"} and server.started and not announced:
            announced = True
            on_ready(server.servers[0].sockets[0].getsockname()[1])
        pause.wait(LOOK_SECONDS)
