# SPDX-License-Identifier: Apache-2.0
"""Reading recorded corpora: `.jsonl`, `.jsonl.gz`, `.npz` of conversions, folders of values or networks."""

from __future__ import annotations

import gzip
import json
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

KINDS = ("numerics", "values", "networks", "chains", "ops", "conv2d", "calls", "call chains")
_FILES = (".jsonl", ".jsonl.gz", ".npz")
_BLOCK_FORMATS = ("bfloat16", "bfloat8_b", "bfloat4_b")


class CorpusError(ValueError):
    """A file that is not a corpus, or a record that cannot be understood."""


@dataclass(frozen=True)
class Record:
    """One recorded call (or network): the card, what was called, what came of it."""

    card: str
    case: dict[str, Any]
    result: dict[str, Any]
    place: str
    """Where it stands, for reports: `ops_wormhole.jsonl.gz:12`."""

    @property
    def family(self) -> str:
        """The kind of calls that it belongs to: its own word for it, or else the file's."""
        return str(self.case.get("family") or self.place.partition(".")[0].partition("_")[0])


@dataclass
class Corpus:
    path: Path
    kind: str
    records: list[Record]
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)


def read_corpora(path: str | Path) -> list[Corpus]:
    """The corpora of a path: of a file, of a folder of values or networks, or of every corpus file in a folder."""
    path = Path(path)
    if not path.is_dir() or (path / "cases.jsonl").exists():
        return [read_corpus(path)]
    files = sorted(file for file in path.iterdir() if file.name.endswith(_FILES))
    if not files:
        raise CorpusError(f"{path}: the folder holds neither corpora ({', '.join(_FILES)}) nor cases.jsonl")
    return [read_corpus(file) for file in files]


def read_corpus(path: str | Path) -> Corpus:
    """The corpus of a file, or of a folder of values or networks; what kind it is shows in its records."""
    path = Path(path)
    if path.is_dir():
        return _read_folder(path)
    if not path.exists():
        raise CorpusError(f"{path}: there is no such file or folder")
    if path.suffix == ".npz":
        return _read_numerics(path)
    if path.name.endswith((".jsonl", ".jsonl.gz")):
        records = _read_lines(path)
        return Corpus(path, _kind_of(records[0]), records)
    raise CorpusError(
        f"{path}: a corpus is a .jsonl, .jsonl.gz or .npz file, or a folder with cases.jsonl and values.npz"
    )


def _read_lines(path: Path) -> list[Record]:
    try:
        content = path.read_bytes()
        text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise CorpusError(f"{path}: cannot be read ({error})") from error
    records = [
        _record(line, f"{path.name}:{number}") for number, line in enumerate(text.splitlines(), 1) if line.strip()
    ]
    if not records:
        raise CorpusError(f"{path}: holds no records")
    return records


def _record(line: str, place: str) -> Record:
    try:
        data = json.loads(line)
    except json.JSONDecodeError as error:
        raise CorpusError(f"{place}: not JSON ({error})") from error
    if not isinstance(data, dict) or not all(isinstance(data.get(key), dict) for key in ("case", "result")):
        raise CorpusError(f'{place}: a record is {{"card": ..., "case": {{...}}, "result": {{...}}}}')
    return Record(str(data.get("card", "n150")), data["case"], data["result"], place)


def _kind_of(record: Record) -> str:
    case = record.case
    if "inputs" in case:
        return "call chains" if "steps" in case else "calls"
    if "steps" in case:
        return "networks" if "id" in case else "chains"
    if "op" in case:
        return "values" if "id" in case else "ops"
    if "in_channels" in case:
        return "conv2d"
    raise CorpusError(f"{record.place}: the case has neither an op, nor steps, nor a convolution's arguments")


def _read_folder(path: Path) -> Corpus:
    cases, values = path / "cases.jsonl", path / "values.npz"
    if not cases.exists() or not values.exists():
        raise CorpusError(f"{path}: a folder of values or networks holds cases.jsonl and values.npz")
    records = _read_lines(cases)
    return Corpus(path, _kind_of(records[0]), records, _load_arrays(values))


def _load_arrays(path: Path) -> Mapping[str, np.ndarray]:
    try:
        loaded: Mapping[str, np.ndarray] = np.load(path)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise CorpusError(f"{path}: cannot be read as arrays ({error})") from error
    return loaded


def _read_numerics(path: Path) -> Corpus:
    """Every `NAME_in` with each of its conversions becomes a record."""
    arrays = _load_arrays(path)
    records = [
        Record("n150", {"op": "from_torch", "name": key[: -len("_in")], "dtype": dtype}, {}, f"{path.name}:{key}")
        for key in arrays
        if key.endswith("_in")
        for dtype in _BLOCK_FORMATS
        if f"{key[: -len('_in')]}_{dtype}" in arrays
    ]
    if not records:
        raise CorpusError(f"{path}: holds no pairs NAME_in, NAME_bfloat8_b")
    return Corpus(path, "numerics", records, arrays)
