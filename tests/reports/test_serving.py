# SPDX-License-Identifier: Apache-2.0
"""The report is shown to this machine alone, and nothing is left running."""

from __future__ import annotations

import http.client
from pathlib import Path

import pytest

from tt_cnn.reports.serving import LOOPBACK, ReportServer, Visualizer, visualizer_command


def get(url: str, path: str, host: str | None = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(url.removeprefix("http://").rstrip("/"), timeout=10)
    try:
        connection.request("GET", path, headers={"Host": host} if host else {})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_the_report_and_its_neighbours_are_served(folder: Path) -> None:
    with ReportServer(folder, "report.html") as server:
        assert server.url.startswith(f"http://{LOOPBACK}:")
        assert get(server.url, "/") == (200, (folder / "report.html").read_bytes())
        assert get(server.url, "/graph.svg")[1] == (folder / "graph.svg").read_bytes()
        assert get(server.url, "/nothing")[0] == 404
    with pytest.raises(ConnectionRefusedError):
        get(server.url, "/")


def test_others_get_nothing(folder: Path) -> None:
    outside = folder.parent / "secret.txt"
    outside.write_text("secret")
    with ReportServer(folder, "report.html") as server:
        for path in ("/../secret.txt", "/%2e%2e/secret.txt", "/..%2fsecret.txt", "//secret.txt"):
            assert get(server.url, path)[0] == 404
        assert get(server.url, "/", host="evil.example")[0] == 403
        assert get(server.url, "/", host="localhost:80")[0] == 200


def test_names_that_no_file_has(folder: Path) -> None:
    with ReportServer(folder, "report.html") as server:
        for path in ("/%00", "/report.html%00", "/%00/../report.html", "/a%00b/c"):
            assert get(server.url, path)[0] == 400, path
        assert get(server.url, "/" + "a" * 5000)[0] == 404
        assert get(server.url, "/%ff%fe")[0] == 404
        assert get(server.url, "/")[0] == 200


def test_links_out_of_the_folder_are_not_followed(folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("secret")
    made = tmp_path / "made"
    made.mkdir()
    (made / "report.html").write_text("report")
    (made / "inner.html").symlink_to("report.html")
    (made / "secret.txt").symlink_to(outside / "secret.txt")
    (made / "folder").symlink_to(outside)
    (made / "up").symlink_to("..")
    (made / "circle").symlink_to("circle")
    (tmp_path / "linked").symlink_to(made)
    for shown in (made, tmp_path / "linked"):
        with ReportServer(shown, "report.html") as server:
            for path in ("/secret.txt", "/folder/", "/folder/secret.txt", "/up/outside/secret.txt", "/circle"):
                status, text = get(server.url, path)
                assert status == 404 and b"secret.txt" not in text.replace(path.encode(), b"")
            assert get(server.url, "/inner.html") == (200, b"report")


def running_in_group(group: int) -> list[str]:
    """Processes of a group that are more than an entry nobody has collected yet."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, process_group = entry.read_text().rpartition(") ")[2].split()[:3]
        except OSError:  # gone meanwhile
            continue
        if int(process_group) == group and state != "Z":
            found.append(entry.parent.name)
    return found


def test_the_visualizer_leaves_nothing_behind(folder: Path) -> None:
    command = visualizer_command()
    assert command is not None
    with Visualizer(folder, command) as running:
        process = running._process
        assert process is not None
        own = Path(running._own.name)
        assert running.ask("config") and any(own.iterdir())
    assert process.poll() is not None and not own.exists()
    assert running_in_group(process.pid) == []


def test_a_visualizer_that_does_not_start_says_why(folder: Path, tmp_path: Path) -> None:
    broken = tmp_path / "visualizer"
    broken.write_text("#!/bin/sh\necho no room on this machine\nexit 3\n")
    broken.chmod(0o755)
    with (
        pytest.raises(RuntimeError, match=r"(?s)did not start.*no room on this machine"),
        Visualizer(folder, str(broken)),
    ):
        pass
    with pytest.raises(ValueError, match=r"has no db\.sqlite"):
        Visualizer(tmp_path, str(broken))
