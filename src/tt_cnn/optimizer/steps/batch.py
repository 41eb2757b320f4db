# SPDX-License-Identifier: Apache-2.0
"""The batch size, where the goal is images per second."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal

from tt_cnn.optimizer.search import Search
from tt_cnn.optimizer.steps.base import OptimizationStep, register_step


@register_step
class BatchStep(OptimizationStep):
    """Every batch size that the model is made for; what layers have goes along where the card takes it."""

    name = "batch"
    may_change = "images of an input, among the batch sizes that the model is made for"
    when: ClassVar[Literal["first", "rounds", "last"]] = "first"

    def run(self, search: Search) -> None:
        if search.goal != "throughput" or search.networks is None:
            return
        for size in search.networks.batch_sizes:
            deployment = replace(search.deployment, batch_size=size)
            if deployment == search.deployment:
                continue
            network = search.networks.network(size, search.deployment.chips)
            search.attempt_network(self.name, deployment, network, f"batch {size}")
