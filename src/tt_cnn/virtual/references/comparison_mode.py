# SPDX-License-Identifier: Apache-2.0
"""Comparison mode: each call of an op beside its golden function, on the same inputs (`ttnn.CONFIG`).

As in TT-NN, a call waits for its result, the golden function is computed in float32 on the inputs that the card has,
and a PCC under `comparison_mode_pcc` is logged, or raised where `comparison_mode_should_raise_exception` is set. Ops
inside a trace capture are not compared: they do not run.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from tt_cnn.virtual.devices.synchronization import command_queue
from tt_cnn.virtual.errors.card_error import current_layer
from tt_cnn.virtual.ops.layout.transfers import from_device
from tt_cnn.virtual.ops.operation import Call, Operation
from tt_cnn.virtual.references import GOLDEN, Golden
from tt_cnn.virtual.tensors.conversion import unpad
from tt_cnn.virtual.tensors.tensor import Tensor

log = logging.getLogger("tt_cnn.virtual")


@dataclass(frozen=True)
class OpComparison:
    """One call beside its golden function."""

    op: str
    layer: str
    pcc: float
    max_error: float
    passed: bool

    def __str__(self) -> str:
        return self.op + (f" of {self.layer!r}" if self.layer else "")


@dataclass
class OpReport:
    """The calls that were compared since comparison mode was turned on, in order."""

    threshold: float
    calls: list[OpComparison] = field(default_factory=list)
    without_golden: dict[str, int] = field(default_factory=dict)
    """Calls of ops that have no golden function."""

    @property
    def first_below(self) -> OpComparison | None:
        return next((call for call in self.calls if not call.passed), None)

    def __str__(self) -> str:
        rows = [("", "op", "layer", "PCC", "largest error")]
        for call in self.calls:
            mark = "►" if call is self.first_below else ("" if call.passed else "!")
            rows.append((mark, call.op, call.layer, f"{call.pcc:.6f}", f"{call.max_error:.4g}"))
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        first = self.first_below
        lines.append(
            f"{_all(len(self.calls))} PCC {self.threshold}"
            if first is None
            else f"► {first} is the first call under PCC {self.threshold}"
        )
        if self.without_golden:
            missing = ", ".join(f"{name} ({count})" for name, count in sorted(self.without_golden.items()))
            lines.append(f"not compared, because there is no golden function: {missing}")
        return "\n".join(lines)


class Comparison:
    """Takes calls, runs them, compares them."""

    def __init__(self, config: Any) -> None:
        self._config = config
        self._lock = threading.RLock()
        self._warned_of_trace = False
        self.report = OpReport(config.comparison_mode_pcc)

    def __call__(self, operation: Operation, call: Call) -> Any:
        golden = GOLDEN.get(operation.name)
        device = operation._device(call)
        if device.no_dispatch:
            return operation.run(call)
        if device.capturing is not None:
            self._warn_of_trace(operation)
            return operation.run(call)
        if golden is None:
            log.debug("ttnn.%s: not compared, it has no golden function", operation.name)
            self.report.without_golden[operation.name] = self.report.without_golden.get(operation.name, 0) + 1
            return operation.run(call)
        with self._lock, command_queue(call.queue):  # values are read where the call is ordered
            args, kwargs = call.given
            inputs = [(_on_chip(args, chip), _on_chip(kwargs, chip)) for chip in range(device.chips)]
            result = operation.run(call)
            self._compare(operation, call, golden, inputs, result)
        return result

    def _compare(self, operation: Operation, call: Call, golden: Any, inputs: list[Any], result: Any) -> None:
        for chip, (args, kwargs) in enumerate(inputs):
            try:
                expected = _expected(golden, call, chip, args, kwargs)
            except Exception as error:
                if self._config.comparison_mode_should_raise_exception:
                    raise
                log.warning("ttnn.%s: no golden output to compare with: %s", operation.name, error)
                continue
            for wanted, output in zip(expected, _tensors(result), strict=False):
                self._note(operation, wanted, _value(output, chip))

    def _note(self, operation: Operation, expected: torch.Tensor, actual: torch.Tensor) -> None:
        wanted = self.report.threshold = self._config.comparison_mode_pcc
        pcc, error = _agreement(expected, actual)
        noted = OpComparison(f"ttnn.{operation.name}", current_layer(), pcc, error, pcc >= wanted)
        first = not noted.passed and self.report.first_below is None
        self.report.calls.append(noted)
        if noted.passed:
            log.info("%s: pcc is %.6f", noted, pcc)
            return
        message = (
            f"ttnn.{operation.name}: Comparing output tensor 0 against CPU locally failed: pcc is {pcc} but should be "
            f">={wanted}"
        )
        where = f"  layer {noted.layer!r}, " if noted.layer else "  "
        message += f"\n{where}largest error {error:.4g}{'; the first call below the threshold' if first else ''}"
        if self._config.comparison_mode_should_raise_exception:
            raise RuntimeError(message)
        log.error(message)

    def _warn_of_trace(self, operation: Operation) -> None:
        if not self._warned_of_trace:
            self._warned_of_trace = True
            log.warning(
                "ttnn.%s: comparison mode is skipped for operations inside a metal trace capture, since their inputs "
                "and outputs cannot be read back until the trace runs",
                operation.name,
            )


def _expected(golden: Any, call: Call, chip: int, args: Any, kwargs: Any) -> list[torch.Tensor]:
    """One for each output; a convolution's prepared weights have none."""
    if not isinstance(golden, Golden):
        result = golden(*args, **kwargs)  # the user's own
    else:
        arguments = golden.arguments(args, kwargs)
        result = golden.function(**(arguments if golden.undo is None else golden.undo(call, arguments, chip)))
    return list(result) if isinstance(result, (list, tuple)) else [result]


