# SPDX-License-Identifier: Apache-2.0
"""Steps for tests of the driver: small, quick, and registered only while a test runs."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import ClassVar

from tt_cnn.builder import Conv2dConfiguration, HeightShardedStrategyConfiguration
from tt_cnn.optimizer.search import Candidate, Search
from tt_cnn.optimizer.steps.base import STEPS, OptimizationStep, register_step


class Blocks(OptimizationStep):
    """Heights of blocks, one layer after the other."""

    name = "fake_blocks"
    may_change = "heights of blocks"
    heights: ClassVar[tuple[int, ...]] = (32, 64, 128, 256)

    def run(self, search: Search) -> None:
        for layer in search.layers(Conv2dConfiguration):
            for height in self.heights:
                strategy = search.configuration(layer).sharding_strategy  # type: ignore[attr-defined]
                if isinstance(strategy, HeightShardedStrategyConfiguration):
                    changed = {"sharding_strategy": replace(strategy, act_block_h_override=height)}
                    search.attempt(self.name, Candidate({layer: changed}, f"{layer}: blocks of {height}"))


class Chance(OptimizationStep):
    """Something at random, forever."""

    name = "fake_chance"
    may_change = "double buffers and halos"

    def run(self, search: Search) -> None:
        layers = search.layers(Conv2dConfiguration)
        while True:
            layer = search.random.choice(layers)
            setting = search.random.choice(("enable_act_double_buffer", "reallocate_halo_output"))
            value = search.random.random() < 0.5
            search.attempt(self.name, Candidate({layer: {setting: value}}, f"{layer}: {setting} {value}"))


class Faulty(OptimizationStep):
    """Betters something, then fails."""

    name = "fake_faulty"
    may_change = "one thing"

    def run(self, search: Search) -> None:
        Blocks().run(search)
        raise ZeroDivisionError("planted")


class CtrlC(OptimizationStep):
    """The user interrupts in the midst of it."""

    name = "fake_ctrl_c"
    may_change = "nothing"

    def run(self, search: Search) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(100_000):
            pass
        raise AssertionError("the interrupt did not come")


class Lossy(OptimizationStep):
    """Lowers the fidelity of everything."""

    name = "fake_lossy"
    may_change = "fidelity"

    def run(self, search: Search) -> None:
        from tt_cnn import ttnn

        for layer in search.layers(Conv2dConfiguration):
            changed = {layer: {"math_fidelity": ttnn.MathFidelity.LoFi}}
            search.attempt(self.name, Candidate(changed, f"{layer}: LoFi", lossless=False))


class Thief(OptimizationStep):
    """Changes what it may not."""

    name = "fake_thief"
    may_change = "everything"

    def run(self, search: Search) -> None:
        layer = next(name for name in search.predictor.configurations if not search.may_change(name))
        search.attempt(self.name, Candidate({layer: {"reallocate_halo_output": True}}, layer))


ALL = (Blocks, Chance, Faulty, CtrlC, Lossy, Thief)


@contextmanager
def registered() -> Iterator[None]:
    for step in ALL:
        register_step(step)
    try:
        yield
    finally:
        for step in ALL:
            del STEPS[step.name]
