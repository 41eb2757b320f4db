# SPDX-License-Identifier: Apache-2.0
"""Tensors as the open inference protocol v2 has them: numbers in JSON, or bytes behind it.

With the extension for binary tensors a body is JSON, its length in the header `Inference-Header-Content-Length`, and
behind it the bytes of each tensor whose parameters have `binary_data_size`, in their order.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import torch

JSON_LENGTH = "Inference-Header-Content-Length"
DATATYPES = {"FP32": "<f4", "FP16": "<f2"}
"""What an input may be, and its bytes; outputs are FP32."""
OUTPUT = "FP32"


class BadRequest(ValueError):
    """The client's mistake, as a sentence, with the status that it gets."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Request:
    """What is asked of a model."""

    images: torch.Tensor
    id: str | None
    outputs: Mapping[str, bool]
    """The outputs that are wanted, and whether as bytes."""


def read_request(
    body: bytes, json_length: str | None, input_name: str, input_shape: Sequence[int], outputs: Sequence[str]
) -> Request:
    """`input_shape` is that of one image with its batch; the batch of a request may be any."""
    header, rest = _split(body, json_length)
    inputs = header.get("inputs")
    if not isinstance(inputs, list) or len(inputs) != 1 or not isinstance(inputs[0], dict):
        raise BadRequest(f"inputs must be a list of one tensor, {input_name!r}")
    (given,) = inputs
    if given.get("name") != input_name:
        raise BadRequest(f"the input is named {given.get('name')!r}; it must be {input_name!r}")
    images = _tensor(given, rest, tuple(input_shape[1:]))
    return Request(images, _id(header), _wanted(header, outputs))


def _split(body: bytes, json_length: str | None) -> tuple[dict[str, Any], bytes]:
    length = len(body)
    if json_length is not None:
        if not json_length.isdecimal() or int(json_length) > length:
            raise BadRequest(f"{JSON_LENGTH} is {json_length!r}; the body has {length} bytes")
        length = int(json_length)
    try:
        header = json.loads(body[:length])
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the request is no JSON: {error}") from error
    if not isinstance(header, dict):
        raise BadRequest("the request must be a JSON object with inputs")
    return header, body[length:]


def _id(header: Mapping[str, Any]) -> str | None:
    found = header.get("id")
    if found is not None and not isinstance(found, str):
        raise BadRequest("id must be a text")
    return found


def _parameters(of: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    found = of.get("parameters", {})
    if not isinstance(found, dict):
        raise BadRequest(f"parameters of {where} must be an object")
    return found


def _tensor(given: Mapping[str, Any], rest: bytes, image: tuple[int, ...]) -> torch.Tensor:
    wanted = f"[batch, {', '.join(map(str, image))}]"
    shape = given.get("shape")
    if not isinstance(shape, list) or not all(type(size) is int for size in shape):
        raise BadRequest(f"shape must be a list of whole numbers, {wanted}")
    if tuple(shape[1:]) != image or len(shape) != len(image) + 1 or shape[0] < 1:
        raise BadRequest(f"shape is {shape}; it must be {wanted}")
    datatype = given.get("datatype")
    if not isinstance(datatype, str) or datatype not in DATATYPES:
        raise BadRequest(f"datatype is {datatype!r}; it must be {' or '.join(DATATYPES)}")
    size = _parameters(given, "the input").get("binary_data_size")
    if size is None:
        if rest:
            raise BadRequest(f"{len(rest)} bytes follow the JSON, but no input has binary_data_size")
        return _from_numbers(given.get("data"), shape)
    values = np.dtype(DATATYPES[datatype])
    if type(size) is not int or size != prod(shape) * values.itemsize or size != len(rest):
        raise BadRequest(
            f"binary_data_size is {size} and {len(rest)} bytes follow the JSON; "
            f"{shape} in {datatype} are {prod(shape) * values.itemsize}"
        )
    return torch.from_numpy(np.frombuffer(rest, values).astype(np.float32)).reshape(shape)


def _from_numbers(data: Any, shape: list[int]) -> torch.Tensor:
    if not isinstance(data, list):
        raise BadRequest("the input has neither data, a list of numbers, nor binary_data_size")
    try:
        values = np.asarray(data, np.float32)
    except (ValueError, TypeError, OverflowError) as error:
        raise BadRequest(f"data must be numbers, flat or nested as the shape says: {error}") from error
    if list(values.shape) not in ([prod(shape)], shape):
        raise BadRequest(f"data has the shape {list(values.shape)}; it must be {shape}, or flat with {prod(shape)}")
    return torch.from_numpy(values).reshape(shape)


def _wanted(header: Mapping[str, Any], outputs: Sequence[str]) -> dict[str, bool]:
    binary = bool(_parameters(header, "the request").get("binary_data_output", False))
    asked = header.get("outputs")
    if asked is None or asked == []:
        return dict.fromkeys(outputs, binary)
    if not isinstance(asked, list) or not all(isinstance(each, dict) for each in asked):
        raise BadRequest("outputs must be a list of objects with a name")
    unknown = [each.get("name") for each in asked if each.get("name") not in outputs]
    if unknown:
        raise BadRequest(f"there is no output {unknown[0]!r}; there are {', '.join(outputs)}")
    return {each["name"]: bool(_parameters(each, each["name"]).get("binary_data", binary)) for each in asked}


def write_response(
    model: str, version: str, request: Request, outputs: Mapping[str, torch.Tensor]
) -> tuple[bytes, int | None]:
    """The body, and the length of its JSON where bytes follow it."""
    described, parts = [], []
    for name, binary in request.outputs.items():
        values = np.ascontiguousarray(outputs[name].detach().float().numpy().astype("<f4", copy=False))
        one: dict[str, Any] = {"name": name, "datatype": OUTPUT, "shape": list(values.shape)}
        if binary:
            parts.append(values.tobytes())
            one["parameters"] = {"binary_data_size": len(parts[-1])}
        else:
            one["data"] = [_as_json(value) for value in values.ravel().tolist()]
        described.append(one)
    answer: dict[str, Any] = {"model_name": model, "model_version": version, "outputs": described}
    if request.id is not None:
        answer["id"] = request.id
    text = json.dumps(answer).encode()
    return b"".join((text, *parts)), len(text) if parts else None


def _as_json(value: float) -> float | str:
    """JSON has no NaN and no infinity: they are texts there, which Python, JavaScript and others read as numbers."""
    return value if np.isfinite(value) else str(value)
