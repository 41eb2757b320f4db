# SPDX-License-Identifier: Apache-2.0
"""Fixtures for all tests: cards that are closed again, and small ops that need no others."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis
import pytest
import torch

from tests.virtual.stand_in import StandIn
from tt_cnn.virtual import ttnn
from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.devices.opening import open_devices
from tt_cnn.virtual.ops.operation import OPERATIONS, Call, Operation, op
from tt_cnn.virtual.planning.plan import CircularBuffer
from tt_cnn.virtual.tensors.tensor import OPERATORS

hypothesis.settings.register_profile("steady", derandomize=True)
hypothesis.settings.register_profile("exploring")
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))
"""The same examples in every run, so that a failure comes from a change; `exploring` draws new ones."""

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # a shell ignores Ctrl-C for what it runs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def same_models() -> Iterator[None]:
    """Models that a test registers are unknown to the next one."""
    before = dict(_known_models())
    yield
    models = _known_models()
    models.clear()
    models.update(before)


def _known_models() -> dict[str, Any]:
    registry = sys.modules.get("tt_cnn.models.registry")  # most tests never import it
    return {} if registry is None else registry._ENTRIES


@pytest.fixture
def open_card() -> Iterator[Callable[..., MeshDevice]]:
    """Opens cards for one test; all of them are closed after it."""
    yield lambda **options: ttnn.open_device(device_id=0, **options)
    for device in open_devices():
        ttnn.close_device(device)


@pytest.fixture
def card(open_card: Callable[..., MeshDevice]) -> MeshDevice:
    return open_card(l1_small_size=65536)


@pytest.fixture
def two_queues(open_card: Callable[..., MeshDevice]) -> MeshDevice:
    return open_card(num_command_queues=2, hazards="raise")


class _Plus(Operation):
    """x + 1 on a new buffer, through a temporary where `temporary` says so."""

    def arguments(self, x: Any, *, temporary: bool = False, queue_id: int | None = None) -> Call:
        return Call([x], queue=queue_id, temporary=temporary)

    def plan(self, planner: Any, x: Any, temporary: bool) -> list[Any]:
        source = x
        if temporary:
            source = planner.allocate(x.spec)
            planner.dispatch(StandIn(op="TestCopy", cores=planner.grid), [x], [source])
        output = planner.allocate(x.spec)
        buffer = CircularBuffer(2 * x.spec.page_bytes, planner.grid)
        planner.dispatch(StandIn(op="TestPlus", cores=planner.grid, buffers=(buffer,)), [source], [output])
        if temporary:
            planner.free(source)
        return [output]

    def numbers(self, context: Any, x: torch.Tensor, temporary: bool) -> list[torch.Tensor]:
        return [x + 1]


class _Into(Operation):
    """A copy of x into a tensor that exists."""

    def arguments(self, x: Any, y: Any, *, queue_id: int | None = None) -> Call:
        return Call([x, y], queue=queue_id)

    def plan(self, planner: Any, x: Any, y: Any) -> list[Any]:
        planner.dispatch(StandIn(op="TestInto", cores=planner.grid), [x], [y])
        return [y]

    def numbers(self, context: Any, x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        return [x]


class _Move(_Plus):
    """x + 1; the input's memory is given back."""

    def plan(self, planner: Any, x: Any, temporary: bool) -> list[Any]:
        output = planner.allocate(x.spec)
        planner.dispatch(StandIn(op="TestMove", cores=planner.grid), [x], [output])
        planner.consume(x)
        return [output]


class _Bump(Operation):
    """x + 1 in place."""

    def arguments(self, x: Any) -> Call:
        return Call([x])

    def plan(self, planner: Any, x: Any) -> list[Any]:
        planner.dispatch(StandIn(op="TestBump", cores=planner.grid), [x], [x])
        return [x]

    def numbers(self, context: Any, x: torch.Tensor) -> list[torch.Tensor]:
        return [x + 1]


class _Wide(_Plus):
    """x + 1, with circular buffers in all of L1."""

    def plan(self, planner: Any, x: Any, temporary: bool) -> list[Any]:
        output = planner.allocate(x.spec)
        buffer = CircularBuffer(planner.card.l1_size - planner.card.l1_base - 64, planner.grid)
        planner.dispatch(StandIn(op="TestWide", cores=planner.grid, buffers=(buffer,)), [x], [output])
        return [output]


class _View(Operation):
    """The same memory as another tensor."""

    def arguments(self, x: Any) -> Call:
        return Call([x])

    def plan(self, planner: Any, x: Any) -> list[Any]:
        return [planner.view(x, x.spec)]

    def numbers(self, context: Any, x: torch.Tensor) -> list[torch.Tensor]:
        raise NotImplementedError


class _Broken(_Plus):
    """Numbers that fail, on the queue's worker."""

    def numbers(self, context: Any, x: torch.Tensor, temporary: bool) -> list[torch.Tensor]:
        raise ArithmeticError("broken numbers")


_TOYS = {
    "plus": _Plus,
    "into": _Into,
    "move": _Move,
    "bump": _Bump,
    "wide": _Wide,
    "view": _View,
    "broken": _Broken,
}


class Toys:
    """The small ops, as attributes."""

    plus: Operation
    into: Operation
    move: Operation
    bump: Operation
    wide: Operation
    view: Operation
    broken: Operation


@pytest.fixture
def toys() -> Iterator[Toys]:
    made = Toys()
    for name, cls in _TOYS.items():
        op(f"test_{name}")(cls)
        setattr(made, name, OPERATIONS[f"test_{name}"])
    yield made
    for name in _TOYS:
        del OPERATIONS[f"test_{name}"]
        OPERATORS.pop(f"test_{name}", None)


@pytest.fixture
def tensor() -> Callable[..., Any]:
    """A tiled bfloat16 tensor of one value, on the host or on a device."""

    def make(device: MeshDevice | None = None, value: float = 0.0, shape: Any = (1, 1, 32, 64), **options: Any) -> Any:
        options = {"dtype": ttnn.bfloat16, "layout": ttnn.TILE_LAYOUT, **options}
        return ttnn.from_torch(torch.full(shape, value), device=device, **options)

    return make
