# SPDX-License-Identifier: Apache-2.0
"""Makes the shortened corpora in `data/` from a folder of full ones: `python tests/golden/shorten.py FOLDER`.

The conversions are small enough to be copied whole.
"""

from __future__ import annotations

import gzip
import json
import shutil
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

DATA = Path(__file__).parent / "data"
ELEMENTWISE = ("unary", "binary", "typecast")
ROWS, COLUMNS = 16, 32
"""Elementwise values keep half a tile: no element depends on others but those that share its exponent."""
NETWORKS = 2


def spread(records: list[dict[str, Any]], key: Any, count: int) -> list[dict[str, Any]]:
    """Some of each kind, in turn, so that rare ones are there too."""
    kinds: dict[Any, list[int]] = defaultdict(list)
    for number, record in enumerate(records):
        kinds[key(record)].append(number)
    chosen: list[int] = []
    while len(chosen) < count and any(kinds.values()):
        for numbers in kinds.values():
            if numbers and len(chosen) < count:
                chosen.append(numbers.pop(0))
    return [records[number] for number in sorted(chosen)]


def read(path: Path) -> list[dict[str, Any]]:
    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()
    return [json.loads(line) for line in text.splitlines()]


def lines(records: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(record, separators=(",", ":")) + "\n" for record in records)


def write_plans(source: Path, name: str, key: Any, count: int) -> None:
    text = lines(spread(read(source / name), key, count))
    (DATA / name).write_bytes(gzip.compress(text.encode(), mtime=0))


def corner(array: np.ndarray) -> np.ndarray:
    return array[..., :ROWS, :COLUMNS]


def write_values(source: Path) -> None:
    arrays, kept, cases = np.load(source / "values" / "values.npz"), {}, []
    for record in read(source / "values" / "cases.jsonl"):
        case = record["case"]
        if case["op"] not in ELEMENTWISE:
            continue
        kept |= {key: corner(arrays[key]) for key in arrays if key.startswith(case["id"] + ".")}
        record["result"]["out_shape"] = list(kept[f"{case['id']}.out"].shape)
        if "shape_b" in case["args"]:
            case["args"]["shape_b"] = list(kept[f"{case['id']}.in1"].shape)
        cases.append(record)
    save(DATA / "values", cases, kept)


def write_networks(source: Path) -> None:
    arrays = np.load(source / "networks" / "values.npz")
    records = read(source / "networks" / "cases.jsonl")

    def numbers_of(record: dict[str, Any]) -> dict[str, np.ndarray]:
        return {key: arrays[key] for key in arrays if key.startswith(record["case"]["id"] + ".")}

    records.sort(key=lambda record: sum(array.size for array in numbers_of(record).values()))
    kept = records[:NETWORKS]
    save(DATA / "networks", kept, {key: array for record in kept for key, array in numbers_of(record).items()})


def save(folder: Path, records: list[dict[str, Any]], arrays: dict[str, np.ndarray]) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "cases.jsonl").write_text(lines(records))
    np.savez_compressed(folder / "values.npz", **arrays)


def main(source: Path) -> None:
    DATA.mkdir(exist_ok=True)
    write_plans(source, "ops_wormhole.jsonl.gz", lambda r: (r["case"]["op"], r["result"]["status"]), 100)
    for name in ("conv2d_wormhole.jsonl.gz", "conv2d_blackhole.jsonl.gz"):
        write_plans(source, name, lambda r: (r["case"]["shard_layout"], r["result"]["status"]), 80)
    write_plans(source, "chains_wormhole.jsonl.gz", lambda r: r["case"]["steps"][-1]["op"], 60)
    shutil.copyfile(source / "numerics.npz", DATA / "numerics.npz")
    write_values(source)
    write_networks(source)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
