# SPDX-License-Identifier: Apache-2.0
"""Videos, a frame at a time: read and written with PyAV, which brings its own FFmpeg."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from tt_cnn.evaluation.optional import require
from tt_cnn.evaluation.pictures import Picture

CODECS = ("libx264", "mpeg4")
"""The first that this FFmpeg has is written."""


@contextmanager
def opened_video(path: Path) -> Iterator[tuple[Iterator[Picture], Fraction, int]]:
    """The frames as images, how many there are in a second, and how many in all (0 where the file does not say)."""
    av = require("av", "reading videos")
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such video")
    try:
        container = av.open(str(path))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: it cannot be read as a video ({error})") from error
    with container:
        if not container.streams.video:
            raise ValueError(f"{path}: there is no video in it")
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        frames = (frame.to_ndarray(format="rgb24") for frame in container.decode(stream))
        yield frames, Fraction(stream.average_rate or 25), int(stream.frames)


class VideoWriter:
    """Images of one size into an MP4; `with` closes it. Sides are cut to even numbers, as the codecs want them."""

    def __init__(self, path: Path, rate: Fraction) -> None:
        self.av = require("av", "writing videos")
        self.container = self.av.open(str(path), "w")
        self.rate = rate
        self.stream: Any = None

    def write(self, picture: Picture) -> None:
        height, width = (side // 2 * 2 for side in picture.shape[:2])
        if self.stream is None:
            codec = next(name for name in CODECS if name in self.av.codecs_available)
            self.stream = self.container.add_stream(codec, rate=self.rate)
            self.stream.width, self.stream.height, self.stream.pix_fmt = width, height, "yuv420p"
            if codec == "libx264":
                self.stream.options = {"crf": "20"}
        frame = self.av.VideoFrame.from_ndarray(np.ascontiguousarray(picture[:height, :width]), format="rgb24")
        self.container.mux(self.stream.encode(frame))

    def __enter__(self) -> VideoWriter:
        return self

    def __exit__(self, *_: object) -> None:
        if self.stream is not None:
            self.container.mux(self.stream.encode())
        self.container.close()
