# SPDX-License-Identifier: Apache-2.0
"""Each process takes a card of its own, and a killed one gives it back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tt_cnn.distributed import cards
from tt_cnn.distributed.extra import RayMissing, require

TAKES = """
import sys, time
from pathlib import Path
from tt_cnn.distributed import cards
cards.DEVICES = Path(sys.argv[1])
print(cards.take_a_card(0), flush=True)
assert "torch" not in sys.modules and "tt_cnn.virtual" not in sys.modules
time.sleep(60)
"""


@pytest.fixture
def devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A machine with cards 0 and 3, and a process that has taken none."""
    folder = tmp_path / "tenstorrent"
    folder.mkdir()
    for name in ("0", "3", "by-id"):
        (folder / name).touch()
    monkeypatch.setattr(cards, "DEVICES", folder)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(cards.tempfile, "tempdir", None)
    monkeypatch.delenv("TT_CNN_RUNTIME", raising=False)
    monkeypatch.setenv(cards.VISIBLE, "0,3")
    monkeypatch.setattr(cards, "_held", [])
    yield folder
    for handle in cards._held:
        os.close(handle)


def test_cards_are_taken_once(devices: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = subprocess.Popen([sys.executable, "-c", TAKES, str(devices)], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout is not None and other.stdout.readline().strip() == "0"
        assert cards.take_a_card(0) == "3" == os.environ[cards.VISIBLE]
        monkeypatch.setenv(cards.VISIBLE, "0,3")
        with pytest.raises(cards.NoCardFree, match=r"all cards of this machine \(0, 3\)"):
            cards.take_a_card(0.2)
        other.send_signal(signal.SIGKILL)
        assert cards.take_a_card(5) == "0"
    finally:
        other.kill()
        other.wait()


def test_cards_that_the_user_hides_are_not_taken(devices: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cards.VISIBLE, "3")
    assert cards.cards_here() == ["3"]
    monkeypatch.delenv(cards.VISIBLE)
    assert cards.cards_here() == ["0", "3"]


def test_of_virtual_cards_there_is_nothing_to_take(devices: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TT_CNN_RUNTIME", "virtual")
    assert cards.take_a_card(0) is None and os.environ[cards.VISIBLE] == "0,3"


def test_a_missing_package_is_named_with_the_command() -> None:
    with pytest.raises(RayMissing, match=r"playing needs the package 'raygun', .*: pip install 'tt-cnn\[ray\]'"):
        require("raygun.data", "playing")
