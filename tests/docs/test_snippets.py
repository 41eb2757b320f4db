# SPDX-License-Identifier: Apache-2.0
"""The code and the commands of all documents are run, page by page and from top to bottom."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import typer.main
from typer.testing import CliRunner

from tests.docs.bring_up import trained_stripes
from tests.docs.snippets import (
    OTHERS,
    PAGES,
    PYTHON_RUN_BY,
    ROOT,
    SHELLS,
    Call,
    Snippet,
    counts,
    missing_lines,
    snippets,
    unfenced,
)
from tt_cnn import ttnn
from tt_cnn.cli import app
from tt_cnn.cli.ray_options import with_addresses
from tt_cnn.virtual.devices.opening import open_devices

REASONS = ("installs packages from the network", "needs ", "serves until Ctrl-C", "run by ", "searches for minutes")
"""What a block that is not run may say. It needs a card, the real TT-NN, a GPU, weights, or files of the reader."""
FILE = re.compile(r"# (\S+\.py)\n")
NET = next(one.text for one in snippets("docs/tour.md") if one.text.startswith("# net.py"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where a page's commands run. What they import there is forgotten, what they set is set back, and devices that
    are left open are closed."""
    monkeypatch.chdir(tmp_path)
    for name in ("enable_comparison_mode", "comparison_mode_pcc"):
        monkeypatch.setattr(ttnn.CONFIG, name, getattr(ttnn.CONFIG, name))
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]
    for device in open_devices():
        ttnn.close_device(device)


def runnable(page: str) -> list[Snippet]:
    python = page not in PYTHON_RUN_BY
    return [
        one
        for one in snippets(page)
        if one.is_run and (one.language in SHELLS or one.mark == "output" or (one.language == "python" and python))
    ]


def run_page(page: str, folder: Path, long: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """Its blocks in order; commands that take long, and the short ones before them, only with the long tests."""
    names: dict[str, Any] = {}
    prepare = PREPARED.get(page)
    if prepare is not None:
        names |= prepare(folder)
    printed = ""
    for snippet in runnable(page):
        where = f"{page}:{snippet.line}"
        if snippet.is_long and not long:
            continue
        if snippet.mark == "output":
            assert missing_lines(snippet.text.splitlines(), printed) == [], where
        elif snippet.language == "python":
            named = FILE.match(snippet.text)
            if named is not None:
                (folder / named[1]).write_text(snippet.text, encoding="utf-8")
                continue
            capsys.readouterr()
            exec(compile("\n" * snippet.line + snippet.text, str(ROOT / page), "exec"), names)
            printed = capsys.readouterr().out
        else:
            for call in snippet.calls:
                run_call(call, where)


def run_call(call: Call, where: str) -> None:
    if call.words[0] == "cd":
        os.chdir(call.words[1])
        return
    if call.words[:2] == ["python", "-m"]:
        done = subprocess.run([sys.executable, *call.words[1:]], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{where}: {' '.join(call.words)}\n{done.stdout}{done.stderr}"
        return
    assert call.is_ours, f"{where}: {' '.join(call.words)} cannot be run here; say why"
    result = CliRunner().invoke(app, list(call.words[1:]))
    assert result.exit_code == 0, f"{where}: {' '.join(call.words)}\n{result.output}\n{result.exception!r}"
    assert missing_lines(call.output, result.stdout) == [], f"{where}: {' '.join(call.words)}\n{result.stdout}"


@pytest.mark.parametrize("page", [page for page in PAGES if any(not one.is_long for one in runnable(page))])
def test_the_page_is_true(page: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_page(page, folder, False, capsys)


@pytest.mark.long
@pytest.mark.parametrize("page", [page for page in PAGES if any(one.is_long for one in runnable(page))])
def test_the_page_is_true_with_what_takes_long(page: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_page(page, folder, True, capsys)


@pytest.mark.parametrize("page", PAGES)
def test_commands_have_their_options(page: str) -> None:
    """Of those that are not run, too."""
    group: Any = typer.main.get_command(app)
    for snippet in snippets(page):
        for call in snippet.calls:
            if not call.is_ours:
                continue
            where = f"{page}:{snippet.line}: {' '.join(call.words)}"
            if call.words[1] == "--version":
                continue
            assert call.words[1] in group.commands, where
            command = group.commands[call.words[1]]
            context = command.context_class(command, info_name=call.words[1], **command.context_settings)
            command.make_parser(context).parse_args(with_addresses(list(call.words[2:])))


@pytest.mark.parametrize("page", PAGES)
def test_blocks_say_what_they_are(page: str) -> None:
    assert unfenced(page) == []
    fences = re.findall(r"^ *```", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
    assert len(fences) == 2 * len(snippets(page)), "every block is seen"
    for snippet in snippets(page):
        where = f"{page}:{snippet.line}"
        assert snippet.language in ("python", *SHELLS, *OTHERS), where
        assert re.fullmatch(r"(?:(?:long|not run): \S.+|output|generated|)", snippet.mark), where
        assert snippet.is_run or snippet.language in ("python", *SHELLS), where


def test_tests_of_pages_are_there() -> None:
    for page, test in PYTHON_RUN_BY.items():
        assert Path(page).name in (ROOT / test).read_text(encoding="utf-8")
        assert any(one.language == "python" for one in snippets(page)), page


def test_only_what_cannot_be_run_is_not_run() -> None:
    for snippet in (one for page in PAGES for one in snippets(page) if not one.is_run):
        assert snippet.reason.startswith(REASONS), f"{snippet.page}:{snippet.line}: {snippet.reason}"
    for language, numbers in counts().items():
        if language != "bash":  # where most of what needs a card or the network is
            assert numbers["run"] + numbers["long"] > 10 * numbers["not run"], (language, numbers)


def test_what_a_page_shows_is_compared() -> None:
    printed = "one\ntwo 2.5 ms\nthree\n"
    assert missing_lines(["one", "...", "three"], printed) == []
    assert missing_lines(["two ... ms"], printed) == []
    assert missing_lines(["three", "one"], printed) == ["one"], "in this order"
    assert missing_lines(["two"], printed) == ["two"], "whole lines"


def small_net(folder: Path) -> dict[str, Any]:
    (folder / "net.py").write_text(NET, encoding="utf-8")
    return {}


def models_beside_each_other(_: Path) -> dict[str, Any]:
    """The tutorial's network in PyTorch and on the card, an input for both, and a convolution with its own input."""
    from tt_cnn.builder import Conv2dConfiguration, L1FullSliceStrategyConfiguration

    reference = trained_stripes().names["reference"]
    from stripes.reference.training import drawn_images
    from stripes.tt.model import TtStripesNet

    device = ttnn.open_device(device_id=0, l1_small_size=32768)
    model = TtStripesNet(reference, device)
    images, _ = drawn_images(1, torch.Generator().manual_seed(5))
    configuration = Conv2dConfiguration.with_random_weights(
        240, 320, 32, 32, 1, (3, 3), padding=(1, 1), slice_strategy=L1FullSliceStrategyConfiguration()
    )
    x = ttnn.from_torch(torch.zeros(1, 1, 240 * 320, 32), dtype=ttnn.bfloat16, device=device)
    return {
        "device": device, "configuration": configuration, "x": x,
        "torch_model": reference, "tt_model": model, "torch_input": images, "tt_input": model.place(images),
    }  # fmt: skip


PREPARED: dict[str, Callable[[Path], dict[str, Any]]] = {
    "README.md": small_net,
    "docs/bringup.md": small_net,
    "docs/troubleshooting.md": models_beside_each_other,
}
"""What a page takes for granted."""
