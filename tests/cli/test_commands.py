# SPDX-License-Identifier: Apache-2.0
"""The `tt-cnn` command: what it answers, and how it speaks of mistakes."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import tt_cnn
import tt_cnn.cli.application as application
from tt_cnn.cli import app, main
from tt_cnn.cli.usage import GROUPS, group_of, is_there, usages

DATA = Path(__file__).parents[1] / "golden" / "data"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_help_teaches() -> None:
    text = " ".join(run("--help").stdout.split())
    assert "tt-cnn demo two models brought up" in text and "tt-cnn devices the cards" in text
    for command in ("conformance", "devices", "ops"):
        text = run(command, "--help").stdout
        assert run(command, "-h").stdout == text
        assert "--json" in text
    assert "--min [FAMILY:]FIELD=PERCENT" in run("conformance", "--help").stdout


def test_the_package_knows_its_version() -> None:
    assert tt_cnn.__version__ == metadata.version("tt-cnn")
    assert run("--version").stdout.startswith(f"tt-cnn {tt_cnn.__version__}, ")


def test_version_names_what_is_imitated() -> None:
    assert "imitating TT-NN 0.81.1" in run("--version").stdout


def test_devices_tells_cards_and_runtime() -> None:
    text = run("devices").stdout
    assert text.startswith("in use: the virtual card (no module ttnn), as n150")
    for words in ("n300", "wormhole_b0", "11x10", "1536 KB"):
        assert words in text
    told = json.loads(run("devices", "--json").stdout)
    assert told["cards"]["p150"]["grid"] == [11, 10]
    assert told["default_card"] == "n150"


def test_devices_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TT_CNN_CARD", "p150")
    assert "as p150" in run("devices").stdout


def test_ops_counts_what_models_use() -> None:
    told = json.loads(run("ops", "--json").stdout)
    names = {row["name"]: row for row in told["list"]}
    assert names["from_torch"]["there"] and names["from_torch"]["uses"] == 896
    assert told["names"] == len(names) == sum(usage.defined for usage in usages())
    assert told["there"] == sum(row["there"] for row in told["list"])
    assert "names of TT-NN that vision models use are there" in run("ops").stdout


def test_ops_of_a_group_and_what_is_missing_there() -> None:
    told = json.loads(run("ops", "--json", "--used-by", "yolov4").stdout)
    assert {row["name"] for row in told["list"]} == {u.name for u in usages() if u.counts["c"] and u.defined}
    missing = json.loads(run("ops", "--json", "--used-by", "c", "--missing").stdout)
    assert [row["name"] for row in missing["list"]] == [row["name"] for row in told["list"] if not row["there"]]
    assert missing["names"] == told["names"]


def test_ops_of_all_the_library() -> None:
    told = json.loads(run("ops", "--all", "--json").stdout)
    assert told["names"] > 700 and {row["kind"] for row in told["list"]} == {"op"}


def test_an_unknown_group_lists_the_groups() -> None:
    result = run("ops", "--used-by", "bert")
    assert result.exit_code == 2
    assert "'bert' is not a group of models" in result.stderr and "yolov4" in result.stderr


def test_usages_are_the_counted_ones() -> None:
    assert len(usages()) == 203
    assert usages()[0].name == "from_torch" and usages()[0].uses("f") == 410
    assert not next(u for u in usages() if u.name == "to").defined
    assert group_of("SSD512") == "g" and [group_of(letter) for letter in GROUPS] == list(GROUPS)
    assert is_there("TensorMemoryLayout.HEIGHT_SHARDED") and is_there("device.Arch.BLACKHOLE")
    assert not is_there("TensorMemoryLayout.NOT_THERE")


def test_conformance_counts_and_meets_its_minimum() -> None:
    numerics = str(DATA / "numerics.npz")
    result = run("conformance", numerics, "--min", "numerics=100")
    assert result.exit_code == 0, result.output
    assert "30/30" in result.stdout
    told = json.loads(run("conformance", numerics, "--json").stdout)
    assert told["fields"]["numerics"] == {"agree": 30, "total": 30, "percent": 100.0}
    assert told["missed"] == [] and told["not_implemented"] == {}


@pytest.fixture
def wrong(tmp_path: Path) -> str:
    """A record whose real outcome was another: the library could not make this input, it says here that it could."""
    case = {
        "op": "relu",
        "dtype": "bfloat16",
        "layout": "TILE",
        "memory": {"kind": "height", "grid": [8, 8], "shard": [31, 32]},
        "args": {"rows": 1984, "c": 32},
    }
    path = tmp_path / "wrong.jsonl.gz"
    text = json.dumps({"card": "n150", "case": case, "result": {"status": "ok"}})
    path.write_bytes(gzip.compress(text.encode()))
    return str(path)


def test_conformance_shows_differences_and_misses(wrong: str) -> None:
    result = run("conformance", wrong, "--min", "status=97", "--show", "1", "--field", "status")
    assert result.exit_code == 1
    assert "wrong.jsonl.gz:1  relu  status" in result.stdout
    assert "Physical shard shape (31, 32) must be tile" in result.stdout
    assert "missed  status: 0.00 % agree, 97 % are needed" in result.stderr
    told = json.loads(run("conformance", wrong, "--json", "--show", "1", "--min", "status=1").stdout)
    assert told["missed"] and told["differences"][0]["recorded"] == "ok"


def test_conformance_selects_by_op(wrong: str) -> None:
    result = run("conformance", wrong, "--json", "--op", "concat")
    assert json.loads(result.stdout)["records"] == 0
    assert "no record calls concat" in result.stderr


def test_a_minimum_over_calls_that_cannot_be_made_is_missed(wrong: str, tmp_path: Path) -> None:
    path = tmp_path / "missing.jsonl"
    path.write_text(gzip.decompress(Path(wrong).read_bytes()).decode().replace("relu", "not_there"))
    result = run("conformance", str(path), "--min", "status=1")
    assert result.exit_code == 1 and "status: 0.00 % agree, 1 % are needed" in result.stderr
    assert "not implemented: ttnn.not_there (1)" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.jsonl"], "nowhere.jsonl: there is no such file"),
        ([str(DATA / "numerics.npz"), "--min", "numerics=many"], "'numerics=many' is not [FAMILY:]FIELD=PERCENT"),
        ([str(DATA / "numerics.npz"), "--min", "speed=10"], "'speed=10' is not [FAMILY:]FIELD=PERCENT"),
        ([str(DATA / "numerics.npz"), "--min", "numerics=101"], "'numerics=101' is not [FAMILY:]FIELD=PERCENT"),
        ([str(DATA / "numerics.npz"), "--show", "1", "--field", "speed"], "'speed' is not one of"),
        ([], "Missing argument"),
    ],
)
def test_mistakes_are_told_in_a_sentence(arguments: list[str], words: str) -> None:
    result = run("conformance", *arguments)
    assert result.exit_code == 2
    assert words in result.stderr and "Traceback" not in result.output


def test_errors_have_no_traceback(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["tt-cnn", "devices"])
    monkeypatch.setenv("TT_CNN_CARD", "n15")
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 1
    assert "tt-cnn: card is 'n15'; the virtual cards are n150, n300, t3000, galaxy, p150" in capsys.readouterr().err


def test_an_interrupt_is_quiet(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(application, "app", interrupted)
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 130
    assert "Traceback" not in capsys.readouterr().err


def test_the_console_script_and_the_module_are_the_same_command() -> None:
    script = Path(sys.executable).parent / "tt-cnn"
    for command in ([str(script)], [sys.executable, "-m", "tt_cnn.cli"]):
        done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
        assert done.stdout.startswith("tt-cnn ")
