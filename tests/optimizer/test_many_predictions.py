# SPDX-License-Identifier: Apache-2.0
"""Planning one assignment after the other on the same card."""

from __future__ import annotations

import itertools

import pytest

from tt_cnn import ttnn
from tt_cnn.builder.overrides import Assignment
from tt_cnn.optimizer.moves import moves_of
from tt_cnn.optimizer.prediction import PlannedNetwork, Prediction, Refusal, planned_network

FIDELITIES = (ttnn.MathFidelity.LoFi, ttnn.MathFidelity.HiFi2, ttnn.MathFidelity.HiFi3, ttnn.MathFidelity.HiFi4)


def all_ways(network: PlannedNetwork) -> list[Prediction | Refusal]:
    """Every fidelity with both formats of sums, in all convolutions."""
    layers = [name for name, own in network.configurations.items() if moves_of(name, own)]
    return [
        network.predict(
            Assignment(
                {key: {"math_fidelity": fidelity, "fp32_dest_acc_en": False, "packer_l1_acc": adds} for key in layers}
            )
        )
        for fidelity, adds in itertools.product(FIDELITIES, (True, False))
    ]


def test_tables_of_earlier_programs_do_not_refuse_later_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    with planned_network("vanilla_unet", "n150") as network:
        assert all(isinstance(each, Prediction) for each in all_ways(network))
    with planned_network("vanilla_unet", "n150") as network:
        monkeypatch.setattr(network.device, "clear_program_cache", lambda: None)
        assert any(isinstance(each, Refusal) and "L1_SMALL" in each.reason for each in all_ways(network))
