"""Videos: frames come back as they went in."""

from __future__ import annotations

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
