# SPDX-License-Identifier: Apache-2.0
"""A bar chart of a comparison, drawn with Pillow."""

from __future__ import annotations

from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from tt_cnn.bench.rounds import Comparison

WIDTH, BAR, GAP, LEFT, RIGHT, TOP = 900, 26, 10, 230, 190, 50
OURS, THEIRS, INK, PAPER = "#2a6fdb", "#b8c0cc", "#1c2530", "#ffffff"


def draw_bars(result: Comparison, title: str, path: Path) -> None:
    """Milliseconds per batch, shorter is better; ours in blue."""
    rows = result.timings
    picture = Image.new("RGB", (WIDTH, TOP + len(rows) * (BAR + GAP) + GAP), PAPER)
    pen, font = ImageDraw.Draw(picture), ImageFont.load_default(15)
    pen.text((GAP, GAP), f"{title}: milliseconds per batch, shorter is better", INK, ImageFont.load_default(18))
    longest = max(row.median for row in rows)
    for i, row in enumerate(rows):
        y = TOP + i * (BAR + GAP)
        length = (WIDTH - LEFT - RIGHT) * row.median / longest
        pen.text((GAP, y + 4), row.name, INK, font)
        pen.rectangle((LEFT, y, LEFT + length, y + BAR), OURS if row.name.startswith("tt-cnn") else THEIRS)
        pen.text((LEFT + length + GAP, y + 4), f"{row.median * 1e3:.1f} ms   {result.ratio(row):.2f}x", INK, font)
    picture.save(path)
