# SPDX-License-Identifier: Apache-2.0
"""Measurements of the models, each taken once in a session, and the table of them at its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from torch import nn

from tt_cnn.models import create_reference
from tt_cnn.models.measurement import Measurement, measure, measurement_table

MEASURED = pytest.StashKey[list[Measurement]]()


@pytest.fixture(scope="session")
def reference_of() -> Callable[[str, int], nn.Module]:
    """References by name and seed; making one measures its batch norms, which takes a while."""
    made: dict[tuple[str, int], nn.Module] = {}

    def get(name: str, seed: int = 0) -> nn.Module:
        if (name, seed) not in made:
            made[name, seed] = create_reference(name, seed=seed)
        return made[name, seed]

    return get


@pytest.fixture(scope="session")
def measured(pytestconfig: pytest.Config, reference_of: Callable[[str, int], nn.Module]) -> Callable[..., Measurement]:
    """`measure` with what was measured before remembered; the options are keywords."""
    taken: dict[tuple[Any, ...], Measurement] = {}

    def get(name: str, *, seed: int = 0, **options: Any) -> Measurement:
        key = (name, seed, *sorted(options.items()))
        if key not in taken:
            taken[key] = measure(name, seed=seed, reference=reference_of(name, seed), **options)
            pytestconfig.stash.setdefault(MEASURED, []).append(taken[key])
        return taken[key]

    return get


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    taken = config.stash.get(MEASURED, [])
    if taken:
        terminalreporter.section("models on the virtual card")
        for line in measurement_table(taken):
            terminalreporter.write_line(line)
