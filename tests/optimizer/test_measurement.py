# SPDX-License-Identifier: Apache-2.0
"""Measuring kernels: the logic, with a stand-in for the profiler of the real TT-NN. No card was there to try it on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.optimizer.fake_steps import Blocks
from tt_cnn import ttnn
from tt_cnn.builder import Conv2dConfiguration
from tt_cnn.builder.overrides import Assignment
from tt_cnn.models import create_tt, model_entry
from tt_cnn.optimizer.measurement import (
    DURATION,
    RUNS,
    VARIABLES,
    MeasuredNetwork,
    MeasuredNetworks,
    MeasurementUnavailable,
    check_profiler,
    kernel_durations,
    measured_networks,
)
from tt_cnn.optimizer.prediction import Prediction, Refusal, planned_network
from tt_cnn.optimizer.rounds import Rounds
from tt_cnn.optimizer.search import Search
from tt_cnn.reports.recording import PlanningCard
from tt_cnn.virtual.cost.kernel import kernel_cost
from tt_cnn.virtual.queues.queue import Command


class Profiler:
    """What TT-NN's device profiler gives for the commands since the last reading; the times are the predicted ones."""

    def __init__(self, device: PlanningCard) -> None:
        self.device, self.commands, self.read = device, list[Command](), list[float]()
        device.listeners.append(self.commands.append)

    def ReadDeviceProfiler(self, device: Any) -> None:
        assert device is self.device
        self.read = [kernel_cost(p.step, self.device.card).ns for c in self.commands for p in c.steps]
        self.commands.clear()

    def get_latest_programs_perf_data(self) -> dict[int, list[Any]]:
        programs = [
            SimpleNamespace(program_analyses_results={DURATION: SimpleNamespace(duration=ns)}) for ns in self.read
        ]
        return {0: programs, 1: programs[:1]}

    def __getattr__(self, name: str) -> Any:
        return getattr(ttnn, name)


@pytest.fixture
def network() -> Iterator[MeasuredNetwork]:
    entry = model_entry("vanilla_unet")
    device = PlanningCard("n150", entry.l1_small_size)
    model = create_tt(entry.name, device, entry.reference().eval())
    yield MeasuredNetwork(entry, model, Profiler(device))
    device.close()


def test_kernels_are_summed_and_refusals_told(network: MeasuredNetwork) -> None:
    measured = network.predict(Assignment())
    assert isinstance(measured, Prediction) and measured.steps > 80
    with planned_network("vanilla_unet", "n150") as planned:
        predicted = planned.predict(Assignment())
    assert isinstance(predicted, Prediction)
    assert measured.device_ns == pytest.approx(predicted.device_ns), "as the plan of the same model"
    slow = next(n for n, c in network.configurations.items() if isinstance(c, Conv2dConfiguration))
    refused = network.predict(Assignment({slow: {"groups": 7}}))
    assert isinstance(refused, Refusal)
    assert network.predict(Assignment()) is measured and network.predictions == 2
    assert RUNS > 1


def test_a_search_runs_on_measurements(network: MeasuredNetwork) -> None:
    search = Search.starting_from(network, only=("decoder1*",))
    Rounds(search, [Blocks()]).run()
    assert search.journal.attempts and {a.outcome for a in search.journal.attempts} <= {"kept", "taken back", "refused"}


def test_the_profiler_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MeasurementUnavailable, match="TT_METAL_DEVICE_PROFILER=1 TT_METAL_PROFILER_MID_RUN_DUMP=1"):
        check_profiler(SimpleNamespace())
    for name in VARIABLES:
        monkeypatch.setenv(name, "1")
    with pytest.raises(MeasurementUnavailable, match=r"no ttnn\.get_latest_programs_perf_data"):
        check_profiler(SimpleNamespace(ReadDeviceProfiler=None))
    check_profiler(SimpleNamespace(ReadDeviceProfiler=None, get_latest_programs_perf_data=None))


@pytest.mark.parametrize("given", [None, {}, {0: []}, {0: [SimpleNamespace(program_analyses_results=None)]}])
def test_a_profiler_that_gives_nothing_is_no_zero(given: Any) -> None:
    nothing: Callable[..., None] = lambda *_: None  # noqa: E731
    silent = SimpleNamespace(
        synchronize_device=nothing, ReadDeviceProfiler=nothing, get_latest_programs_perf_data=lambda: given
    )
    with pytest.raises(MeasurementUnavailable, match="gave no kernel durations"):
        kernel_durations(None, silent)


def test_the_virtual_card_is_not_measured() -> None:
    with (
        pytest.raises(MeasurementUnavailable, match="the virtual card is in use"),
        measured_networks("vanilla_unet", (480, 640), "tuned"),
    ):
        pass


def test_chips_are_those_that_are_open() -> None:
    card = SimpleNamespace(get_num_devices=lambda: 2)
    networks = MeasuredNetworks(model_entry("vanilla_unet"), card, None, (480, 640), "tuned")  # type: ignore[arg-type]
    assert networks.chip_counts == (2,)
    with pytest.raises(ValueError, match="1 cannot be measured"):
        networks.network(1, chips=1)
