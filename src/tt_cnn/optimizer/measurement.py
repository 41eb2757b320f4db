# SPDX-License-Identifier: Apache-2.0
"""Kernels measured on a card: the same search with the real TT-NN in place of plans.

This has NOT been run on a card: none was there when it was written. What it calls is documented by TT-NN: the device
profiler gives the kernels' durations through `ttnn.ReadDeviceProfiler` and `ttnn.get_latest_programs_perf_data`, which
needs a build with the profiler and three environment variables set before TT-NN is imported. Its logic is tested with a
stand-in for these two functions. Where TT-NN lacks them, or they give nothing, it refuses to go on: wall-clock times of
single ops are those of the host.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import torch

from tt_cnn import runtime, ttnn
from tt_cnn.builder.configuration import Configuration
from tt_cnn.builder.layer import layer_that_failed
from tt_cnn.builder.overrides import Assignment, with_settings
from tt_cnn.models.pipelines import EXECUTORS, create_pipeline
from tt_cnn.models.registry import ModelEntry, Resolution, create_reference, create_tt, model_entry
from tt_cnn.models.running import opened_card
from tt_cnn.models.tt_model import TtModel, is_blackhole
from tt_cnn.optimizer.deployment import FIRST_EXECUTOR, Deployment
from tt_cnn.optimizer.networks import Rebuilt
from tt_cnn.optimizer.prediction import Prediction, Refusal
from tt_cnn.virtual.arch import card_by_name

VARIABLES = ("TT_METAL_DEVICE_PROFILER", "TT_METAL_PROFILER_MID_RUN_DUMP", "TT_METAL_PROFILER_CPP_POST_PROCESS")
"""All of them must be 1 before TT-NN is imported, or the profiler gives nothing."""
DURATION = "DEVICE KERNEL DURATION [ns]"
"""The profiler's name of what `Prediction.device_ns` sums up."""
RUNS = 5
"""Of each configuration; the median counts."""
NOISE = 0.03
"""Share by which two measurements of the same configuration are taken to differ."""
STREAMED = 32
"""Inputs that are streamed for the time from one to the next."""


class MeasurementUnavailable(RuntimeError):
    """Kernels cannot be measured here, and why."""


def check_profiler(module: Any = ttnn) -> None:
    """Refuse where kernels cannot be measured."""
    unset = [name for name in VARIABLES if os.environ.get(name) != "1"]
    if unset:
        raise MeasurementUnavailable(
            f"kernels are measured with TT-NN's device profiler, which needs {' '.join(f'{n}=1' for n in unset)} in "
            "the environment; TT_CNN_RUNTIME=virtual searches by predicted times instead"
        )
    missing = [n for n in ("ReadDeviceProfiler", "get_latest_programs_perf_data") if not hasattr(module, n)]
    if missing:
        raise MeasurementUnavailable(
            f"this TT-NN has no ttnn.{missing[0]}, so kernels cannot be measured; TT_CNN_RUNTIME=virtual searches by "
            "predicted times instead"
        )


def kernel_durations(device: Any, module: Any = ttnn) -> list[float]:
    """Nanoseconds of each program since the last reading, on the chip that took longest."""
    module.synchronize_device(device)
    module.ReadDeviceProfiler(device)
    chips: list[list[float]] = []
    for programs in (module.get_latest_programs_perf_data() or {}).values():
        results = [getattr(program, "program_analyses_results", None) or {} for program in programs]
        chips.append([float(one[DURATION].duration) for one in results if DURATION in one])
    durations = max(chips, key=sum, default=[])
    if not durations:
        raise MeasurementUnavailable(
            "the device profiler gave no kernel durations: TT-NN must be built with it "
            "(build_metal.sh --enable-profiler)"
        )
    return durations


