# SPDX-License-Identifier: Apache-2.0
"""What every model keeps: its gates, its place in L1, and the same outputs whichever way it is run.

The normal run takes one seed of each model, and computes pipelines and meshes for a small model; for the large ones
it plans them, and `long` computes them too.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from torch import nn

from tests.models.planning import forgetting, in_use, planned
from tt_cnn import ttnn
from tt_cnn.models import EXECUTORS, ModelEntry, create_pipeline, create_tt, list_models, model_entry
from tt_cnn.models.measurement import Measurement

MODELS = list_models()
CARDS = ("n150", "p150")
SMALL = "mobilenetv2"
PRECISIONS = ("tuned", "bfloat16")
Measured = Callable[..., Measurement]
References = Callable[[str, int], nn.Module]


def _large_ones_long(names: list[str]) -> list[Any]:
    return [name if name == SMALL else pytest.param(name, marks=pytest.mark.long) for name in names]


def _variants() -> list[Any]:
    """Every model in every precision, resolution and batch size; its first of each is not marked long."""
    found = []
    for name in MODELS:
        entry = model_entry(name)
        for variant in product(PRECISIONS, entry.resolutions, entry.batch_sizes):
            first = variant == ("tuned", entry.resolution, entry.batch_sizes[0])
            precision, (height, width), batch = variant
            label = f"{name}-{precision}-{batch}x{height}x{width}"
            found.append(pytest.param(name, *variant, marks=() if first else pytest.mark.long, id=label))
    return found


# --- gates ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "precision", "resolution", "batch_size"), _variants())
def test_every_model_reaches_its_gates(
    name: str, precision: str, resolution: tuple[int, int], batch_size: int, measured: Measured
) -> None:
    found = measured(name, precision=precision, resolution=resolution, batch_size=batch_size)
    assert found.passed, f"PCC {found.pcc} with gates {found.gates}"


@pytest.mark.long
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", MODELS)
def test_it_does_so_with_other_seeds(name: str, seed: int, precision: str, measured: Measured) -> None:
    found = measured(name, seed=seed, precision=precision)
    assert found.passed, f"PCC {found.pcc} with gates {found.gates}"


@pytest.mark.parametrize("name", MODELS)
def test_its_gates_are_those_of_its_outputs(name: str, measured: Measured) -> None:
    entry = model_entry(name)
    assert set(_first(measured, entry).pcc) == set(entry.gates)


# --- memory -----------------------------------------------------------------------------------------------------------

CONVOLUTION_STEPS = ("Conv2d", "Halo", "Matmul", "Pool2D")


@pytest.mark.parametrize("name", MODELS)
def test_activations_of_convolutions_are_in_l1(name: str, measured: Measured) -> None:
    """Weights are in DRAM; what a convolution or pool reads as its first tensor, and what it writes, is not."""
    commands = [c for c in _first(measured, model_entry(name)).commands if c.name.endswith(("conv2d", "pool2d"))]
    assert commands, "a convolutional model has convolutions"
    spilled = [
        f"{command.layer or command.name}: {placed.step.op} {slot.spec.memory_config}"
        for command in commands
        for placed in command.steps
        if placed.step.op in CONVOLUTION_STEPS
        for slot in (placed.step.inputs[0], *placed.step.outputs)
        if slot.spec.memory_config.buffer_type != ttnn.BufferType.L1
    ]
    assert not spilled


@pytest.fixture(scope="module", params=[f"{name} on {card}" for name, card in product(MODELS, CARDS)])
def plan(request: pytest.FixtureRequest) -> tuple[Any, torch.Tensor]:
    """A model as it is by default on a card that only plans, and pictures for it."""
    name, card = request.param.split(" on ")
    return planned(model_entry(name), card)


def test_calls_leave_nothing_behind(plan: tuple[Any, torch.Tensor]) -> None:
    with forgetting():
        _check_repeated_calls(*plan)


def test_a_call_fits_beside_the_outputs_of_the_last(plan: tuple[Any, torch.Tensor]) -> None:
    """As in `outputs = model(x)` in a loop, where the last ones are there until the call is done."""
    with forgetting():
        _check_held_outputs(*plan)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_it_fits_with_every_executor(plan: tuple[Any, torch.Tensor], executor: str) -> None:
    """With traces too, whose inputs and outputs stay where they are."""
    with forgetting():
        _check_pipeline(*plan, executor)


def _check_pipeline(model: Any, images: torch.Tensor, executor: str) -> None:
    inputs = [model.to_host_input(images) for _ in range(3)]
    before = in_use(model.device)
    with create_pipeline(model, executor) as pipeline:
        pipeline.compile(inputs[0])
        compiled = in_use(model.device)
        assert len(pipeline.enqueue(inputs).pop_all()) == len(inputs)
        assert in_use(model.device)["L1"] <= compiled["L1"]
    assert in_use(model.device)["L1"] <= before["L1"]


@pytest.mark.long
@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize(("name", "precision", "resolution", "batch_size"), _variants())
def test_every_variant_fits(card: str, name: str, precision: str, resolution: tuple[int, int], batch_size: int) -> None:
    options = {"precision": precision, "resolution": resolution, "batch_size": batch_size}
    _check_repeated_calls(*planned(model_entry(name), card, **options))


def _check_repeated_calls(model: Any, images: torch.Tensor) -> None:
    """Once weights are prepared, nothing grows."""
    placed = model.place(images)
    after = []
    for _ in range(3):
        outputs = model(placed)
        del outputs
        after.append(in_use(model.device))
    assert placed.is_allocated(), "the input belongs to the caller"
    assert after[0] == after[1] == after[2]


def _check_held_outputs(model: Any, images: torch.Tensor) -> None:
    placed = model.place(images)
    after, outputs = [], None
    for _ in range(4):
        outputs = model(placed)
        after.append(in_use(model.device)["L1"])
    assert outputs is not None and after[1:] == after[:-1]


# --- the same outputs every way ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", _large_ones_long(MODELS))
def test_all_executors_give_what_a_call_gives(name: str, measured: Measured, reference_of: References) -> None:
    entry = model_entry(name)
    images = [entry.example_input(seed=0), entry.example_input(seed=1)]
    expected: list[tuple[torch.Tensor, ...]] = [_first(measured, entry).outputs]
    for executor in EXECUTORS:
        device = ttnn.open_device(device_id=0, l1_small_size=entry.l1_small_size, num_command_queues=2, hazards="raise")
        try:
            model = create_tt(name, device, reference_of(name, 0))
            if len(expected) == 1:
                expected.append(model.to_torch(model(model.place(images[1]))))
            with create_pipeline(model, executor) as pipeline:
                pipeline.compile(model.to_host_input(images[1]))
                outputs = pipeline.enqueue([model.to_host_input(one) for one in images]).pop_all()
                found = [model.to_torch(one) for one in outputs]
        finally:
            ttnn.close_device(device)
        assert _same(found, expected), f"{executor} gives other values"


@pytest.mark.parametrize("name", _large_ones_long(MODELS))
def test_two_chips_give_what_one_gives(name: str, measured: Measured, reference_of: References) -> None:
    entry = model_entry(name)
    images = torch.cat([entry.example_input(seed=0), entry.example_input(seed=1)])
    mesh = ttnn.open_mesh_device(card="n300", l1_small_size=entry.l1_small_size)
    try:
        model = create_tt(name, mesh, reference_of(name, 0))
        both = model.to_torch(model(model.place(images)))
    finally:
        ttnn.close_mesh_device(mesh)
    device = ttnn.open_device(device_id=0, l1_small_size=entry.l1_small_size)
    try:
        model = create_tt(name, device, reference_of(name, 0))
        second = model.to_torch(model(model.place(images[1:])))
    finally:
        ttnn.close_device(device)
    parts = [tuple(one[i : i + 1] for one in both) for i in range(2)]
    assert _same(parts, [_first(measured, entry).outputs, second])


def _first(measured: Measured, entry: ModelEntry) -> Measurement:
    """The measurement of the gates' test in the normal run."""
    return measured(entry.name, precision="tuned", resolution=entry.resolution, batch_size=entry.batch_sizes[0])


def _same(found: list[tuple[torch.Tensor, ...]], expected: list[tuple[torch.Tensor, ...]]) -> bool:
    """Bit by bit."""
    return all(
        torch.equal(one, other)
        for ours, theirs in zip(found, expected, strict=True)
        for one, other in zip(ours, theirs, strict=True)
    )
