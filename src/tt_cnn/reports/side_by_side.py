# SPDX-License-Identifier: Apache-2.0
"""Several models or cards side by side: a row for each profile, as a table in Markdown or as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tt_cnn.reports.records import Band, Profile

NO_BAND = Band(0.0, 0.0)
HEADINGS = (
    "model",
    "input",
    "card",
    "executor",
    "device fps",
    "fps end to end",
    "L1 peak, KB",
    "l1_small_size",
    "multiply-adds, G",
    "parameters, M",
)
KEYS = 4
"""The first four name a row: one model may stand there with several inputs, cards and executors."""


@dataclass(frozen=True)
class Compared:
    """One model on one card. Rates are predicted, of all chips of the card."""

    name: str
    """As the user named it."""
    card: str
    failed: str = ""
    """Why there are no figures; empty where there are."""
    batch: int = 0
    chips: int = 1
    resolution: tuple[int, int] = (0, 0)
    executor: str = ""
    device_fps: float = 0.0
    device_fps_band: Band = NO_BAND
    fps: float = 0.0
    fps_band: Band = NO_BAND
    l1_peak: int = 0
    l1_size: int = 0
    l1_small_size: int = 0
    trace_region_size: int = 0
    macs: int = 0
    """Of one batch on one chip, as the card computes it."""
    parameters: int = 0

    def cells(self) -> tuple[str, ...]:
        """One for each of `HEADINGS`; less where it failed."""
        if self.failed:
            return (self.name, "", self.card, "", self.failed)
        height, width = self.resolution
        on_chips = f" on each of {self.chips} chips" if self.chips > 1 else ""
        return (
            self.name,
            f"{self.batch}x{height}x{width}{on_chips}",
            self.card,
            self.executor,
            _rate(self.device_fps, self.device_fps_band),
            _rate(self.fps, self.fps_band),
            f"{self.l1_peak / 1024:.0f} of {self.l1_size / 1024:.0f}",
            str(self.l1_small_size),
            f"{self.macs / 1e9:.2f}",
            f"{self.parameters / 1e6:.2f}",
        )

    def as_data(self) -> dict[str, Any]:
        """For JSON; of a row that failed no figures."""
        return {"name": self.name, "card": self.card, "failed": self.failed} if self.failed else asdict(self)


def compared(name: str, profile: Profile) -> Compared:
    """The row of a profile."""
    return Compared(
        name=name,
        card=profile.card,
        batch=profile.model.batch_size,
        chips=profile.chips,
        resolution=profile.model.resolution,
        executor=profile.executor,
        device_fps=profile.device_fps,
        device_fps_band=profile.device_fps_band,
        fps=profile.fps,
        fps_band=profile.fps_band,
        l1_peak=profile.l1_peak,
        l1_size=profile.l1_size,
        l1_small_size=profile.l1_small_needed,
        trace_region_size=profile.trace_bytes,
        macs=profile.macs,
        parameters=profile.model.parameters,
    )


def markdown(rows: Sequence[Compared]) -> str:
    """A table; a row that failed says why in place of its figures."""
    lines = [
        f"| {' | '.join(HEADINGS)} |",
        "|---|---|---|---|" + "---:|" * (len(HEADINGS) - 4),
    ]
    for row in rows:
        cells = [cell.split("\n")[0].replace("|", "\\|") for cell in row.cells()]
        lines.append(f"| {' | '.join([*cells, *['-'] * (len(HEADINGS) - len(cells))])} |")
    return "\n".join(lines)


def _rate(rate: float, band: Band) -> str:
    low, high = band
    return f"{rate:.0f} ({low:.0f} to {high:.0f})" if high else f"{rate:.0f}"