class MeasuredNetwork:
    """A model on a card: a `Predictor` that measures. A chip's L1 is not known, so the goal cannot be memory."""

    def __init__(self, entry: ModelEntry, model: TtModel, module: Any = ttnn) -> None:
        self.entry, self.model, self.module = entry, model, module
        self.card = card_by_name("p150" if is_blackhole(model.device) else "n150")
        self.configurations: Mapping[str, Configuration] = {
            name: layer.configuration for name, layer in model.layers.items()
        }
        self.predictions = 0
        self._known: dict[Assignment, Prediction | Refusal] = {}
        batch = model.batch_size * model.chips
        self._images = entry.example_input(batch_size=batch, resolution=model.resolution)

    def predict(self, assignment: Assignment) -> Prediction | Refusal:
        """The median of several runs' kernels; the first run compiles and does not count."""
        if assignment not in self._known:
            self.predictions += 1
            self._known[assignment] = self._measure(assignment)
        return self._known[assignment]

    def input_ns(self, assignment: Assignment, executor: str = FIRST_EXECUTOR) -> float:
        """Wall-clock time from one input to the next, over a stream of them."""
        self._configure(assignment)
        host_input = self.model.to_host_input(self._images)
        with create_pipeline(self.model, executor) as pipeline:
            pipeline.compile(host_input)
            list(pipeline.stream([host_input] * 2))
            start = time.perf_counter_ns()
            list(pipeline.stream([host_input] * STREAMED))
            return (time.perf_counter_ns() - start) / STREAMED

    def _measure(self, assignment: Assignment) -> Prediction | Refusal:
        totals: list[float] = []
        steps = 0
        try:
            self._configure(assignment)
            for run in range(RUNS + 1):
                self._call()
                durations = kernel_durations(self.model.device, self.module)
                if run:
                    totals.append(sum(durations))
                    steps = len(durations)
        except MeasurementUnavailable:
            raise
        except (RuntimeError, ValueError, TypeError) as error:
            return Refusal(str(error).split("\n")[0], layer_that_failed(error))
        # layer times are not known: the profiler knows programs, and nothing says whose layer's they are
        return Prediction(median(totals), steps, {}, 0, self.model.batch_size * self.model.chips)

    def _configure(self, assignment: Assignment) -> None:
        for name, layer in self.model.layers.items():
            configuration = with_settings(self.configurations[name], assignment.get(name, {}), name)
            if configuration != layer.configuration:
                layer.configure(configuration)

    def _call(self) -> None:
        placed = self.model.place(self._images)
        outputs = self.model(placed)
        for tensor in outputs if isinstance(outputs, (tuple, list)) else (outputs,):
            self.module.deallocate(tensor)
        if placed.is_allocated():
            self.module.deallocate(placed)


@dataclass
class MeasuredNetworks:
    """The model on the card that is open, in its batch sizes."""

    entry: ModelEntry
    device: Any
    reference: torch.nn.Module
    resolution: Resolution
    precision: Any
    tolerance: float = NOISE
    _made: dict[int, MeasuredNetwork] = field(default_factory=dict)

    @property
    def batch_sizes(self) -> tuple[int, ...]:
        return self.entry.batch_sizes

    @property
    def chips(self) -> int:
        return int(self.device.get_num_devices())

    @property
    def chip_counts(self) -> tuple[int, ...]:
        """The card is opened once, with all its chips."""
        return (self.chips,)

    def network(self, batch_size: int = 1, chips: int | None = None) -> MeasuredNetwork:
        if chips not in (None, self.chips):
            raise ValueError(f"the card is open with {self.chips} chips; {chips} cannot be measured")
        if batch_size not in self._made:
            self._made[batch_size] = MeasuredNetwork(self.entry, self._model(batch_size, Assignment()))
        return self._made[batch_size]

    def rebuilt(self, assignment: Assignment, deployment: Deployment) -> Rebuilt | Refusal:
        try:
            network = MeasuredNetwork(self.entry, self._model(deployment.batch_size, assignment))
        except (RuntimeError, ValueError, TypeError) as error:
            return Refusal(str(error).split("\n")[0])
        measured = network.predict(Assignment())
        if isinstance(measured, Refusal):
            return measured
        return Rebuilt(measured, network.input_ns(Assignment(), deployment.executor))

    def _model(self, batch_size: int, config: Assignment) -> TtModel:
        return create_tt(
            self.entry.name,
            self.device,
            self.reference,
            resolution=self.resolution,
            batch_size=batch_size,
            precision=self.precision,
            config=config,
        )


@contextmanager
def measured_networks(
    name: str, resolution: Resolution, precision: str, reference: torch.nn.Module | None = None
) -> Iterator[MeasuredNetworks]:
    """The card opened for a model, with two command queues, so that every executor can be measured."""
    if runtime.is_virtual():
        raise MeasurementUnavailable("the virtual card is in use: it has no kernels to measure, only predicted times")
    check_profiler()
    entry = model_entry(name)
    widest = max(EXECUTORS, key=lambda executor: EXECUTORS[executor].num_command_queues)
    weights = create_reference(name) if reference is None else reference
    with opened_card(entry, executor=widest) as device:
        yield MeasuredNetworks(entry, device, weights, resolution, precision)
