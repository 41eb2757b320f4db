# SPDX-License-Identifier: Apache-2.0
"""Trace and command queues: the executor behind which inputs follow each other quickest."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal

from tt_cnn.models.pipelines import EXECUTORS
from tt_cnn.optimizer.deployment import EndToEnd
from tt_cnn.optimizer.search import Search
from tt_cnn.optimizer.steps.base import OptimizationStep, register_step


@register_step
class PipelineStep(OptimizationStep):
    """All five executors with the best configuration, end to end."""

    name = "pipeline"
    may_change = "the executor: trace, second command queue, transfers on a queue of their own"
    when: ClassVar[Literal["first", "rounds", "last"]] = "last"

    def run(self, search: Search) -> None:
        predictor = search.predictor
        if not isinstance(predictor, EndToEnd):
            return
        first = search.deployment.executor
        best_ns = predictor.input_ns(search.best.assignment, first)
        search.note_deployment(self.name, search.deployment, best_ns, "", f"executor {first}: {_ms(best_ns)}")
        for executor in EXECUTORS:
            if executor == first:
                continue
            ns = predictor.input_ns(search.best.assignment, executor)
            against = f"{ns / best_ns - 1:+.1%} of {search.deployment.executor}" if ns >= best_ns else ""
            deployment = replace(search.deployment, executor=executor)
            search.note_deployment(self.name, deployment, ns, against, f"executor {executor}: {_ms(ns)}")
            best_ns = min(best_ns, ns)


def _ms(ns: float) -> str:
    return f"{ns / 1e6:.3f} ms from one input to the next"
