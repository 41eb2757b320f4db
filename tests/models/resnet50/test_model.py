# SPDX-License-Identifier: Apache-2.0
"""The whole model: its gates, its places in L1, its names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.models.planning import PlanningCard
from tt_cnn import ttnn
from tt_cnn.models import model_entry
from tt_cnn.models.measurement import measure
from tt_cnn.models.resnet50.reference.model import ResNet50
from tt_cnn.models.resnet50.tt.model import TtResNet50
from tt_cnn.testing import assert_with_pcc, compare_layers

PCC = {"tuned": 0.98, "bfloat16": 0.99}
Calibrated = Callable[[int], ResNet50]


def test_the_tuned_model_reaches_its_gate(resnet50: ResNet50) -> None:
    found = measure("resnet50", reference=resnet50)
    assert found.pcc["logits"] >= PCC["tuned"]


@pytest.mark.long
@pytest.mark.parametrize("precision", PCC)
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_other_seeds_reach_it_too(seed: int, precision: Any, calibrated: Calibrated) -> None:
    found = measure("resnet50", seed=seed, precision=precision, reference=calibrated(seed))
    assert found.pcc["logits"] >= PCC[precision]


@pytest.mark.long
@pytest.mark.parametrize("precision", PCC)
@pytest.mark.parametrize("batch_size", [8, 16])
@pytest.mark.parametrize("card", ["n150", "p150"])
def test_batches_reach_it_too(card: str, batch_size: int, precision: Any, resnet50: ResNet50) -> None:
    found = measure("resnet50", card=card, batch_size=batch_size, precision=precision, reference=resnet50)
    assert found.pcc["logits"] >= PCC[precision]


@pytest.mark.long
def test_32_pictures_on_a_blackhole(resnet50: ResNet50, open_device: Callable[..., Any]) -> None:
    images = model_entry("resnet50").example_input(batch_size=32)
    model = TtResNet50(resnet50, open_device("p150"), batch_size=32)
    logits = model.to_torch(model(model.place(images)))[0]
    with torch.no_grad():
        assert_with_pcc(resnet50(images), logits, PCC["tuned"])


@pytest.mark.long
def test_every_layer_is_near_the_references(resnet50: ResNet50, open_device: Callable[..., Any]) -> None:
    """One after the other, each with what the ones before it gave. 1x1 and 3x3 convolutions end in a ReLU."""
    model = TtResNet50(resnet50, open_device())
    images = model_entry("resnet50").example_input()
    names = {"stem.maxpool": "maxpool", "head.fc": "fc"}
    for number, blocks in enumerate((3, 4, 6, 3), start=1):
        names |= {f"layer{number}.blocks.{index}": f"layer{number}.{index}" for index in range(blocks)}
    report = compare_layers(resnet50, model, images, model.place(images), threshold=0.93, names=names)
    assert report.passed, str(report)


# --- memory -----------------------------------------------------------------------------------------------------------


def _planned(card: str, batch_size: int) -> list[Any]:
    """The commands of a call, once weights are prepared."""
    device = PlanningCard(card, model_entry("resnet50").l1_small_size)
    model = TtResNet50(ResNet50().eval(), device, batch_size=batch_size)
    placed = model.place(torch.zeros(batch_size, 3, 224, 224))
    model(placed)
    with device.record_commands() as commands:
        model(placed)
    return commands


@pytest.mark.parametrize(("card", "batch_size"), [("n150", 16), ("p150", 16), ("p150", 32)])
def test_large_batches_stay_in_l1(card: str, batch_size: int) -> None:
    """Only weights and biases come from DRAM, and nothing goes there."""
    commands = _planned(card, batch_size)
    steps = [placed.step for command in commands for placed in command.steps]
    dram = ttnn.BufferType.DRAM
    assert not [step.op for step in steps for slot in step.outputs if slot.spec.memory_config.buffer_type == dram]
    assert not [step.op for step in steps if step.inputs[0].spec.memory_config.buffer_type == dram]


def test_summands_lie_on_the_same_cores() -> None:
    """Elsewhere the addition would have to fetch one of them."""
    for card, batch_sizes in (("n150", (1, 8, 16)), ("p150", (1, 8, 16, 32))):
        for batch_size in batch_sizes:
            additions = [c for c in _planned(card, batch_size) if c.name == "ttnn.add"]
            assert len(additions) == 16
            for command in additions:
                first, second = (slot.spec.memory_config for slot in command.steps[0].step.inputs)
                assert first == second, f"{card}, {batch_size}: {first} and {second}"


def test_a_batch_that_is_not_tuned_is_refused(open_device: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match="batch_size is 32; on this card it must be 1 or 8 or 16"):
        TtResNet50(ResNet50().eval(), open_device("n150"), batch_size=32)


# --- names ------------------------------------------------------------------------------------------------------------


def test_names_and_shapes_are_those_of_the_public_checkpoint() -> None:
    """320 tensors, 25,557,032 parameters, under torchvision's names."""
    model = ResNet50()
    state = model.state_dict()
    assert len(state) == 320 and sum(p.numel() for p in model.parameters()) == 25_557_032
    some = {
        "conv1.weight": (64, 3, 7, 7),
        "bn1.running_var": (64,),
        "layer1.0.downsample.0.weight": (256, 64, 1, 1),
        "layer1.0.downsample.1.num_batches_tracked": (),
        "layer3.5.conv2.weight": (256, 256, 3, 3),
        "layer4.2.bn3.bias": (2048,),
        "fc.weight": (1000, 2048),
    }
    assert {name: tuple(state[name].shape) for name in some} == some


def test_strides_are_in_the_3x3_convolutions() -> None:
    model = ResNet50()
    assert model.layer3[0].conv1.stride == (1, 1) and model.layer3[0].conv2.stride == (2, 2)
