# SPDX-License-Identifier: Apache-2.0
"""Predictions on the disk: a folder of parts in Parquet, each written whole or not at all, and read again by a job
that goes on."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tt_cnn.cache_folder import replacing
from tt_cnn.distributed.extra import require
from tt_cnn.distributed.prediction_rows import Row

JOB, UNREADABLE = "job.json", "unreadable.txt"
PART_ROWS = 1000
PART_SECONDS = 30.0
"""After so many rows or seconds a part is written: no more than that is lost with this process."""


class AnotherJob(ValueError):
    """The folder holds something else than this job's predictions."""


class PredictionFolder:
    """Rows come in, `flush` writes what waits. `job` says what they are predictions of."""

    def __init__(self, folder: Path, job: Mapping[str, Any], schema: Any) -> None:
        self.folder, self.schema = folder, schema
        self._arrow = require("pyarrow", "writing predictions")
        self._parquet = require("pyarrow.parquet", "writing predictions")
        self._begin(json.loads(json.dumps(job)))
        self._waiting: list[Row] = []
        self._since = time.monotonic()
        self._next = 1 + max((int(path.stem.rpartition("-")[2]) for path in self.parts()), default=-1)

    def _begin(self, job: dict[str, Any]) -> None:
        file = self.folder / JOB
        if file.is_file():
            known = json.loads(file.read_text(encoding="utf-8"))
            for name in job:
                if known.get(name) != job[name]:
                    raise AnotherJob(
                        f"{self.folder} holds predictions with {name} {known.get(name)!r}, and {job[name]!r} is asked "
                        "for; name another folder"
                    )
            return
        if self.folder.exists() and any(self.folder.iterdir()):
            raise AnotherJob(f"{self.folder} is there already and holds no predictions; name another folder")
        self.folder.mkdir(parents=True, exist_ok=True)
        _write(file, json.dumps(job, indent=1))

    def parts(self) -> list[Path]:
        return sorted(self.folder.glob("part-*.parquet"))

    def names(self) -> set[str]:
        """Of the images that are done."""
        columns = (self._parquet.read_table(part, columns=["image"]).column("image") for part in self.parts())
        return {name for column in columns for name in column.to_pylist()}

    def rows(self) -> Iterator[Row]:
        for part in self.parts():
            yield from self._parquet.read_table(part).to_pylist()

    def add(self, row: Row) -> None:
        self._waiting.append(row)
        if len(self._waiting) >= PART_ROWS or time.monotonic() - self._since > PART_SECONDS:
            self.flush()

    def flush(self) -> None:
        if self._waiting:
            with replacing(self.folder / f"part-{self._next:06}.parquet") as beside:
                self._parquet.write_table(self._arrow.Table.from_pylist(self._waiting, self.schema), beside)
            self._next += 1
            self._waiting = []
        self._since = time.monotonic()

    def note_unreadable(self, lines: list[str]) -> None:
        file = self.folder / UNREADABLE
        if lines:
            _write(file, "\n".join(lines) + "\n")
        else:
            file.unlink(missing_ok=True)


def _write(file: Path, text: str) -> None:
    with replacing(file) as beside:
        beside.write_text(text, encoding="utf-8")
