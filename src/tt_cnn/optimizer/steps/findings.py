# SPDX-License-Identifier: Apache-2.0
"""The step that tries what the rules of all advice propose for the model as it is now."""

from __future__ import annotations

from tt_cnn.builder.overrides import Assignment
from tt_cnn.optimizer.findings import find_in_model
from tt_cnn.optimizer.prediction import PlannedNetwork
from tt_cnn.optimizer.search import Candidate, Search
from tt_cnn.optimizer.steps.base import OptimizationStep, register_step


@register_step
class FindingsStep(OptimizationStep):
    """Findings of the best so far that keep all values, the one that saves most first.

    Those that change values are the precision step's, which weighs them all together.
    """

    name = "findings"
    may_change = "what the findings of a profile advise without changing values: shardings, blocks, buffers, DRAM"

    def run(self, search: Search) -> None:
        network = search.predictor
        if not isinstance(network, PlannedNetwork):  # measured models have no plans to look at
            return
        profile = find_in_model(network, start=search.best.assignment)
        candidates = [
            Candidate(Assignment.from_dict(one.changes), f"{one.layer} {one.problem}: {one.advice}")
            for one in profile.findings or ()
            if one.changes and one.lossless and all(search.may_change(layer) for layer in one.changes)
        ]
        search.attempt_in_turn(self.name, [lambda: candidates])
