# SPDX-License-Identifier: Apache-2.0
"""Faults put back by hand are found: random programs show each, after the number of programs that is printed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.differential.checking import DEVICE, NARROW_STEPS, NATIVE, STEPS, IllConditioned, Setting, reference
from tests.differential.run import Tally, examine, programs
from tt_cnn.virtual.engines.replay import aten, ordinary
from tt_cnn.virtual.engines.replay.cuda.launches import Launches
from tt_cnn.virtual.engines.replay.graph import Node
from tt_cnn.virtual.engines.replay.kernels.lowering import FOREVER, Lowering
from tt_cnn.virtual.engines.replay.replay import Replay, run_commands
from tt_cnn.virtual.tracing.trace_memory import Loose

KERNELS, OPENVINO, _ = NATIVE
MOST = 150
"""Programs after which a fault must have shown."""

Fault = Callable[[pytest.MonkeyPatch], None]


def looked_up_when_it_runs(patch: pytest.MonkeyPatch) -> None:
    """Where a value is was looked up when a step ran: by then a later step's image had been planned for it."""

    def held(self: Lowering, node: Node) -> Any:
        return lambda: self._images[id(node)].tensor() if id(node) in self._images else self.values[id(node)]

    patch.setattr(Lowering, "_held", held)


def effects_twice(patch: pytest.MonkeyPatch) -> None:
    """A trace that is cut ran its commands when it was compiled, and then its parts."""

    def call(self: Replay) -> None:
        self._look_for_inputs()
        if not self._variable or not self._same_on_all_chips:
            return run_commands(self.commands)
        if not self.parts and not self._compile_whole():
            run_commands(self.commands)
            self.parts = self._in_parts()
        self._run_parts()

    patch.setattr(Replay, "__call__", call)


def memory_used_too_long(patch: pytest.MonkeyPatch) -> None:
    """Memory was given to something else while a step still had to read it."""
    right = Lowering._last_uses

    def uses(self: Lowering, outputs: Any) -> dict[int, int]:
        found = right(self, outputs)
        return {key: last if last == FOREVER else max(0, last - 2) for key, last in found.items()}

    patch.setattr(Lowering, "_last_uses", uses)


def parameters_ignored(patch: pytest.MonkeyPatch) -> None:
    """A function of the graph took fewer arguments than torch gives it."""
    patch.setitem(aten.TRANSLATIONS, "aten.softplus.default", lambda graph, x: graph.unary("Softplus", x))


def special_values_left_to_the_engine(patch: pytest.MonkeyPatch) -> None:
    """OpenVINO lost NaN in a fused Relu and in maxima."""
    patch.setattr(ordinary, "are_ordinary", lambda values: True)
    patch.setattr(ordinary, "are_finite", lambda values: True)


def channels_anywhere(patch: pytest.MonkeyPatch) -> None:
    """Kernels of the GPU took images that lie channels first for ones with channels last."""
    patch.setattr(Launches, "_channels_last", lambda self, node: node)


def addresses_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A trace whose input was freed and allocated again read what the former had held."""
    patch.setattr(Loose, "_take", lambda self, place, spec, capturing: None)
    patch.setattr(Loose, "written_over", lambda self, command: None)


@pytest.mark.parametrize(
    ("fault", "setting"),
    [
        (looked_up_when_it_runs, DEVICE),
        (looked_up_when_it_runs, KERNELS),
        (effects_twice, DEVICE),
        (effects_twice, KERNELS),
        (memory_used_too_long, DEVICE),
        (parameters_ignored, KERNELS),
        (special_values_left_to_the_engine, OPENVINO),
        (addresses_forgotten, DEVICE),
        (addresses_forgotten, KERNELS),
        (channels_anywhere, STEPS),
        (channels_anywhere, NARROW_STEPS),
    ],
    ids=lambda one: str(one) if isinstance(one, Setting) else one.__name__,
)
def test_a_fault_that_is_put_back_is_found(fault: Fault, setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)
    tally = Tally()
    for count, program in enumerate(programs(range(MOST), setting.numerics), 1):
        try:
            examine(program, setting, tally, reference(program) if setting.tolerance is not None else None)
        except IllConditioned:
            continue
        if tally.differences or tally.faults:
            print(f"{fault.__name__} on {setting}: found after {count} programs")
            return
    pytest.fail(f"{fault.__name__} does not show in {count} programs on {setting}")
