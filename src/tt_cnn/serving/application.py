# SPDX-License-Identifier: Apache-2.0
"""The routes of the open inference protocol v2, over models that are served."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from anyio import fail_after
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

import tt_cnn
from tt_cnn.serving.figures import Figures
from tt_cnn.serving.served import CannotUpdate, NotServed, Served, Signature
from tt_cnn.serving.tensors import JSON_LENGTH, OUTPUT, BadRequest, read_request, write_response

VERSION = "1"
"""Of every model: there is one at a time."""
PLATFORM = "tt-nn"


@dataclass(frozen=True)
class Limits:
    """What a client may ask for."""

    body_bytes: int
    body_seconds: float = 30.0
    """For the whole body to arrive."""


def application(models: Mapping[str, Served], figures: Figures, limits: Limits) -> Starlette:
    """The models are started with the application and stopped, once all that waits was answered, with it."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        for model in models.values():
            model.start()
        yield
        await asyncio.gather(*(run_in_threadpool(model.stop) for model in models.values()))

    routes = _Routes(models, figures, limits)
    one = "/v2/models/{model}"
    table = [Route("/v2", routes.server), Route("/v2/models", routes.listed), Route("/metrics", routes.metrics)]
    table += [Route("/v2/health/live", routes.live), Route("/v2/health/ready", routes.ready)]
    table.append(Route("/v2/repository/models/{model}/load", routes.load, methods=["POST"]))
    for path in (one, one + "/versions/{version}"):
        table.append(Route(path, routes.metadata))
        table.append(Route(f"{path}/ready", routes.model_ready))
        table.append(Route(f"{path}/infer", routes.infer, methods=["POST"]))
    errors: dict[Any, Callable[[HttpRequest, Exception], Awaitable[Response]]] = {
        BadRequest: _with_status,
        NotServed: _with_status,
        404: _not_found,
        405: _not_allowed,
    }
    return Starlette(routes=table, lifespan=lifespan, exception_handlers=errors)


def _described(name: str, shape: Sequence[int]) -> dict[str, Any]:
    """The first dimension is the batch, as many images as the client likes."""
    return {"name": name, "datatype": OUTPUT, "shape": [-1, *shape[1:]]}


def _error(message: str, status: int) -> JSONResponse:
    headers = {"Retry-After": "1"} if status in (429, 503) else None
    return JSONResponse({"error": message}, status, headers)


async def _with_status(request: HttpRequest, error: Exception) -> Response:
    assert isinstance(error, (BadRequest, NotServed))
    return _error(str(error), error.status)


async def _not_found(request: HttpRequest, error: Exception) -> Response:
    return _error(f"there is no {request.url.path}; /v2 says what there is", 404)


async def _not_allowed(request: HttpRequest, error: Exception) -> Response:
    return _error(f"{request.url.path} does not take {request.method}", 405)


class _Routes:
    def __init__(self, models: Mapping[str, Served], figures: Figures, limits: Limits) -> None:
        self.models, self.figures, self.limits = models, figures, limits

    def model(self, request: HttpRequest) -> Served:
        name, version = request.path_params["model"], request.path_params.get("version", VERSION)
        if name not in self.models:
            raise BadRequest(f"there is no model {name!r}; there are {', '.join(self.models)}", 404)
        if version != VERSION:
            raise BadRequest(f"there is no version {version!r} of {name}; there is {VERSION}", 404)
        return self.models[name]

    def signature(self, model: Served) -> Signature:
        if model.signature is None:
            raise NotServed(f"{model.name} is not ready: {model.reason}", 503)
        return model.signature

    async def server(self, request: HttpRequest) -> Response:
        return JSONResponse({"name": "tt-cnn", "version": tt_cnn.__version__, "extensions": ["binary_tensor_data"]})

    async def listed(self, request: HttpRequest) -> Response:
        found = [{"name": name, "state": model.state, "reason": model.reason} for name, model in self.models.items()]
        return JSONResponse({"models": found})

    async def metrics(self, request: HttpRequest) -> Response:
        return Response(generate_latest(self.figures.registry), media_type=CONTENT_TYPE_LATEST)

    async def live(self, request: HttpRequest) -> Response:
        return JSONResponse({"live": True})

    async def ready(self, request: HttpRequest) -> Response:
        waiting = {name: model.reason for name, model in self.models.items() if model.state != "ready"}
        return JSONResponse({"ready": not waiting, "waiting_for": waiting}, 503 if waiting else 200)

    async def model_ready(self, request: HttpRequest) -> Response:
        model = self.model(request)
        ready = model.state == "ready"
        return JSONResponse({"name": model.name, "ready": ready, "reason": model.reason}, 200 if ready else 503)

    async def metadata(self, request: HttpRequest) -> Response:
        model = self.model(request)
        signature = self.signature(model)
        return JSONResponse(
            {
                "name": model.name,
                "versions": [VERSION],
                "platform": PLATFORM,
                "inputs": [_described(signature.input_name, signature.input_shape)],
                "outputs": [_described(name, shape) for name, shape in signature.outputs.items()],
            }
        )

    async def load(self, request: HttpRequest) -> Response:
        model = self.model(request)
        try:
            await run_in_threadpool(model.update)
        except CannotUpdate as error:
            return _error(str(error), 409)
        return JSONResponse({"name": model.name, "state": model.state})

    async def infer(self, request: HttpRequest) -> Response:
        model = self.model(request)
        try:
            answer = await self._answered(request, model)
        except (BadRequest, NotServed) as error:
            answer = _error(str(error), error.status)
        except ClientDisconnect:
            answer = _error("the body ended before its Content-Length", 400)
        except Exception as error:  # of the card or the model
            answer = _error(f"{model.name} failed: {type(error).__name__}: {error}", 500)
        self.figures.requests.labels(model.name, str(answer.status_code)).inc()
        return answer

    async def _answered(self, request: HttpRequest, model: Served) -> Response:
        signature = self.signature(model)
        body = await self._body(request)
        began = time.perf_counter()
        length = request.headers.get(JSON_LENGTH)
        asked = await run_in_threadpool(
            read_request, body, length, signature.input_name, signature.input_shape, list(signature.outputs)
        )
        found = await asyncio.wrap_future(model.submit(asked.images))
        named = dict(zip(signature.outputs, found, strict=True))
        text, json_length = await run_in_threadpool(write_response, model.name, VERSION, asked, named)
        self.figures.request_seconds.labels(model.name).observe(time.perf_counter() - began)
        if json_length is None:
            return Response(text, media_type="application/json")
        return Response(text, headers={JSON_LENGTH: str(json_length)}, media_type="application/octet-stream")

    async def _body(self, request: HttpRequest) -> bytes:
        most = self.limits.body_bytes
        too_large = f"the body has more than {most} bytes, which --max-request-mb sets"
        said = request.headers.get("content-length", "")
        if said.isdecimal() and int(said) > most:
            raise BadRequest(too_large, 413)
        parts, size = [], 0
        try:
            with fail_after(self.limits.body_seconds):
                async for part in request.stream():
                    size += len(part)
                    if size > most:
                        raise BadRequest(too_large, 413)
                    parts.append(part)
        except TimeoutError as error:
            raise BadRequest(f"the body did not arrive within {self.limits.body_seconds:g} s", 408) from error
        return b"".join(parts)
