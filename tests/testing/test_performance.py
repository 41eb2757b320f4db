# SPDX-License-Identifier: Apache-2.0
"""Device-performance tests: what is timed, what is expected, what is said."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tt_cnn import ttnn
from tt_cnn.testing import DevicePerformanceTestConfiguration, run_device_perf_test
from tt_cnn.testing import device_time as timing
from tt_cnn.testing.performance import SAMPLES_PER_SECOND, TIME_PER_RUN
from tt_cnn.virtual.cost.kernel import kernel_cost


@pytest.fixture
def model(card: Any) -> Callable[[], Any]:
    x = ttnn.from_torch(torch.randn(1, 1, 64, 64), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=card)
    return lambda: ttnn.relu(ttnn.relu(x))


def settings(model: Any, card: Any, **others: Any) -> DevicePerformanceTestConfiguration:
    given = {"model_name": "m", "test_command": model, "batch_size": 4, "expected_throughput_fps": 1.0, "device": card}
    return DevicePerformanceTestConfiguration(**{**given, **others})


@pytest.fixture
def nanoseconds(model: Any, card: Any) -> float:
    """What the cost model predicts for one call."""
    commands: list[Any] = []
    card.listeners.append(commands.append)
    model()
    card.listeners.remove(commands.append)
    steps = [placed.step for command in commands for placed in command.steps]
    assert len(steps) == 2
    return sum(kernel_cost(step, card.card).ns for step in steps)


def test_throughput_is_batch_over_predicted_time(model: Any, card: Any, nanoseconds: float) -> None:
    fps = 4 / nanoseconds * 1e9
    result = run_device_perf_test(settings(model, card, num_iterations=3, expected_throughput_fps=fps))
    found = result["post_processed_results"]
    assert found[SAMPLES_PER_SECOND] == pytest.approx(fps) and found[TIME_PER_RUN] == pytest.approx(nanoseconds)
    assert found["time"] == "kernel durations that the cost model predicts" and found["commands"] == 2
    assert result["expected_results"][f"Lower Threshold {SAMPLES_PER_SECOND}"] == pytest.approx(0.98 * fps)
    assert card.timers == []


@pytest.mark.parametrize("factor", [0.5, 1.1])
def test_too_slow_and_too_fast_fail(model: Any, card: Any, nanoseconds: float, factor: float) -> None:
    expected = factor * 4 / nanoseconds * 1e9
    with pytest.raises(AssertionError, match=rf"m: {SAMPLES_PER_SECOND} is [\d.]+ \(kernel durations"):
        run_device_perf_test(settings(model, card, expected_throughput_fps=expected))
    assert run_device_perf_test(settings(model, card, expected_throughput_fps=expected, margin=1.0))


def test_replays_of_a_trace_are_timed_and_transfers_are_not(card: Any, model: Any, nanoseconds: float) -> None:
    host = ttnn.from_torch(torch.randn(32, 32), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT)
    model()
    trace = ttnn.begin_trace_capture(card, cq_id=0)
    kept = model()
    ttnn.end_trace_capture(card, trace, cq_id=0)
    with timing.measured(card) as total:
        for _ in range(3):
            ttnn.execute_trace(card, trace, cq_id=0, blocking=False)
        ttnn.to_torch(ttnn.to_device(host, card))
    assert total.commands == 3 and total.seconds == pytest.approx(3 * nanoseconds / 1e9)
    with timing.measured(card) as total:
        inner = ttnn.begin_trace_capture(card, cq_id=0)
        other = model()
        ttnn.end_trace_capture(card, inner, cq_id=0)
        ttnn.execute_trace(card, inner, cq_id=0, blocking=True)
    assert total.commands == 1, "what is captured does not run"
    ttnn.execute_trace(card, trace, cq_id=0, blocking=True)
    assert total.commands == 1 and kept is not other
    with pytest.raises(RuntimeError, match="must exist"), timing.measured(card):
        ttnn.execute_trace(card, type(trace)(99), cq_id=0, blocking=True)


def test_a_real_card_is_timed_from_outside(card: Any, model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "is_virtual", lambda: False)
    with timing.measured(card) as total:
        time.sleep(0.01)
        model()
    assert total.label == "wall time until the device was synchronized" and total.seconds >= 0.01


def test_nothing_on_the_device_is_an_error(card: Any) -> None:
    with pytest.raises(RuntimeError, match="nothing ran on a device"):
        run_device_perf_test(settings(lambda: None, card))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"batch_size": 0}, "batch_size is 0; it must be at least 1"),
        ({"num_iterations": 0}, "num_iterations is 0"),
        ({"warmup_iterations": -1}, "warmup_iterations is -1"),
        ({"expected_throughput_fps": 0}, "expected_throughput_fps is 0; it must be more than 0"),
        ({"margin": -0.1}, "margin is -0.1"),
        ({"inference_time_key": "x"}, "inference_time_key is 'x'; it must be one of AVG DEVICE"),
        ({"device": None}, "device is None; it must be the device that it runs on"),
    ],
)
def test_wrong_settings_are_said(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message.replace(".", r"\.")):
        settings(print, 1, **wrong)


def test_a_pytest_command_is_timed_in_its_own_process(tmp_path: Path) -> None:
    test = tmp_path / "test_timed.py"
    test.write_text(
        "import torch\n"
        "from tt_cnn import ttnn\n"
        "def run(device):\n"
        "    x = ttnn.from_torch(torch.ones(32, 32), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)\n"
        "    ttnn.relu(x)\n"
        "def test_one(device):\n"
        "    run(device)\n"
        "def test_two(device):\n"
        "    run(device)\n"
        "def test_none():\n"
        "    pass\n"
        "def test_wrong():\n"
        "    assert False\n"
    )
    command = f"pytest -q -p no:cacheprovider -k 'one or two' {test}"
    limits = {"inference_time_key": TIME_PER_RUN, "expected_throughput_fps": 1e9, "margin": 1.0}
    found = run_device_perf_test(settings(command, None, **limits))["post_processed_results"]
    assert found["commands"] == 2 and 0 < found[TIME_PER_RUN] < 2e9
    with pytest.raises(RuntimeError, match="used no device fixture"):
        run_device_perf_test(settings(f"pytest -p no:cacheprovider -k none {test}", None))
    with pytest.raises(RuntimeError, match=r"(?s)ended with 1:.*assert False"):
        run_device_perf_test(settings(f"pytest -p no:cacheprovider -k wrong {test}", None))
