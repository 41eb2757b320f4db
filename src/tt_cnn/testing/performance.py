# SPDX-License-Identifier: Apache-2.0
"""Device-performance tests, declared: which model, how fast it should be, how far off it may be."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tt_cnn.testing.device_time import DeviceTime, measured

VARIABLE = "TT_CNN_DEVICE_TIME"
"""A file into which the pytest plugin writes how long the devices of a run worked."""
SAMPLES_PER_SECOND = "AVG DEVICE KERNEL SAMPLES/S"
TIME_PER_RUN = "AVG DEVICE KERNEL DURATION [ns]"


@dataclass
class DevicePerformanceTestConfiguration:
    """What is run and what is expected of it.

    test_command is a pytest command line (`pytest models/unet/test.py::test_unet`), of which all device work is timed,
    or a callable that runs the model once on `device`.
    """

    model_name: str
    test_command: str | Callable[[], Any]
    batch_size: int
    expected_throughput_fps: float
    subdir: str | None = None
    num_iterations: int = 1
    margin: float = 0.02
    """How far from the expected value, to either side, the measured one may be: 0.02 is 2 %."""
    columns: list[str] | None = None
    inference_time_key: str = SAMPLES_PER_SECOND
    comments: str = ""
    device: Any = field(default=None, repr=False)
    warmup_iterations: int = 1
    """Runs of a callable before it is timed: the first one prepares weights."""

    def __post_init__(self) -> None:
        rules = (
            ("batch_size", self.batch_size >= 1, "at least 1"),
            ("num_iterations", self.num_iterations >= 1, "at least 1"),
            ("warmup_iterations", self.warmup_iterations >= 0, "0 or more"),
            ("expected_throughput_fps", self.expected_throughput_fps > 0, "more than 0"),
            ("margin", self.margin >= 0, "0 or more"),
            ("inference_time_key", self.inference_time_key in _KEYS, f"one of {', '.join(_KEYS)}"),
            ("device", isinstance(self.test_command, str) or self.device is not None, "the device that it runs on"),
        )
        for name, fine, meaning in rules:
            if not fine:
                raise ValueError(f"{name} is {getattr(self, name)!r}; it must be {meaning}")


_KEYS = (SAMPLES_PER_SECOND, TIME_PER_RUN)


def run_device_perf_test(config: DevicePerformanceTestConfiguration) -> dict[str, Any]:
    """Run the model and fail unless its device throughput is within the margin of the expected one.

    Gives `post_processed_results` (the throughput and the time of a run, and under `time` what kind of time it is) and
    `expected_results` (the bounds). On the virtual card the time is what its cost model predicts for a card.
    """
    run = config.test_command
    timed = _timed_command(run, config) if isinstance(run, str) else _timed_calls(run, config)
    if timed.seconds <= 0:
        raise RuntimeError(f"{config.model_name}: nothing ran on a device, so there is no time to check")
    seconds = timed.seconds / config.num_iterations
    results: dict[str, Any] = {
        SAMPLES_PER_SECOND: config.batch_size / seconds,
        TIME_PER_RUN: seconds * 1e9,
        "time": timed.label,
        "commands": timed.commands // config.num_iterations,
    }
    key = config.inference_time_key
    expected = config.expected_throughput_fps
    low, high = (1 - config.margin) * expected, (1 + config.margin) * expected
    bounds = {f"Lower Threshold {key}": low, f"Upper Threshold {key}": high}
    if not low <= results[key] <= high:
        raise AssertionError(
            f"{config.model_name}: {key} is {results[key]:.2f} ({timed.label}); it must be {expected:.2f} with a "
            f"margin of {config.margin:.1%}, from {low:.2f} to {high:.2f}"
        )
    report = {"model": config.model_name, "batch_size": config.batch_size, "comments": config.comments}
    return {"post_processed_results": results, "expected_results": bounds, **report}


def _timed_calls(run: Callable[[], Any], config: DevicePerformanceTestConfiguration) -> DeviceTime:
    for _ in range(config.warmup_iterations):
        run()
    with measured(config.device) as total:
        for _ in range(config.num_iterations):
            run()
    return total


def _timed_command(command: str, config: DevicePerformanceTestConfiguration) -> DeviceTime:
    """A pytest run in its own process, once for each iteration, with the plugin that times its devices."""
    words = shlex.split(command)
    if words[:1] == ["pytest"]:
        words = [sys.executable, "-m", *words]
    total = DeviceTime()
    for _ in range(config.num_iterations):
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder, "device_time.json")
            plugins = ",".join(filter(None, (os.environ.get("PYTEST_PLUGINS"), "tt_cnn.testing.plugin")))
            environment = {**os.environ, VARIABLE: str(report), "PYTEST_PLUGINS": plugins}
            done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                tail = "\n".join((done.stdout + done.stderr).splitlines()[-20:])
                raise RuntimeError(f"{config.model_name}: {command!r} ended with {done.returncode}:\n{tail}")
            if not report.exists():
                raise RuntimeError(f"{config.model_name}: {command!r} used no device fixture, so nothing was timed")
            noted = json.loads(report.read_text())
        total.seconds += noted["seconds"]
        total.commands += noted["commands"]
        total.label = noted["label"]
    return total
