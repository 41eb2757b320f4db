# SPDX-License-Identifier: Apache-2.0
"""journal.json: written whole, read back equal, refused when damaged."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tt_cnn.optimizer.journal import Attempt
from tt_cnn.optimizer.journal_file import FILE, JournalWriter, attempt_data, read_journal
from tt_cnn.optimizer.run import optimize

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.usefixtures("fake_steps")


def written(folder: Path) -> list[Attempt]:
    writer = JournalWriter(lambda: folder, ["tt-cnn", "optimize", "vanilla_unet"])
    result = optimize("vanilla_unet", steps=["fake_blocks", "pipeline"], candidates=70, watcher=writer)
    writer.finished(result)
    return result.journal.attempts


def test_attempts_are_read_back_equal(tmp_path: Path) -> None:
    attempts = written(tmp_path)
    stored = read_journal(tmp_path)
    assert [attempt_data(one) for one in stored.attempts] == [attempt_data(one) for one in attempts]
    assert stored.state == "budget spent" and stored.task["model"] == "vanilla_unet"
    data = json.loads((tmp_path / FILE).read_text())
    assert data["command"] == ["tt-cnn", "optimize", "vanilla_unet"] and set(data["versions"]) >= {"tt-cnn"}
    assert data["result"]["verified"]["holds"] and data["result"]["value"] <= data["baseline"]
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == [FILE], "nothing else is left"


def edited(path: Path, change: Any) -> None:
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.write_text(path.read_text()[: len(path.read_text()) // 2]), "written only in part"),
        (lambda path: path.write_bytes(b"\xff\xfe\x00"), "damaged or was written only in part"),
        (lambda path: path.write_text(""), "written only in part"),
        (lambda path: path.write_text("[1, 2]"), "is not a journal of tt-cnn optimize"),
        (lambda path: path.write_text('{"kind": "tt-cnn profile"}'), "is not a journal"),
        (lambda path: path.unlink(), "cannot be resumed: there is no"),
        (lambda path: edited(path, lambda d: d.update(schema=99)), "has schema 99"),
        (lambda path: edited(path, lambda d: d.pop("task")), "task is missing"),
        (lambda path: edited(path, lambda d: d.update(start=[])), "start is missing or no object"),
        (lambda path: edited(path, lambda d: d["attempts"].pop(3)), r"attempts\[3\].number is 5; it must be 4"),
        (lambda path: edited(path, lambda d: d["attempts"][0].pop("words")), r"attempts\[0\] has not the fields"),
        (lambda path: edited(path, lambda d: d["attempts"][0].update(best_ns="x")), "best_ns is 'x'; it must be a"),
        (lambda path: edited(path, lambda d: d["attempts"][0].update(outcome="good")), "outcome is 'good'"),
        (lambda path: edited(path, lambda d: d["attempts"][0].update(changes={"a": 1})), "is damaged"),
        (lambda path: edited(path, lambda d: d["attempts"][0].update(deployment={"x": 1})), "is damaged"),
    ],
)
def test_damaged_journals_are_refused(damage: Any, message: str, tmp_path: Path) -> None:
    written(tmp_path)
    damage(tmp_path / FILE)
    with pytest.raises(ValueError, match=message):
        read_journal(tmp_path)


KILLED = """
import sys
from pathlib import Path
from tests.optimizer.fake_steps import registered
from tt_cnn.optimizer import journal_file
from tt_cnn.optimizer.run import optimize
journal_file.EVERY_SECONDS = 0.2
with registered():
    optimize("vanilla_unet", steps=["fake_chance", "fake_blocks"], budget_seconds=60,
             watcher=journal_file.JournalWriter(lambda: Path(sys.argv[1]), ["killed"]))
"""


def test_a_killed_search_is_resumed(tmp_path: Path) -> None:
    """`kill -9` at no chosen moment: the journal is whole, and the search goes on from it."""
    where = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], env=where, cwd=ROOT)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not ((tmp_path / FILE).exists() and read_journal(tmp_path).attempts):
        assert process.poll() is None
        time.sleep(0.05)
    time.sleep(0.3)
    process.send_signal(signal.SIGKILL)
    process.wait()
    stored = read_journal(tmp_path)
    assert stored.state == "running" and stored.attempts
    result = optimize("vanilla_unet", steps=["fake_blocks"], candidates=10, resume=stored)
    assert result.resumed == len(stored.attempts) and result.verification.holds
    assert len(result.journal.attempts) > result.resumed
    assert result.value_after <= min((a.value for a in stored.attempts if a.outcome == "kept" and a.value), default=1e9)
