# SPDX-License-Identifier: Apache-2.0
"""Which of the machine's cards an actor gets: each has one of its own.

Ray counts cards, and does not say which. So a process holds a lock on a file with the card's name for as long as it
lives, and shows TT-NN that card alone. The lock of a process that is killed is free at once.
"""

from __future__ import annotations

import errno
import fcntl
import os
import tempfile
import time
from pathlib import Path

from tt_cnn.runtime import choice

DEVICES = Path("/dev/tenstorrent")
VISIBLE = "TT_VISIBLE_DEVICES"
WAIT_SECONDS = 60.0
"""For a card that the process before may still be closing."""
_PAUSE_SECONDS = 0.1
_held: list[int] = []
"""Open files of locks: closed by the end of the process."""


class NoCardFree(RuntimeError):
    """Other processes have all of them."""


def cards_here() -> list[str]:
    """Names of the real cards that may be taken; none where the virtual card is in use."""
    if choice() == "virtual" or not DEVICES.is_dir():
        return []
    names = sorted((path.name for path in DEVICES.iterdir() if path.name.isdecimal()), key=int)
    visible = os.environ.get(VISIBLE)
    return names if visible is None else [name for name in names if name in visible.replace(" ", "").split(",")]


def take_a_card(wait_seconds: float = WAIT_SECONDS) -> str | None:
    """The name of a card that is this process's from now on; None where cards are virtual: there is nothing to take.

    To be called before TT-NN is imported, which looks at the cards then.
    """
    names = cards_here()
    if not names:
        return None
    end = time.monotonic() + wait_seconds
    while True:
        for name in names:
            if _locked(name):
                os.environ[VISIBLE] = name
                return name
        if time.monotonic() >= end:
            raise NoCardFree(
                f"other processes have all cards of this machine ({', '.join(names)}) since {wait_seconds:g} s; end "
                "them, or start this node of Ray with fewer cards (--resources)"
            )
        time.sleep(_PAUSE_SECONDS)


def _locked(name: str) -> bool:
    handle = os.open(_lock_folder() / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        if error.errno not in (errno.EAGAIN, errno.EACCES):
            raise
        return False
    _held.append(handle)
    return True


def _lock_folder() -> Path:
    """Of this machine and this user: a folder in the home could be shared by machines, whose cards have equal names."""
    folder = Path(tempfile.gettempdir()) / f"tt-cnn-cards-{os.geteuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.geteuid():
        raise PermissionError(f"{folder} belongs to another user; take it away, or set TMPDIR to another folder")
    return folder
