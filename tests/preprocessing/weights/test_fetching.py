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
        start = int(re.match(r"bytes=(\d+)-$", wanted)[1]) if wanted and self.can_resume else 0  # type: ignore[index]
        if start >= len(CONTENT):
            request.send_response(416)
            request.send_header("Content-Range", f"bytes */{len(CONTENT)}")
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        body = CONTENT[start:]
        request.send_response(206 if wanted and self.can_resume else 200)
        if wanted and self.can_resume:
            request.send_header("Content-Range", f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}")
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body[: self.break_off_after.pop(0)] if self.break_off_after else body)
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


def part_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.part")


@pytest.mark.parametrize("known", [DIGEST, DIGEST[:8].upper(), ""])
def test_a_file_comes_whole(server: Server, destination: Path, quiet: Console, known: str) -> None:
    assert fetch(server.url, destination, known, console=quiet) == DIGEST
    assert destination.read_bytes() == CONTENT
    assert list(destination.parent.iterdir()) == [destination]


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
    part_of(destination).write_bytes(CONTENT[:1000])
    fetch(server.url, destination, DIGEST, console=quiet)
    assert destination.read_bytes() == CONTENT
    assert server.ranges == ["bytes=1000-"]


def test_a_server_that_cannot_resume_sends_all(server: Server, destination: Path, quiet: Console) -> None:
    server.can_resume = False
    destination.parent.mkdir()
    part_of(destination).write_bytes(b"x" * 1000)
    fetch(server.url, destination, DIGEST, console=quiet)
    assert destination.read_bytes() == CONTENT


def test_a_part_that_is_whole_is_the_file(server: Server, destination: Path, quiet: Console) -> None:
    destination.parent.mkdir()
    part_of(destination).write_bytes(CONTENT)
    assert fetch(server.url, destination, DIGEST, console=quiet) == DIGEST


def test_a_part_that_is_too_long_is_dropped(server: Server, destination: Path, quiet: Console) -> None:
    destination.parent.mkdir()
    part_of(destination).write_bytes(CONTENT + b"more")
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
    assert not destination.exists() and part_of(destination).read_bytes() == CONTENT[:4000]
    fetch(server.url, destination, DIGEST, console=quiet)
    assert destination.read_bytes() == CONTENT and server.ranges[-1] == "bytes=4000-"


def test_a_wrong_file_is_thrown_away(server: Server, destination: Path, quiet: Console) -> None:
    with pytest.raises(WrongChecksum, match=rf"thrown away.*is {DIGEST}.*must begin with the digits 01234567"):
        fetch(server.url, destination, "01234567", console=quiet)
    assert not list(destination.parent.iterdir())


def test_a_missing_file(server: Server, destination: Path, quiet: Console) -> None:
    with pytest.raises(OSError, match="the server answers 404"):
        fetch(server.url.replace("/file", "/nothing"), destination, console=quiet)
    assert not destination.exists()


def test_only_the_web(destination: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no address of the web"):
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
    assert found.path == cache / "resnet50" / "mine too.pt" and found.known_digits == 0
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
        assert id == "1wv_LiFeCRYwtpkqREPeI13-gPELBDwuJ" and resume
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
