# SPDX-License-Identifier: Apache-2.0
"""`tt-cnn serve`: models behind HTTP."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tt_cnn.cli.console import errors, say
from tt_cnn.cli.model_options import Card, Executor, Precision, Weights, entry_of, precision_of
from tt_cnn.cli.ray_options import Ray, Threads, ray_place

if TYPE_CHECKING:
    from tt_cnn.serving.opening import Opening

Models = Annotated[
    list[str], typer.Argument(metavar="MODEL...", help="Models of the package, or your own as module:ENTRY.")
]
Host = Annotated[str, typer.Option("--host", help="The address to listen on; others than loopback reach the network.")]
Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes one that is free.")]
Batch = Annotated[
    int | None, typer.Option("--batch", min=1, help="Images of a run. [default: the largest that a model is tuned for]")
]
Waiting = Annotated[
    int, typer.Option("--queue", min=1, metavar="IMAGES", help="So many may wait for a model; more requests get 429.")
]
LongestWait = Annotated[
    float, typer.Option("--max-delay-ms", min=0, help="How long a batch that is not full waits for other requests.")
]
Size = Annotated[float, typer.Option("--max-request-mb", min=0.001, help="Larger requests get 413.")]
Numerics = Annotated[
    str | None,
    typer.Option("--numerics", help="Of a virtual card: device (as the card rounds), exact, native (fast)."),
]
Replicas = Annotated[
    int | None, typer.Option("--replicas", min=1, help="With --ray: copies of each model. [default: one for each card]")
]


def serve(
    models: Models,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    batch: Batch = None,
    queue: Waiting = 64,
    delay: LongestWait = 2.0,
    size: Size = 64.0,
    weights: Weights = None,
    card: Card = None,
    executor: Executor = "trace+2cq",
    precision: Precision = "tuned",
    numerics: Numerics = None,
    ray: Ray = None,
    replicas: Replicas = None,
    threads: Threads = None,
) -> None:
    """Serve models over HTTP, in the open inference protocol v2 (KServe's, Triton's).

    \b
    tt-cnn serve resnet50
    curl localhost:8000/v2/health/ready             200 once all models are warm
    curl localhost:8000/v2/models/resnet50          what goes in and what comes out
    curl -d @request.json localhost:8000/v2/models/resnet50/infer
    curl localhost:8000/metrics                     for Prometheus

    Requests of several clients go through a model together. Several models are a process and a card each; with --ray
    each is in as many copies, on cards of this machine or of a cluster. Ctrl-C or SIGTERM answers what waits, and ends.
    """
    from tt_cnn.serving.extra import check_installed

    check_installed()

    from tt_cnn.serving.application import Limits
    from tt_cnn.serving.figures import Figures
    from tt_cnn.serving.placement import Waiting as WaitingImages
    from tt_cnn.serving.placement import on_cluster, on_this_machine
    from tt_cnn.serving.server import run_server

    place = ray_place(ray, None, threads)
    if place is None and replicas is not None:
        raise typer.BadParameter("--replicas belongs to --ray, which is not there")

    options: dict[str, Any] = {"card": card, "executor": executor, "precision": precision_of(precision)}
    if numerics is not None:
        options["numerics"] = numerics
    openings: dict[str, Opening] = {}
    for model in models:
        name, opening = _opening(model, weights, batch, options)
        if name in openings:
            raise ValueError(f"{model}: there are two models with the name {name}")
        openings[name] = opening
    figures, waiting = Figures(), WaitingImages(queue, delay / 1000)

    def ready(listening: int) -> None:
        for name in openings:
            say(f"http://{host}:{listening}/v2/models/{name} is ready", console=errors)

    with ExitStack() as ends:
        if place is None:
            served = on_this_machine(openings, waiting, figures)
        else:
            cluster = ends.enter_context(place.connected())
            served = on_cluster(cluster, openings, waiting, figures, replicas=replicas, threads=place.threads)
        run_server(served, figures, Limits(round(size * 2**20)), host=host, port=port, on_ready=ready)
    say("all that waited was answered", console=errors)


def _opening(model: str, weights: str | None, batch: int | None, options: dict[str, Any]) -> tuple[str, Opening]:
    """Everything that a user may have got wrong is found here, before a card is opened."""
    from tt_cnn.evaluation.weights import chosen_weights
    from tt_cnn.serving.opening import Opening

    entry = entry_of(model)
    if entry.more_inputs:
        raise ValueError(f"{entry.title} takes {1 + len(entry.more_inputs)} inputs; a model with one can be served")
    size = batch or max(entry.batch_sizes)
    if size not in entry.batch_sizes:
        raise ValueError(f"--batch is {size}; {entry.title} is tuned for {' or '.join(map(str, entry.batch_sizes))}")
    say(f"{entry.title}: {chosen_weights(entry, weights).words}, {size} images a run", console=errors)
    return entry.name, Opening(model, size, weights, options)
