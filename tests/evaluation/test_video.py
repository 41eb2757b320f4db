# SPDX-License-Identifier: Apache-2.0
"""Videos: frames come back as they went in."""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from tt_cnn.evaluation.video import VideoWriter, opened_video


def test_frames_come_back_in_order(tmp_path: Path) -> None:
    path = tmp_path / "clip.mp4"
    with VideoWriter(path, Fraction(10)) as writer:
        for level in (20, 90, 160, 230):
            writer.write(np.full((65, 97, 3), level, np.uint8))
    with opened_video(path) as (frames, rate, count):
        read = list(frames)
    assert rate == 10 and count == 4
    assert [frame.shape for frame in read] == [(64, 96, 3)] * 4
    assert [round(float(frame.mean())) for frame in read] == pytest.approx([20, 90, 160, 230], abs=4)


def test_mistakes_are_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no such video"), opened_video(tmp_path / "none.mp4"):
        pass
    (tmp_path / "text.mp4").write_text("no video")
    with pytest.raises(ValueError, match="it cannot be read as a video"), opened_video(tmp_path / "text.mp4"):
        pass


def test_the_package_is_asked_for_by_its_own_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its wheels bundle codecs under the GPL: nobody gets them who did not ask for videos."""
    monkeypatch.setitem(sys.modules, "av", None)
    words = r"videos needs the package of 'av', which is not installed: pip install 'tt-cnn\[video\]' .*GPL"
    with pytest.raises(ImportError, match=words), opened_video(tmp_path / "clip.mp4"):
        pass
    with pytest.raises(ImportError, match=words):
        VideoWriter(tmp_path / "clip.mp4", Fraction(10))


def test_no_other_extra_brings_it() -> None:
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    extras = text.partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    with_it = [line.partition(" =")[0] for line in extras.splitlines() if '"av' in line]
    assert with_it == ["video"] and '"av' not in text.partition("[project.optional-dependencies]")[0]
