# SPDX-License-Identifier: Apache-2.0
"""The server over real sockets, with the clients that people have."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import pytest
import torch
from tritonclient import http as triton

from tests.optimizer.small_model import NAME, SIZE
from tests.serving.conftest import BODY_BYTES, INFER, MANY, Right, Served, images, request


def outputs_of(answer: dict[str, Any]) -> dict[str, torch.Tensor]:
    return {each["name"]: torch.tensor(each["data"]).reshape(each["shape"]) for each in answer["outputs"]}


def test_health_metadata_and_metrics(served: Served) -> None:
    with httpx.Client(base_url=served.url) as client:
        assert client.get("/v2").json()["name"] == "tt-cnn"
        assert client.get("/v2/health/live").status_code == client.get("/v2/health/ready").status_code == 200
        assert client.get(f"/v2/models/{NAME}/versions/1/ready").json()["ready"]
        found = client.get(f"/v2/models/{NAME}").json()
        assert found["inputs"] == [{"name": "images", "datatype": "FP32", "shape": [-1, 3, SIZE, SIZE]}]
        assert [each["shape"] for each in found["outputs"]] == [[-1, 32, SIZE, SIZE]] * 2
        client.post(INFER, json=request(images(1)))
        text = client.get("/metrics").text
        assert f'tt_cnn_requests_total{{model="{NAME}",status="200"}}' in text and "tt_cnn_request_seconds_sum" in text
        assert client.get("/v2/models/other").status_code == client.get("/v2/nothing").status_code == 404
        assert client.get(f"/v2/models/{NAME}/versions/2").status_code == 404
        assert client.get(INFER).status_code == 405


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_predictions_are_the_pipelines_bit_for_bit(served: Served, right: Right, count: int) -> None:
    given = images(count, seed=count)
    expected = right[count, count]
    answer = httpx.post(served.url + INFER, json=request(given) | {"id": "a"}, timeout=30)
    assert answer.status_code == 200 and answer.json()["id"] == "a"
    found = outputs_of(answer.json())
    assert all(torch.equal(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize("binary", [True, False])
def test_tritons_client(served: Served, right: Right, binary: bool) -> None:
    given = images(2, seed=9)
    client = triton.InferenceServerClient(served.address)
    try:
        assert client.is_server_ready() and client.is_model_ready(NAME)
        assert client.get_model_metadata(NAME)["platform"] == "tt-nn"
        tensor = triton.InferInput("images", list(given.shape), "FP32")
        tensor.set_data_from_numpy(given.numpy(), binary_data=binary)
        wanted = triton.InferRequestedOutput("right", binary_data=binary)
        found = client.infer(NAME, [tensor], outputs=[wanted])
        assert np.array_equal(found.as_numpy("right"), right[2, 9]["right"].numpy())
        assert found.as_numpy("left") is None
        everything = client.infer(NAME, [tensor])
        assert np.array_equal(everything.as_numpy("left"), right[2, 9]["left"].numpy())
        with pytest.raises(triton.InferenceServerException, match="there is no output"):
            client.infer(NAME, [tensor], outputs=[triton.InferRequestedOutput("middle")])
    finally:
        client.close()


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_curl(served: Served) -> None:
    command = ["curl", "-s", "-d", "@-", served.url + INFER]
    done = subprocess.run(command, input=json.dumps(request(images(1))), capture_output=True, text=True, check=True)
    assert {each["name"] for each in json.loads(done.stdout)["outputs"]} == {"left", "right"}


def test_requests_of_many_clients_go_through_together(served: Served, right: Right) -> None:
    given = [images(1, seed) for seed in range(MANY)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda one: patient_post(served, one), given))
    for seed, answer in enumerate(answers):
        assert torch.equal(outputs_of(answer)["left"], right[1, seed]["left"])
    figures = dict(line.rsplit(" ", 1) for line in httpx.get(served.url + "/metrics").text.splitlines())
    alone = float(figures[f'tt_cnn_batch_images_bucket{{le="1.0",model="{NAME}"}}'])
    assert alone < float(figures[f'tt_cnn_batch_images_count{{model="{NAME}"}}'])  # some runs had two images


def patient_post(served: Served, given: torch.Tensor) -> dict[str, Any]:
    for _ in range(200):
        answer = httpx.post(served.url + INFER, json=request(given), timeout=60)
        if answer.status_code == 200:
            found: dict[str, Any] = answer.json()
            return found
        assert answer.status_code == 429, answer.text
        time.sleep(0.02)
    raise AssertionError("never taken")


# -- what goes wrong


@pytest.mark.parametrize(
    ("content", "status", "said"),
    [
        (b"", 400, "no JSON"),
        (b"{" * 1000, 400, "no JSON"),
        (json.dumps(request(torch.zeros(1, 3, 8, 8))).encode(), 400, "must be"),
        (b" " * (BODY_BYTES + 1), 413, "more than"),
    ],
    ids=["empty", "no json", "shape", "too large"],
)
def test_bad_requests_are_the_clients(served: Served, content: bytes, status: int, said: str) -> None:
    answer = httpx.post(served.url + INFER, content=content)
    assert answer.status_code == status and said in answer.json()["error"]
    assert httpx.post(served.url + INFER, json=request(images(1))).status_code == 200


def raw(served: Served, text: bytes, shut: bool = False) -> bytes:
    host, port = served.address.split(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(text)
        if shut:
            connection.shutdown(socket.SHUT_WR)
        answer = b""
        while part := connection.recv(65536):
            answer += part
            if b"\r\n\r\n" in answer:
                break
        return answer


def test_a_body_that_never_ends_and_one_that_is_chunked_without_end(served: Served) -> None:
    slow = f"POST {INFER} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{{".encode()
    assert b" 408 " in raw(served, slow).split(b"\r\n")[0]
    part = b"10000\r\n" + b" " * 65536 + b"\r\n"
    chunked = f"POST {INFER} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode() + part * 17
    assert b" 413 " in raw(served, chunked).split(b"\r\n")[0]


def test_huge_headers_and_no_http(served: Served) -> None:
    assert b" 400 " in raw(served, b"GET /v2 HTTP/1.1\r\nX: " + b"a" * 100_000 + b"\r\n\r\n").split(b"\r\n")[0]
    assert b" 400 " in raw(served, b"\x16\x03\x01\x02\x00nonsense\r\n\r\n").split(b"\r\n")[0]
    assert httpx.get(served.url + "/v2/health/ready").status_code == 200
