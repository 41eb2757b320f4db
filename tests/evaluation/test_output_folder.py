# SPDX-License-Identifier: Apache-2.0
"""Results never go over others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tt_cnn.evaluation.output_folder import result_folder


def test_a_taken_folder_is_left_alone(tmp_path: Path) -> None:
    wanted = tmp_path / "out" / "demo"
    assert result_folder(wanted) == wanted and wanted.is_dir()
    assert result_folder(wanted) == wanted  # empty still
    (wanted / "one.png").write_text("1")
    assert result_folder(wanted) == wanted.with_name("demo-2")
    assert result_folder(wanted) == wanted.with_name("demo-3")
    assert (wanted / "one.png").read_text() == "1"


def test_force_takes_away_pictures_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "one.png").touch()
    assert result_folder(tmp_path, force=True) == tmp_path and not list(tmp_path.iterdir())
    (tmp_path / "one.png").touch()
    (tmp_path / "thesis.docx").touch()
    with pytest.raises(FileExistsError, match=r"holds thesis\.docx, which tt-cnn did not write"):
        result_folder(tmp_path, force=True)
    assert (tmp_path / "one.png").exists()


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError, match="is a file; name a folder"):
        result_folder(tmp_path / "file")
