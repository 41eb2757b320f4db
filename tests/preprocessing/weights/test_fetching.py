# SPDX-License-Identifier: Apache-2.0
"""Files from a server on this machine: whole, in parts, broken off, missing, wrong."""

from __future__ import annotations

import hashlib
import io
import re
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from rich.console import Console

from tt_cnn.preprocessing.weights import HostUnreachable, WrongChecksum, fetch
from tt_cnn.preprocessing.weights.obtaining import obtain
from tt_cnn.preprocessing.weights.partial import address_digest
from tt_cnn.preprocessing.weights.sources import SOURCES, Source

CONTENT = bytes(range(256)) * 4000
DIGEST = hashlib.sha256(CONTENT).hexdigest()


class Server:
    """Serves `CONTENT` at /file; what it is asked for it remembers."""

    def __init__(self) -> None:
        self.ranges: list[str | None] = []
        self.can_resume = True
        self.break_off_after: list[int] = []
        """For each of the next answers, after how many bytes the connection ends."""
        self.contents = {"/file": CONTENT}
        self.headers: dict[str, str] = {}
        """What comes with every answer."""
        self.heeds_if_range = True
        self.waits: threading.Event | None = None
        """Before an answer goes on after its first half."""
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/file"
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        if not request.path.startswith("/file"):
            request.send_error(404)
            return
        wanted = request.headers.get("Range")
        self.ranges.append(wanted)
        content = next((data for path, data in self.contents.items() if request.path == path), CONTENT)
        state = request.headers.get("If-Range")
        if state is not None and self.heeds_if_range and state not in self.headers.values():
            wanted = None
        start = int(re.match(r"bytes=(\d+)-$", wanted)[1]) if wanted and self.can_resume else 0  # type: ignore[index]
        if start >= len(content):
            request.send_response(416)
            request.send_header("Content-Range", f"bytes */{len(content)}")
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        body = content[start:]
        request.send_response(206 if wanted and self.can_resume else 200)
        if wanted and self.can_resume:
            request.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        request.send_header("Content-Length", str(len(body)))
        for name, value in self.headers.items():
            request.send_header(name, value)
        request.end_headers()
        body = body[: self.break_off_after.pop(0)] if self.break_off_after else body
        request.wfile.write(body[: len(body) // 2])
        if self.waits is not None:
            self.waits.wait(30)
        request.wfile.write(body[len(body) // 2 :])
        request.close_connection = True


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.http.shutdown()
    made.http.server_close()


@pytest.fixture
def quiet() -> Console:
    return Console(file=io.StringIO())


@pytest.fixture
def destination(tmp_path: Path) -> Path:
    return tmp_path / "new" / "weights.pt"


def part_of(path: Path, server: Server) -> Path:
    return path.with_name(f"{path.name}.{address_digest(server.url)}.part")


def visible(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if not path.name.startswith(".")]


@pytest.mark.parametrize("known", [DIGEST, DIGEST[:8].upper(), ""])
def test_a_file_comes_whole(server: Server, destination: Path, quiet: Console, known: str) -> None:
    assert fetch(server.url, destination, known, console=quiet) == DIGEST
    assert destination.read_bytes() == CONTENT
    assert visible(destination.parent) == [destination]


def test_progress_is_shown(server: Server, destination: Path) -> None:
    written = io.StringIO()
    fetch(server.url, destination, console=Console(file=written, force_terminal=True, width=120))
    assert "weights.pt" in written.getvalue() and "1.0/1.0 MB" in written.getvalue()


def test_a_file_that_is_there_is_not_asked_for(server: Server, destination: Path, quiet: Console) -> None:
    fetch(server.url, destination, DIGEST, console=quiet)
    assert fetch(server.url, destination, DIGEST, console=quiet) == DIGEST
    assert len(server.ranges) == 1


def test_another_file_that_is_there_is_left_alone(server: Server, destination: Path, quiet: Console) -> None:
    destination.parent.mkdir()
    destination.write_bytes(b"mine")
    with pytest.raises(WrongChecksum, match=r"is there already, but .* move it away"):
        fetch(server.url, destination, DIGEST, console=quiet)
    assert destination.read_bytes() == b"mine" and not server.ranges


def test_a_part_is_taken_up(server: Server, destination: Path, quiet: Console) -> None:
    destination.parent.mkdir()
    part_of(destination, server).write_bytes(CONTENT[:1000])
    fetch(server.url, destination, DIGEST, console=quiet)
    assert destination.read_bytes() == CONTENT
    assert server.ranges == ["bytes=1000-"]


def test_a_server_that_cannot_resume_sends_all(server: Server, destination: Path, quiet: Console) -> None:
    server.can_resume = False
    destination.parent.mkdir()
    part_of(destination, server).write_bytes(b"x" * 1000)
    fetch(server.url, destination, DIGEST, console=quiet)
    assert destination.read_bytes() == CONTENT


def test_a_part_that_is_whole_is_the_file(server: Server, destination: Path, quiet: Console) -> None:
    destination.parent.mkdir()
    part_of(destination, server).write_bytes(CONTENT)
    assert fetch(server.url, destination, DIGEST, console=quiet) == DIGEST


def test_a_part_that_is_too_long_is_dropped(server: Server, destination: Path, quiet: Console) -> None:
    destination.parent.mkdir()
    part_of(destination, server).write_bytes(CONTENT + b"more")
    assert fetch(server.url, destination, DIGEST, console=quiet) == DIGEST
    assert server.ranges == [f"bytes={len(CONTENT) + 4}-", None]


def test_a_transfer_that_breaks_off_goes_on_by_itself(server: Server, destination: Path, quiet: Console) -> None:
    server.break_off_after = [5000, 300_000]
    fetch(server.url, destination, DIGEST, console=quiet)
    assert destination.read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=5000-", "bytes=305000-"]


def test_what_broke_off_is_kept_for_the_next_time(server: Server, destination: Path, quiet: Console) -> None:
    server.break_off_after = [1000] * 4
    with pytest.raises(ConnectionError, match=f"after 4000 bytes of {len(CONTENT)}; what has come is kept"):
        fetch(server.url, destination, DIGEST, console=quiet)
    assert not destination.exists() and part_of(destination, server).read_bytes() == CONTENT[:4000]
    fetch(server.url, destination, DIGEST, console=quiet)
    assert destination.read_bytes() == CONTENT and server.ranges[-1] == "bytes=4000-"


NEW = bytes(reversed(CONTENT))
STATES = [{"ETag": '"1"'}, {"Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT"}, {"ETag": 'W/"1"'}, {}]
OTHERS = [{"ETag": '"2"'}, {"Last-Modified": "Tue, 02 Jan 2024 00:00:00 GMT"}, {"ETag": 'W/"2"'}, {}]


@pytest.mark.parametrize("heeded", [True, False])
@pytest.mark.parametrize(("before", "after"), list(zip(STATES, OTHERS, strict=True)))
def test_without_a_checksum_two_states_of_a_file_are_never_mixed(
    server: Server, destination: Path, quiet: Console, before: dict[str, str], after: dict[str, str], heeded: bool
) -> None:
    server.headers, server.break_off_after, server.heeds_if_range = before, [1000] * 4, heeded
    with pytest.raises(ConnectionError):
        fetch(server.url, destination, console=quiet)
    server.headers, server.contents = after, {"/file": NEW}
    assert fetch(server.url, destination, console=quiet) == hashlib.sha256(NEW).hexdigest()
    assert destination.read_bytes() == NEW and visible(destination.parent) == [destination]


@pytest.mark.parametrize(("state", "goes_on"), list(zip(STATES, (True, True, False, False), strict=True)))
def test_without_a_checksum_a_part_is_taken_up_where_the_server_knows_it_again(
    server: Server, destination: Path, quiet: Console, state: dict[str, str], goes_on: bool
) -> None:
    server.headers, server.break_off_after = state, [1000] * 4
    said = "what has come is kept" if goes_on else "from its beginning: the server does not say"
    with pytest.raises(ConnectionError, match=said):
        fetch(server.url, destination, console=quiet)
    assert fetch(server.url, destination, console=quiet) == DIGEST
    assert server.ranges[-1] == ("bytes=4000-" if goes_on else None)


def test_a_part_of_another_address_is_left_alone(server: Server, destination: Path, quiet: Console) -> None:
    server.headers, server.break_off_after = {"ETag": '"1"'}, [1000] * 4
    with pytest.raises(ConnectionError):
        fetch(server.url, destination, console=quiet)
    server.contents["/file2"] = NEW
    assert fetch(f"{server.url}2", destination, console=quiet) == hashlib.sha256(NEW).hexdigest()
    assert server.ranges[-1] is None and part_of(destination, server).read_bytes() == CONTENT[:4000]


def test_a_malformed_validator_is_none(server: Server, destination: Path, quiet: Console) -> None:
    destination.parent.mkdir()
    part = part_of(destination, server)
    part.write_bytes(b"x" * 1000)
    part.with_name(f"{part.name}.validator").write_bytes(b'"1"\r\nHost: elsewhere\xff')
    assert fetch(server.url, destination, console=quiet) == DIGEST


def test_a_file_from_another_address_is_not_taken_for_this_one(
    server: Server, destination: Path, quiet: Console
) -> None:
    fetch(server.url, destination, console=quiet)
    assert fetch(server.url, destination, console=quiet) == DIGEST and len(server.ranges) == 1
    with pytest.raises(FileExistsError, match="is there already, from another address; move it away"):
        fetch(f"{server.url}2", destination, console=quiet)


@pytest.mark.parametrize("same", [True, False])
def test_two_at_once_do_not_disturb_each_other(server: Server, destination: Path, quiet: Console, same: bool) -> None:
    """Both write at the same time, in turns of half a file."""
    server.headers, server.waits = {"ETag": '"1"'}, threading.Event()
    server.contents["/file2"] = NEW
    found: dict[str, str | Exception] = {}

    def get(url: str, key: str) -> None:
        try:
            found[key] = fetch(url, destination, console=quiet)
        except FileExistsError as error:
            found[key] = error

    urls = (server.url, server.url if same else f"{server.url}2")
    threads = [threading.Thread(target=get, args=(url, key)) for url, key in zip(urls, "ab", strict=True)]
    for count, thread in enumerate(threads, start=1):
        thread.start()
        for _ in range(3000):
            if len(server.ranges) == count:
                break
            threading.Event().wait(0.01)
    server.waits.set()
    for thread in threads:
        thread.join(30)
    data = destination.read_bytes()
    if same:
        assert found == {"a": DIGEST, "b": DIGEST} and data == CONTENT
        assert visible(destination.parent) == [destination]
    else:
        assert data in (CONTENT, NEW)
        told = [one for one in found.values() if isinstance(one, str)]
        assert told == [hashlib.sha256(data).hexdigest()], "the other is told that its file is not there"


def test_a_wrong_file_is_thrown_away(server: Server, destination: Path, quiet: Console) -> None:
    with pytest.raises(WrongChecksum, match=rf"thrown away.*is {DIGEST}.*must begin with the digits 01234567"):
        fetch(server.url, destination, "01234567", console=quiet)
    assert not list(destination.parent.iterdir())


def test_a_missing_file(server: Server, destination: Path, quiet: Console) -> None:
    with pytest.raises(OSError, match="the server answers 404"):
        fetch(server.url.replace("/file", "/nothing"), destination, console=quiet)
    assert not destination.exists()


def test_only_the_web(destination: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not a web address"):
        fetch(f"file://{tmp_path}", destination)


@pytest.fixture
def nobody() -> str:
    """An address where nothing listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{held.getsockname()[1]}/file.pt"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TT_CNN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "weights"


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Make a source known for the test."""

    def add(**fields: str) -> None:
        source = Source(**{"model": "toy", "file": "toy.pt", "description": "", **fields})
        monkeypatch.setattr("tt_cnn.preprocessing.weights.sources.SOURCES", (*SOURCES, source))

    return add


def test_offline_says_what_to_do(nobody: str, cache: Path, known: Callable[..., None], quiet: Console) -> None:
    known(url=nobody)
    with pytest.raises(HostUnreachable, match=r"(?s)127.0.0.1 cannot be reached.*tt-cnn weights toy --path toy.pt"):
        obtain("toy", console=quiet)


def test_a_known_source_goes_to_the_cache(
    server: Server, cache: Path, known: Callable[..., None], quiet: Console
) -> None:
    known(url=server.url, sha256=DIGEST[:8])
    found = obtain("toy", console=quiet)
    assert (found.path, found.sha256, found.known_digits) == (cache / "toy" / "toy.pt", DIGEST, 8)
    with pytest.raises(ValueError, match=r"no file 'other.pt' of toy is known; there are toy.pt"):
        obtain("toy", file="other.pt", console=quiet)


def test_another_address(server: Server, cache: Path, quiet: Console) -> None:
    found = obtain("resnet50", url=f"{server.url}s/mine%20too.pt?download=1", console=quiet)
    assert found.path.name == "mine too.pt" and found.known_digits == 0
    assert found.path.is_relative_to(cache / "resnet50")
    again = obtain("resnet50", url=f"{server.url}s/mine%20too.pt?download=1", console=quiet)
    assert again == found and len(server.ranges) == 1
    server.contents["/files/other/mine%20too.pt"] = NEW
    other = obtain("resnet50", url=f"{server.url}s/other/mine%20too.pt", console=quiet)
    assert other.path.read_bytes() == NEW and found.path.read_bytes() == CONTENT
    with pytest.raises(ValueError, match="ends in no file name"):
        obtain("resnet50", url=server.url.removesuffix("file"), console=quiet)


def test_a_file_at_hand_is_copied_and_never_over_another(cache: Path, tmp_path: Path) -> None:
    given = tmp_path / "own.pt"
    given.write_bytes(b"one")
    assert obtain("resnet50", path=given).path.read_bytes() == b"one"
    assert obtain("resnet50", path=given).path.read_bytes() == b"one"
    given.write_bytes(b"two")
    with pytest.raises(FileExistsError, match="differs from"):
        obtain("resnet50", path=given)
    assert (cache / "resnet50" / "own.pt").read_bytes() == b"one"
    with pytest.raises(FileNotFoundError, match="no such file"):
        obtain("resnet50", path=tmp_path / "missing.pt")


def test_a_file_at_hand_with_a_known_name_is_checked(cache: Path, tmp_path: Path) -> None:
    given = tmp_path / "resnet50-0676ba61.pth"
    given.write_bytes(b"something else")
    with pytest.raises(WrongChecksum, match="0676ba61"):
        obtain("resnet50", path=given)
    assert not cache.exists()


def test_models_without_public_weights(cache: Path) -> None:
    with pytest.raises(ValueError, match="no public weights of yolov8x are known; give a file with --path"):
        obtain("yolov8x")


def test_google_drive_needs_gdown(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gdown", None)
    with pytest.raises(ImportError, match=r"(?s)tt-cnn\[weights\].*tt-cnn weights yolov4 --path yolov4.pth"):
        obtain("yolov4", file="yolov4.pth")


class _Drive:
    """gdown, as far as it is used."""

    def __init__(self, answer: bytes | Exception | None) -> None:
        self.answer = answer

    def download(self, *, id: str, output: str, resume: bool) -> str | None:
        assert id == "1wv_LiFeCRYwtpkqREPeI13-gPELBDwuJ" and not resume
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.answer is not None:
            Path(output).write_bytes(self.answer)
        return None if self.answer is None else output


def test_google_drive(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for answer, error in (
        (None, OSError),
        (ConnectionError("down"), HostUnreachable),
        (RuntimeError("quota"), OSError),
    ):
        monkeypatch.setitem(sys.modules, "gdown", _Drive(answer))
        with pytest.raises(error):
            obtain("yolov4", file="yolov4.pth")
    monkeypatch.setitem(sys.modules, "gdown", _Drive(CONTENT))
    found = obtain("yolov4", file="yolov4.pth")
    assert found.path == cache / "yolov4" / "yolov4.pth" and found.sha256 == DIGEST
    assert list(found.path.parent.iterdir()) == [found.path]


def test_a_folder_that_cannot_be_made_is_told(server: Server, cache: Path, quiet: Console) -> None:
    cache.parent.write_text("a file")
    with pytest.raises(OSError, match=r"where weights are kept, cannot be made .*TT_CNN_CACHE names another folder"):
        obtain("resnet50", url=f"{server.url}.pt", console=quiet)
