# SPDX-License-Identifier: Apache-2.0
"""`tt-cnn visualize`: both pages come up, on the loopback address, and go with Ctrl-C."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tt_cnn.cli import app
from tt_cnn.reports.profile import profile_model
from tt_cnn.reports.profile_folder import write_folder

_SECONDS = 120


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("profile")
    write_folder(profile_model("vanilla_unet"), where)
    return where


def _heeding_ctrl_c() -> None:
    """Also where the tests themselves run in the background of a shell, which has its jobs ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Shown:
    """The command in a process of its own."""

    def __init__(self, *arguments: str, until: str = "Ctrl-C") -> None:
        self.until = until
        command = [sys.executable, "-u", "-m", "tt_cnn.cli", "visualize", *arguments]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=_heeding_ctrl_c
        )
        self.said = ""

    def __enter__(self) -> Shown:
        assert self.process.stdout is not None
        deadline = time.monotonic() + _SECONDS
        while self.until not in self.said:
            line = self.process.stdout.readline()
            assert line and time.monotonic() < deadline, self.said
            self.said += line
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def interrupt(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(_SECONDS)


def read(url: str) -> str:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=30) as answer:
        return answer.read().decode()


def test_both_pages_are_shown_until_ctrl_c(folder: Path) -> None:
    with Shown(str(folder), "--no-browser") as shown:
        report, visualizer = re.findall(r"http://127\.0\.0\.1:\d+/\S*", shown.said)
        assert read(report) == (folder / "report.html").read_text()
        assert "<div" in read(visualizer) and "instanceId=" in visualizer
        children = _children(shown.process.pid)
        assert children
        assert shown.interrupt() == 0
    assert [child for child in children if _runs(child)] == []
    with pytest.raises(OSError):
        read(report)


def test_ctrl_c_while_the_visualizer_starts(folder: Path) -> None:
    with Shown(str(folder), "--no-browser", until="report ") as shown:
        deadline = time.monotonic() + _SECONDS
        while not (children := _children(shown.process.pid)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert children and shown.interrupt() == 0
    assert [child for child in children if _runs(child)] == []


def _runs(process: str) -> bool:
    """More than an entry that nobody has collected yet."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2].split()[0] != "Z"
    except OSError:
        return False


def _children(pid: int) -> list[str]:
    found: list[str] = []
    waiting = [str(pid)]
    while waiting:
        parent = waiting.pop()
        for task in Path(f"/proc/{parent}/task").iterdir():
            ours = (task / "children").read_text().split() if (task / "children").exists() else []
            found += ours
            waiting += ours
    return found


def test_the_report_alone(folder: Path) -> None:
    with Shown(str(folder), "--no-browser", "--no-visualizer") as shown:
        assert "visualizer" not in shown.said and shown.said.count("http") == 1
        assert shown.interrupt() == 0


def test_another_folder_is_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["visualize", str(tmp_path), "--no-browser"])
    assert isinstance(result.exception, ValueError) and "has no report.html" in str(result.exception)
    assert os.listdir(tmp_path) == []
