# SPDX-License-Identifier: Apache-2.0
"""The cache folder: nobody else's files are believed, ours are whole, and without a folder all works as well."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import stat
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from tt_cnn import cache_folder
from tt_cnn.cache_folder import CacheWarning


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_folder, "_said", set())


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TT_CNN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error", CacheWarning)
        yield


def test_it_is_made_for_us_alone(root: Path, quiet: None) -> None:
    before = os.umask(0o002)
    try:
        assert cache_folder.folder() == root and cache_folder.folder("triton") == root / "triton"
    finally:
        os.umask(before)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (root, root / "triton")] == [0o700, 0o700]


def test_without_the_variable_it_is_in_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quiet: None
) -> None:
    monkeypatch.delenv("TT_CNN_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder.folder("a") == tmp_path / ".cache" / "tt-cnn" / "a"


def refused(match: str, name: str = "") -> None:
    """Something private is used instead, which works, and the reason is said once."""
    with pytest.warns(CacheWarning, match=match):
        path = cache_folder.folder(name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cache_folder.folder(name) == path
    assert path != cache_folder.place(name) and stat.S_IMODE(path.stat().st_mode) & 0o022 == 0
    assert cache_folder.write(path / "x", b"kept") and (path / "x").read_bytes() == b"kept"


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o757, 0o1777])
def test_a_folder_that_others_may_write_to_is_refused(root: Path, mode: int) -> None:
    root.mkdir()
    root.chmod(mode)
    refused(r"can be written by others.*chmod go-w .*TT_CNN_CACHE names another folder")
    assert list(root.iterdir()) == []


def test_so_is_a_folder_in_it(root: Path) -> None:
    (root / "triton").mkdir(parents=True)
    (root / "triton").chmod(0o777)
    refused("triton can be written by others", "triton")


def test_so_is_one_that_others_could_replace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    monkeypatch.setenv("TT_CNN_CACHE", str(tmp_path / "open" / "cache"))
    refused("can be replaced by others")
    (tmp_path / "open").chmod(0o1777)
    assert cache_folder.folder() == tmp_path / "open" / "cache", "in such a folder only the owner can"


def test_so_is_one_of_another_user(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root.mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: root.stat().st_uid + 1)
    refused("belongs to another user")


def test_a_folder_that_cannot_be_made_or_written(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root.write_text("a file")
    refused("cannot be made or read")
    monkeypatch.setenv("TT_CNN_CACHE", "/proc/tt-cnn")
    refused("/proc/tt-cnn cannot be made or read")
    monkeypatch.setenv("TT_CNN_CACHE", str(tmp_path / "read-only"))
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    refused("read-only cannot be written")


def test_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TT_CNN_CACHE", raising=False)

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    with pytest.warns(CacheWarning, match="no home folder"):
        path = cache_folder.folder("homeless")
    assert cache_folder.write(path / "x", b"kept")


HOMELESS = """
import os, pwd, warnings

def nobody(number):
    raise KeyError(number)

pwd.getpwuid = nobody
os.environ.pop("HOME", None)
os.environ.pop("TT_CNN_CACHE", None)
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    from tt_cnn.virtual import ttnn
    device = ttnn.open_device(device_id=0)
    ttnn.close_device(device)
print([str(one.message) for one in said if "no home folder" in str(one.message)])
"""


def test_the_library_needs_no_home() -> None:
    done = subprocess.run([sys.executable, "-c", HOMELESS], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-1000:]
    assert done.stdout.count("no home folder") == 1


def test_a_full_disk_leaves_what_was_there(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = cache_folder.folder() / "file"
    assert cache_folder.write(path, b"before")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.warns(CacheWarning, match="takes no files .No space left on device"):
        assert not cache_folder.write(path, b"after")
    assert path.read_bytes() == b"before" and list(root.iterdir()) == [path]


@pytest.mark.parametrize("harm", ["truncated", "empty", "flipped", "unsealed", "another's", "link", "writable", "gone"])
def test_a_sealed_file_is_known_again(root: Path, harm: str) -> None:
    path = cache_folder.folder() / "library"
    assert cache_folder.write_sealed(path, b"content", "this machine")
    assert cache_folder.is_whole(path, "this machine") and path.read_bytes().startswith(b"content")
    data = path.read_bytes()
    if harm == "another's":
        assert cache_folder.write_sealed(path, b"content", "another machine")
    elif harm == "link":
        path.rename(root / "elsewhere")
        path.symlink_to(root / "elsewhere")
    elif harm == "writable":
        path.chmod(0o666)
    elif harm == "gone":
        path.unlink()
    else:
        path.write_bytes(
            {"truncated": data[:-3], "empty": b"", "flipped": b"C" + data[1:], "unsealed": b"content"}[harm]
        )
    assert not cache_folder.is_whole(path, "this machine")


@pytest.mark.parametrize("text", ["", "{", "[1]", "3", "[" * 100_000, "\xff"])
def test_what_is_no_table_is_an_empty_one(root: Path, text: str) -> None:
    path = cache_folder.folder() / "table.json"
    path.write_text(text, encoding="latin-1")
    assert cache_folder.read_json(path) == {}
    cache_folder.update_json(path, {"a": 1})
    cache_folder.update_json(path, {"b": 2})
    assert json.loads(path.read_text()) == {"a": 1, "b": 2}


def _count(path: Path, who: int) -> None:
    for number in range(20):
        cache_folder.update_json(path, {f"{who}.{number}": number})


def test_processes_that_add_at_once_lose_nothing(root: Path) -> None:
    path = cache_folder.folder() / "table.json"
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_count, args=(path, who)) for who in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert len(cache_folder.read_json(path)) == 60


def test_there_is_no_other_way_to_the_folder() -> None:
    package = Path(cache_folder.__file__).parent
    words = ("Path.home(", "expanduser(", 'environ.get("TT_CNN_CACHE', 'environ["TT_CNN_CACHE')
    found = {
        str(path.relative_to(package)) for path in package.rglob("*.py") if any(w in path.read_text() for w in words)
    }
    assert found == {"cache_folder.py"}
