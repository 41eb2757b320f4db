# SPDX-License-Identifier: Apache-2.0
"""Several chips: whether dealing out images over all of them pays, transfers included."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal

from tt_cnn.optimizer.search import Search
from tt_cnn.optimizer.steps.base import OptimizationStep, register_step


@register_step
class DevicesStep(OptimizationStep):
    """One chip and all chips of the card, by images per second end to end. A card with one chip has no choice."""

    name = "devices"
    may_change = "how many chips of the card the images are distributed over"
    when: ClassVar[Literal["first", "rounds", "last"]] = "last"

    def run(self, search: Search) -> None:
        networks = search.networks
        if networks is None or len(networks.chip_counts) == 1:
            return
        now = search.deployment
        ways = [now, *(replace(now, chips=chips) for chips in networks.chip_counts if chips != now.chips)]
        best_ns = float("inf")
        for deployment in ways:
            network = networks.network(deployment.batch_size, deployment.chips)
            ns = network.input_ns(search.best.assignment, deployment.executor)
            per_image = ns / deployment.images
            against = f"{per_image / best_ns - 1:+.1%} for an image" if per_image >= best_ns else ""
            chips = f"all {deployment.chips} chips" if deployment.chips > 1 else "one chip"
            words = f"{chips}: {1e9 / per_image:.0f} images/s end to end"
            search.note_deployment(self.name, deployment, ns, against, words)
            if not against:
                best_ns = per_image
                search.predictor = network
