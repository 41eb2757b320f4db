# SPDX-License-Identifier: Apache-2.0
"""Showing a profile's folder: a small web server for the report, and ttnn-visualizer on its database.

Both listen on the loopback address alone.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import unquote

from tt_cnn.interrupts import uninterrupted
from tt_cnn.reports.visualizer_database import DATABASE, DEVICE_LOG

LOOPBACK = "127.0.0.1"
_START_SECONDS = 90.0
_STOP_SECONDS = 5.0


class _Handler(SimpleHTTPRequestHandler):
    """Files of the folder, to this machine's own browser: a page elsewhere that resolves to us is refused.

    Links that lead out of the folder are not followed.
    """

    protocol_version = "HTTP/1.1"

    def __init__(self, *arguments: Any, start: str, **more: Any) -> None:
        self._start = start
        super().__init__(*arguments, **more)

    def send_head(self) -> Any:
        host = self.headers.get("Host", "").rsplit(":", 1)[0]
        if host not in (LOOPBACK, "localhost"):
            self.send_error(403, "This report is shown on the loopback address alone")
            return None
        if self.path == "/":
            self.path = f"/{self._start}"
        if "\0" in unquote(self.path):
            self.send_error(400, "No file has a zero byte in its name")
            return None
        try:
            inside = Path(self.translate_path(self.path)).resolve().is_relative_to(Path(self.directory).resolve())
        except (OSError, RuntimeError, ValueError):  # a name that is too long or no text, links that go in circles
            inside = False
        if not inside:
            self.send_error(404, "There is no such file")
            return None
        return super().send_head()

    def log_message(self, format: str, *arguments: Any) -> None:
        """Quiet."""


class ReportServer:
    """Serves a folder while it is open; `/` is the report."""

    def __init__(self, folder: Path, start: str, port: int = 0) -> None:
        handler = partial(_Handler, directory=str(folder), start=start)
        self._server = ThreadingHTTPServer((LOOPBACK, port), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, name="tt-cnn-report", daemon=True)

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self._server.server_address[1]}/"

    def __enter__(self) -> ReportServer:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def visualizer_command() -> str | None:
    """ttnn-visualizer beside this Python or on the path; None where it is not installed."""
    beside = Path(sys.executable).with_name("ttnn-visualizer")
    return str(beside) if beside.is_file() else shutil.which("ttnn-visualizer")


class Visualizer:
    """ttnn-visualizer on a profile's folder while it is open. What it keeps goes to a folder that goes with it."""

    def __init__(self, folder: Path, command: str) -> None:
        for needed in (DATABASE, DEVICE_LOG):
            if not (folder / needed).is_file():
                raise ValueError(f"{folder} has no {needed}; `tt-cnn profile MODEL -o DIR` makes a folder that has")
        self._folder = folder.resolve()
        self._command = command
        self._own = tempfile.TemporaryDirectory(prefix="tt-cnn-visualizer-", ignore_cleanup_errors=True)
        self._process: subprocess.Popen[bytes] | None = None
        self._log = Path(self._own.name) / "log.txt"
        self.base = ""
        self.instance = ""

    @property
    def url(self) -> str:
        return f"{self.base}/?instanceId={self.instance}"

    def __enter__(self) -> Visualizer:
        port = _free_port()
        self.base = f"http://{LOOPBACK}:{port}"
        try:
            with self._log.open("wb") as log, uninterrupted:  # a process that nobody knows of would stay
                self._process = subprocess.Popen(
                    [self._command, "--host", LOOPBACK, "--port", str(port)],
                    env=self._environment(),
                    cwd=self._own.name,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # it starts workers; all of them are ended together
                )
            self._wait_until_up()
            paths = {"profiler_path": str(self._folder), "performance_path": str(self._folder)}
            self.instance = self._ask("instance/local-paths", paths)["instance_id"]
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def ask(self, what: str, **parameters: str) -> Any:
        """An answer of its API for this folder."""
        query = "&".join(f"{name}={value}" for name, value in {"instanceId": self.instance, **parameters}.items())
        return self._ask(f"{what}?{query}")

    def close(self) -> None:
        """End it and all that it started; harmless when there is nothing to end."""
        process, self._process = self._process, None
        if process is not None:
            deadline = time.monotonic() + _STOP_SECONDS
            there = _signalled(process.pid, signal.SIGTERM)
            try:
                while there and time.monotonic() < deadline:
                    process.poll()
                    time.sleep(0.05)
                    there = _signalled(process.pid, 0)
            finally:  # a second Ctrl-C waits no longer
                if there:
                    _signalled(process.pid, signal.SIGKILL)
            process.wait()
        self._own.cleanup()

    def _environment(self) -> dict[str, str]:
        """Nothing of ours is recorded or kept by it, and it opens no browser."""
        return os.environ | {
            "APP_DATA_DIRECTORY": self._own.name,
            "REPORT_DATA_DIRECTORY": self._own.name,
            "LAUNCH_BROWSER_ON_START": "false",
            "USAGE_RECORDING_DISABLED": "true",
            "FLASK_ENV": "production",
        }

    def _wait_until_up(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                break
            try:
                self._ask("up")
                return
            except OSError:
                time.sleep(0.2)
        said = self._log.read_text(errors="replace").strip().splitlines()[-5:]
        raise RuntimeError("\n".join(["ttnn-visualizer did not start.", *said]))

    def _ask(self, what: str, data: dict[str, str] | None = None) -> Any:
        body = json.dumps(data).encode() if data is not None else None
        headers = {"Content-Type": "application/json"} if body else {}
        request = urllib.request.Request(f"{self.base}/api/{what}", body, headers)
        try:
            with _OPENER.open(request, timeout=30) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            said = error.read().decode(errors="replace")[:500]
            raise RuntimeError(f"ttnn-visualizer answered {error.code} to {what}: {said}") from error
        return json.loads(text) if text.strip().startswith((b"{", b"[")) else text.decode()


_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""A proxy has no part in what this machine says to itself."""


def _signalled(group: int, how: int) -> bool:
    """Whether there was anybody left in the process group to tell."""
    try:
        os.killpg(group, how)
    except ProcessLookupError:
        return False
    return True


def _free_port() -> int:
    with socket.socket() as one:
        one.bind((LOOPBACK, 0))
        return int(one.getsockname()[1])
