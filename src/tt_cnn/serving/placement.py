# SPDX-License-Identifier: Apache-2.0
"""Where served models run: one in this process, several in a process each, or all in copies on a cluster."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from tt_cnn.serving.figures import Figures
from tt_cnn.serving.model_process import model_process
from tt_cnn.serving.opening import Opening
from tt_cnn.serving.served import Served
from tt_cnn.serving.served_model import ServedModel

if TYPE_CHECKING:
    from tt_cnn.distributed.cluster import Cluster


@dataclass(frozen=True)
class Waiting:
    images: int
    """That may wait for a model, or for each copy of it."""
    seconds: float
    """That a batch that is not full waits for others."""


def on_this_machine(openings: Mapping[str, Opening], waiting: Waiting, figures: Figures) -> dict[str, Served]:
    """One model in a thread of this process; several in a process each, since a process opens a card once."""
    served: dict[str, Served] = {}
    for number, (name, opening) in enumerate(openings.items()):
        opens = opening.opened if len(openings) == 1 else partial(model_process, opening, visible_card=number)
        example = opening.entry().example_input(batch_size=1)
        served[name] = ServedModel(name, opens, example, figures, waiting.images, waiting.seconds)
    return served


def on_cluster(
    cluster: Cluster,
    openings: Mapping[str, Opening],
    waiting: Waiting,
    figures: Figures,
    *,
    replicas: int | None,
    threads: int,
) -> dict[str, Served]:
    """Every model in copies; without a number as many as there are cards and cores for."""
    from tt_cnn.distributed.cluster import ClusterUnusable
    from tt_cnn.distributed.extra import require
    from tt_cnn.serving.replica import ReplicaSettings
    from tt_cnn.serving.replicated_model import PURPOSE, ReplicatedModel

    most = cluster.actors(None, threads) // len(openings)
    if not 1 <= (replicas or most) <= most:
        asked = replicas or 1
        raise ClusterUnusable(
            f"--replicas is {asked}, which is {asked * len(openings)} cards for all models; the cluster at "
            f"{cluster.address} has cards and cores for {cluster.actors(None, threads)}"
        )
    copies = replicas or most
    serve = require("ray.serve", PURPOSE)
    logging.getLogger("ray.serve").setLevel(logging.ERROR)
    serve.start(proxy_location="Disabled", logging_config={"log_level": "ERROR"})
    return {
        name: ReplicatedModel(
            ReplicaSettings(name, opening, copies * waiting.images, waiting.seconds, threads), copies, figures
        )
        for name, opening in openings.items()
    }
