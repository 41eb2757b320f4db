# SPDX-License-Identifier: Apache-2.0
"""Requests of the open inference protocol v2 read and answered."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch

from tt_cnn.serving.tensors import BadRequest, Request, read_request, write_response

SHAPE = (1, 3, 2, 2)
OUTPUTS = ["boxes", "scores"]


def asked(**changes: Any) -> dict[str, Any]:
    given = {"name": "images", "shape": [1, 3, 2, 2], "datatype": "FP32", "data": list(range(12))}
    return {"inputs": [given | changes]}


def read(body: dict[str, Any] | bytes, behind: bytes = b"", length: str | None = None) -> Request:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    if behind and length is None:
        length = str(len(text))
    return read_request(text + behind, length, "images", SHAPE, OUTPUTS)


def test_numbers_may_be_flat_or_nested() -> None:
    images = torch.arange(12.0).reshape(SHAPE)
    for data in (images.flatten().tolist(), images.tolist()):
        assert torch.equal(read(asked(data=data)).images, images)


@pytest.mark.parametrize(("datatype", "kind"), [("FP32", np.float32), ("FP16", np.float16)])
def test_bytes_behind_the_json(datatype: str, kind: Any) -> None:
    images = torch.randn(2, *SHAPE[1:], generator=torch.Generator().manual_seed(0)).half().float()
    behind = images.numpy().astype(kind).tobytes()
    body = asked(shape=[2, 3, 2, 2], datatype=datatype, parameters={"binary_data_size": len(behind)})
    del body["inputs"][0]["data"]
    assert torch.equal(read(body, behind).images, images)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "no JSON"),
        (b'{"inputs": [', "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"\xff\xfe", "no JSON"),
        (b"[]", "JSON object"),
        ({}, "inputs must be a list of one tensor"),
        ({"inputs": []}, "inputs must be a list of one tensor"),
        ({"inputs": [1]}, "inputs must be a list of one tensor"),
        (asked(name="x"), "the input is named 'x'"),
        (asked(shape=[1, 3, 2, 3]), r"it must be \[batch, 3, 2, 2\]"),
        (asked(shape=[0, 3, 2, 2]), "it must be"),
        (asked(shape=[3, 2, 2]), "it must be"),
        (asked(shape="1"), "shape must be a list"),
        (asked(shape=[True, 3, 2, 2]), "shape must be a list"),
        (asked(datatype="INT8"), "datatype is 'INT8'; it must be FP32 or FP16"),
        (asked(datatype=["FP32"]), "datatype is"),
        (asked(data=[1, 2]), r"data has the shape \[2\]"),
        (asked(data=None), "neither data"),
        (asked(data=["a"] * 12), "data must be numbers"),
        (asked(data=[[1, 2], [3]]), "data must be numbers"),
        (asked(data=[10**400] * 12), "data must be numbers"),
        (asked(parameters=3), "parameters of the input"),
        (asked(parameters={"binary_data_size": 48}), "0 bytes follow the JSON"),
        (asked(parameters={"binary_data_size": "48"}), "binary_data_size is 48"),
        (asked() | {"outputs": [{"name": "masks"}]}, "there is no output 'masks'"),
        (asked() | {"outputs": "boxes"}, "outputs must be a list"),
        (asked() | {"id": 3}, "id must be a text"),
    ],
)
def test_mistakes_are_sentences(body: dict[str, Any] | bytes, said: str) -> None:
    with pytest.raises(BadRequest, match=said) as found:
        read(body)
    assert found.value.status == 400


@pytest.mark.parametrize("length", ["-1", "x", "9999999", "", "1e3"])
def test_a_wrong_length_of_the_json(length: str) -> None:
    with pytest.raises(BadRequest, match="Inference-Header-Content-Length"):
        read(asked(), length=length)


def test_bytes_that_nobody_announced() -> None:
    with pytest.raises(BadRequest, match="no input has binary_data_size"):
        read(asked(), behind=b"1234")


def test_answers_have_what_was_asked_for() -> None:
    outputs = {"boxes": torch.tensor([[1.5, float("nan")]]), "scores": torch.tensor([[0.1]])}
    request = read(asked() | {"id": "7", "outputs": [{"name": "scores", "parameters": {"binary_data": True}}]})
    body, length = write_response("net", "1", request, outputs)
    assert length is not None
    answer = json.loads(body[:length])
    assert answer["id"] == "7" and [each["name"] for each in answer["outputs"]] == ["scores"]
    assert np.frombuffer(body[length:], np.float32).tolist() == pytest.approx([0.1])
    body, length = write_response("net", "1", read(asked()), outputs)
    answer = json.loads(body)
    assert length is None and answer["outputs"][0]["data"] == [1.5, "nan"] and answer["outputs"][1]["shape"] == [1, 1]
