# SPDX-License-Identifier: Apache-2.0
"""`tt-cnn serve`: a model behind HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tt_cnn.cli.console import errors, say
from tt_cnn.cli.model_options import Card, Executor, Precision, Weights, entry_of, precision_of

if TYPE_CHECKING:
    from tt_cnn.models import ModelEntry
    from tt_cnn.serving.figures import Figures
    from tt_cnn.serving.served_model import ServedModel

Model = Annotated[str, typer.Argument(metavar="MODEL", help="A model of the package, or your own as module:ENTRY.")]
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


def serve(
    model: Model,
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
) -> None:
    """Serve a model over HTTP, in the open inference protocol v2 (KServe's, Triton's).

    \b
    tt-cnn serve resnet50
    curl localhost:8000/v2/health/ready             200 once the model is warm
    curl localhost:8000/v2/models/resnet50          what goes in and what comes out
    curl -d @request.json localhost:8000/v2/models/resnet50/infer
    curl localhost:8000/metrics                     for Prometheus

    Requests of several clients go through the model together. Ctrl-C or SIGTERM answers what waits, and ends. A process
    opens a card once, so that another model is another process, on another --port.
    """
    from tt_cnn.serving.extra import check_installed

    check_installed()

    from tt_cnn.serving.application import Limits
    from tt_cnn.serving.figures import Figures
    from tt_cnn.serving.server import run_server

    entry, figures = entry_of(model), Figures()
    options: dict[str, Any] = {"card": card, "executor": executor, "precision": precision_of(precision)}
    if numerics is not None:
        options["numerics"] = numerics
    served = _served(entry, figures, queue, delay / 1000, weights, batch, options)

    def ready(listening: int) -> None:
        say(f"http://{host}:{listening}/v2/models/{entry.name} is ready", console=errors)

    run_server({entry.name: served}, figures, Limits(round(size * 2**20)), host=host, port=port, on_ready=ready)
    say("all that waited was answered", console=errors)


def _served(
    entry: ModelEntry,
    figures: Figures,
    queue: int,
    wait: float,
    weights: str | None,
    batch: int | None,
    options: dict[str, Any],
) -> ServedModel:
    from tt_cnn.evaluation.weights import reference_with
    from tt_cnn.models.running import running_model
    from tt_cnn.serving.served_model import ServedModel

    if entry.more_inputs:
        raise ValueError(f"{entry.title} takes {1 + len(entry.more_inputs)} inputs; a model with one can be served")
    size = batch or max(entry.batch_sizes)
    if size not in entry.batch_sizes:
        raise ValueError(f"--batch is {size}; {entry.title} is tuned for {' or '.join(map(str, entry.batch_sizes))}")
    reference, whose = reference_with(entry, weights)
    say(f"{entry.title}: {whose}, {size} images a run", console=errors)
    example = entry.example_input(batch_size=1)
    return ServedModel(
        entry.name, lambda: running_model(entry, reference, batch_size=size, **options), example, figures, queue, wait
    )