def _value(tensor: Tensor, chip: int) -> torch.Tensor:
    """What a tensor holds on one chip, in float32."""
    values = from_device(tensor).host_values("comparison")
    value = unpad(values[chip if len(values) > 1 else 0], tensor.shape)
    return value.float() if value.is_floating_point() else value


def _on_chip(given: Any, chip: int) -> Any:
    """Arguments with one chip's values in the places of tensors."""
    if isinstance(given, Tensor):
        return _value(given, chip)
    if isinstance(given, dict):
        return {name: _on_chip(value, chip) for name, value in given.items()}
    if type(given) in (list, tuple):
        return type(given)(_on_chip(value, chip) for value in given)
    return given


def _tensors(result: Any) -> Iterator[Tensor]:
    """The op's own outputs come first, prepared weights after them."""
    if isinstance(result, Tensor):
        yield result
    elif isinstance(result, (list, tuple)):
        for one in result:
            yield from _tensors(one)


def _agreement(expected: torch.Tensor, actual: torch.Tensor) -> tuple[float, float]:
    """PCC and largest difference. Where one is constant there is no correlation: 1 where they are close, else 0."""
    if expected.numel() != actual.numel():
        return 0.0, float("inf")
    a, b = expected.double().reshape(-1), actual.double().reshape(-1)
    if not a.numel():
        return 1.0, 0.0
    same = torch.isclose(a, b, rtol=1e-5, atol=1e-4, equal_nan=True)
    both = a.isfinite() & b.isfinite()
    if not bool((both | same).all()):
        return 0.0, float("inf")
    a, b = a[both], b[both]
    error = float((a - b).abs().max()) if a.numel() else 0.0
    if a.numel() < 2 or float(a.std()) == 0 or float(b.std()) == 0:
        return float(bool(same.all())), error
    return min(1.0, float(torch.corrcoef(torch.stack((a, b)))[0, 1])), error


_last: Comparison | None = None


def switch(on: bool, config: Any) -> None:
    """Compare calls from here on, with a new report, or no more."""
    global _last
    if on:
        _last = Comparison(config)
    Operation.runner = _last if on else None


def report() -> OpReport:
    """What was compared since comparison mode was last turned on."""
    if _last is None:
        raise RuntimeError("nothing was compared: set ttnn.CONFIG.enable_comparison_mode = True before running")
    return _last.report


def _all(count: int) -> str:
    return "the only call reaches" if count == 1 else f"all {count} calls reach"
