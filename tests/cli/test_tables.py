# SPDX-License-Identifier: Apache-2.0
"""Tables in narrow terminals: whatever tells rows apart stays whole."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from tests.cli.terminal import in_terminal
from tt_cnn.cli.tables import Column, Listing, numbers, texts
from tt_cnn.reports.profile import profile_model
from tt_cnn.reports.profile_json import load_profile, save_profile
from tt_cnn.virtual.arch import CARDS
from tt_cnn.zoo import architecture, list_architectures

LONGEST = 10
RATE = r"\d+ \(\d+ to \d+\)"


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that terminals of several widths profile into."""
    return tmp_path_factory.mktemp("profiled")


@pytest.mark.parametrize("columns", [120, 80, 50, 30])
def test_a_profile_names_every_layer_and_number_at_any_width(columns: int, profiled: Path) -> None:
    where = profiled / str(columns)
    lines = in_terminal(columns, "profile", "vanilla_unet", "--card", "n150", "-o", str(where))
    text = "\n".join(lines)
    assert "…" not in text
    assert [line for line in lines if line.startswith(("┃", "│", "┏", "└")) and len(line) > columns] == []
    longest = sorted(load_profile(where).rows, key=lambda row: -row.cost.ns)[:LONGEST]
    assert len({row.name for row in longest}) > 5
    for row in longest:
        time = f"{row.cost.ns / 1e3:.1f}"
        block = text[text.index(f"\n{row.index} {row.name}") :] if f"\n{row.index} {row.name}\n" in text else ""
        in_table = [line for line in lines if f" {row.name} " in line and f" {time} " in line]
        assert in_table or time in block.split("\n")[3], (row.name, time)


def test_columns_that_are_given_up_are_named(profiled: Path) -> None:
    text = " ".join(in_terminal(80, "profile", "vanilla_unet", "-o", str(profiled / "named")))
    said = "not shown, 80 columns are too few: 8 of 10 within, fidelity, adjusted %, L1 free KB"
    assert said.split() == text[text.index("not shown") :].split()[: len(said.split())]


@pytest.mark.parametrize("columns", [80, 40])
def test_devices_are_whole_in_a_narrow_terminal(columns: int) -> None:
    text = "\n".join(in_terminal(columns, "devices"))
    assert "…" not in text
    for name, card in CARDS.items():
        assert name in text and card.arch_name in text and f"{card.l1_size // 1024} KB" in text


@pytest.mark.parametrize("columns", [80, 60, 40])
def test_architectures_are_whole_in_a_narrow_terminal(columns: int) -> None:
    text = "\n".join(in_terminal(columns, "zoo", "--filter", "classification"))
    assert "…" not in text
    found = [one for one in map(architecture, list_architectures()) if one.task == "classification"]
    names = re.findall(r"^(?:│ )?([a-z]\w+)(?: +│.*)?$", text, re.MULTILINE)
    assert [name for name in names if name != "name"] == [one.name for one in found]
    given_up = "multiply-adds, G" in text[text.find("not shown") :]
    for one in found:
        assert given_up or one.gmacs is None or f"{one.gmacs:.2f}" in text


@pytest.mark.parametrize(("columns", "shape"), [(80, "table"), (60, "blocks"), (40, "blocks")])
def test_models_side_by_side_are_whole_in_a_narrow_terminal(columns: int, shape: str, tmp_path: Path) -> None:
    other = save_profile(profile_model("vanilla_unet", executor="plain"), tmp_path / "profile.json")
    lines = in_terminal(columns, "compare", "vanilla_unet", "--card", "n150", "--card", "p150")
    named = (
        r"^│ vanilla_unet +│ 1x480x640 +│ ([np]150) +│" if shape == "table" else r"^vanilla_unet 1x480x640 ([np]150) "
    )
    assert re.findall(named, "\n".join(lines), re.MULTILINE) == ["n150", "p150"]
    fps = rf"│ +{RATE} │" if shape == "table" else rf"^  device fps +{RATE}$"
    assert len(re.findall(fps, "\n".join(lines), re.MULTILINE)) == 2
    assert all("…" not in line and len(line) <= columns for line in lines)
    told_apart = "\n".join(in_terminal(columns, "compare", "vanilla_unet", str(other)))
    assert "trace+2cq" in told_apart and re.search(r"\bplain\b", told_apart), "what tells rows apart is not given up"


def test_files_of_one_model_are_told_apart() -> None:
    lines = in_terminal(60, "weights")
    assert "resnet50 resnet50-0676ba61.pth" in lines and "resnet50 resnet50-11ad3fa6.pth" in lines


def shown(listing: Listing, columns: int, terminal: bool = True) -> str:
    file = io.StringIO()
    listing.show(Console(file=file, width=columns, force_terminal=terminal, color_system=None))
    return file.getvalue()


@pytest.fixture
def listing() -> Listing:
    made = Listing((*texts("layer"), *numbers("µs"), Column("of ten", right=True, expendable=1)), "steps")
    made.add("backbone.stage4.block2.conv1", "123.4", "100 to 150")
    made.add("backbone.stage4.block2.conv2", "23.4", "20 to 30")
    return made


def test_a_table_gives_up_columns_before_it_becomes_blocks(listing: Listing) -> None:
    assert "100 to 150" in shown(listing, 80)
    without = shown(listing, 42)
    assert "100 to 150" not in without and "not shown, 42 columns are too few: of ten" in without
    blocks = shown(listing, 30)
    assert "backbone.stage4.block2.conv2\n  µs      23.4\n  of ten  20 to 30\n" in blocks


def test_a_file_gets_all_columns_however_wide_they_are(listing: Listing) -> None:
    text = shown(listing, 20, terminal=False)
    assert "backbone.stage4.block2.conv1 │ 123.4 │ 100 to 150" in text


def test_long_texts_are_folded_and_not_cut() -> None:
    made = Listing((*texts("name"), Column("from", folds=True)))
    made.add("resnet50", "https://download.example/models/resnet50-0676ba61.pth")
    lines = shown(made, 44).splitlines()
    cells = [line.split("│")[2].strip() for line in lines if line.startswith("│")]
    assert "".join(cells) == "https://download.example/models/resnet50-0676ba61.pth"


def test_the_head_of_a_block_is_whole_though_it_is_longer_than_a_line() -> None:
    made = Listing((*texts("file", "card"), *numbers("fps")), keys=2)
    made.add("a-folder/with-a-long-name/profile.json", "n150", "201")
    assert "a-folder/with-a-long-name/profile.json n150\n  fps  201\n" in shown(made, 30)


def test_markup_in_a_cell_is_text() -> None:
    made = Listing(tuple(texts("layer")))
    made.add("[red]neck[/]")
    assert "[red]neck[/]" in shown(made, 40)


def test_a_row_with_too_many_cells_is_refused(listing: Listing) -> None:
    with pytest.raises(ValueError, match="a row has 4 cells, and there are 3 columns"):
        listing.add("a", "b", "c", "d")
