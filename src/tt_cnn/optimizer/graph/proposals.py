# SPDX-License-Identifier: Apache-2.0
"""A search over the graph of a model's calls as the model is configured at present."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from tt_cnn.builder.configuration import Configuration
from tt_cnn.builder.overrides import Assignment
from tt_cnn.optimizer.graph.calls import read_graph
from tt_cnn.optimizer.graph.dynamic import BEAM, Proposal, Solver
from tt_cnn.optimizer.graph.options import CandidatesOf, layouts_and_blocks, options_of
from tt_cnn.optimizer.graph.plans import Plans
from tt_cnn.optimizer.prediction import Prediction, Refusal
from tt_cnn.reports.recording import Recorded
from tt_cnn.virtual.devices.device import MeshDevice


@runtime_checkable
class RecordingPredictor(Protocol):
    """A predictor whose model can be watched while it is planned."""

    device: MeshDevice
    configurations: Mapping[str, Configuration]

    def predict(self, assignment: Assignment) -> Prediction | Refusal: ...

    def record(self, assignment: Assignment) -> Sequence[Recorded]: ...


def propose(
    predictor: RecordingPredictor,
    assignment: Assignment,
    configurations: Mapping[str, Configuration],
    plans: Plans,
    candidates: CandidatesOf = layouts_and_blocks,
    beam: int = BEAM,
) -> Proposal | None:
    """Settings that make the model faster by the reckoning of its recorded calls.

    `configurations` has the layers that may change, as the assignment has them. `plans` are kept from one proposal to
    the next. None where the recorded way cannot be followed.
    """
    graph = read_graph(predictor.record(assignment), predictor.device)
    options = options_of(graph, configurations, plans, candidates)
    return Solver(graph, plans, options, predictor.device.memory, beam).solve()
