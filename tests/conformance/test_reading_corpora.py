# SPDX-License-Identifier: Apache-2.0
"""Reading corpora: every kind is known by its records, and a bad file is a CorpusError that says what is wrong."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from tt_cnn.conformance.corpus import CorpusError, read_corpus

OPS = {"card": "n150", "case": {"op": "relu", "args": {}}, "result": {"status": "ok"}}
KINDS = {
    "ops": OPS,
    "conv2d": {"card": "p150", "case": {"in_channels": 8}, "result": {"status": "ok"}},
    "chains": {"card": "n150", "case": {"input": [1, 1, 1, 1], "steps": []}, "result": {"status": "ok"}},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz"])
def test_the_kind_shows_in_the_records(tmp_path: Path, kind: str, suffix: str) -> None:
    path = tmp_path / f"corpus{suffix}"
    text = json.dumps(KINDS[kind]) + "\n"
    path.write_bytes(gzip.compress(text.encode()) if suffix.endswith("gz") else text.encode())
    corpus = read_corpus(path)
    assert corpus.kind == kind
    assert corpus.records[0].card == KINDS[kind]["card"]
    assert corpus.records[0].place == f"corpus{suffix}:1"


def test_a_folder_of_values(tmp_path: Path) -> None:
    case = {"card": "n150", "case": {"id": "c0", "op": "unary", "args": {}}, "result": {"status": "ok"}}
    (tmp_path / "cases.jsonl").write_text(json.dumps(case))
    np.savez(tmp_path / "values.npz", **{"c0.in0": np.zeros(1, np.float32)})
    corpus = read_corpus(tmp_path)
    assert corpus.kind == "values"
    assert "c0.in0" in corpus.arrays


def test_conversions_become_a_record_for_each_format(tmp_path: Path) -> None:
    np.savez(tmp_path / "n.npz", a_in=np.zeros(1), a_bfloat16=np.zeros(1), a_bfloat8_b=np.zeros(1), other=np.zeros(1))
    corpus = read_corpus(tmp_path / "n.npz")
    assert [record.case["dtype"] for record in corpus.records] == ["bfloat16", "bfloat8_b"]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.jsonl", b"{not json", "a.jsonl:1: not JSON"),
        ("a.jsonl", b"", "holds no records"),
        ("a.jsonl", b'{"case": 1, "result": {}}', "a record is"),
        ("a.jsonl", b"[1]", "a record is"),
        ("a.jsonl", b'{"case": {}, "result": {}}', "neither an op"),
        ("a.jsonl", b"\xff\xfe", "cannot be read"),
        ("a.jsonl.gz", b"plain", "cannot be read"),
        ("a.jsonl.gz", gzip.compress(b"{}")[:-9], "cannot be read"),
        ("a.npz", b"plain", "cannot be read"),
        ("a.txt", b"{}", "a corpus is"),
    ],
)
def test_a_bad_file_says_what_is_wrong(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CorpusError, match=words):
        read_corpus(tmp_path / name)


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="no such file"):
        read_corpus(tmp_path / "none.jsonl")
    with pytest.raises(CorpusError, match=r"cases\.jsonl and values\.npz"):
        read_corpus(tmp_path)
