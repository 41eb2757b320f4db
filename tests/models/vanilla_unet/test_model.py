# SPDX-License-Identifier: Apache-2.0
"""The whole model: its gate, the shipped weights, and the steps that the real library takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.virtual.networks import test_unet
from tests.virtual.networks.noting import NotedTTNN, PlanOnlyCard
from tt_cnn.builder import concat, conv2d, conv_transpose2d, flow, max_pool2d, placement
from tt_cnn.models import create_reference, create_tt, model_entry, picture
from tt_cnn.models.measurement import Measurement, measure
from tt_cnn.models.vanilla_unet.tt import model as tt_model
from tt_cnn.testing import compare_layers

INPUT_BYTES = 28800
"""A core's part of the picture. The recorded program gave it back; a model may not."""


def test_the_tuned_model_reaches_its_gate(measured: Callable[..., Measurement]) -> None:
    found = measured("vanilla_unet", precision="tuned", resolution=(480, 640), batch_size=1)
    assert found.pcc["mask"] >= 0.977


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_bfloat16_model_reaches_0_99(seed: int, measured: Callable[..., Measurement]) -> None:
    assert measured("vanilla_unet", seed=seed, precision="bfloat16").pcc["mask"] >= 0.99


@pytest.mark.parametrize("card", ["n150", pytest.param("p150", marks=pytest.mark.long)])
def test_the_shipped_weights_give_torchs_mask(card: str) -> None:
    found = measure("vanilla_unet", shipped=True, card=card)
    assert found.pcc["mask"] >= 0.99


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_sixteen_features_reach_the_gate_too(seed: int) -> None:
    reference = create_reference("vanilla_unet", seed=seed, features=16)
    assert measure("vanilla_unet", seed=seed, reference=reference).passed


def test_it_takes_the_recorded_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table of the real library, line by line; at the end the mask moves out of the way of the next picture."""
    entry = model_entry("vanilla_unet")
    card = PlanOnlyCard(l1_small_size=entry.l1_small_size)
    noted = NotedTTNN(card)
    for module in (concat, flow, conv2d, conv_transpose2d, max_pool2d, picture, placement, tt_model):
        monkeypatch.setattr(module, "ttnn", noted)
    model = create_tt("vanilla_unet", card, entry.reference().eval())
    given = model.place(torch.zeros(1, 3, 480, 640))
    noted.notes.clear()
    model(given)
    expected = [line.split(" | ") for line in Path(test_unet.TABLE).read_text().splitlines()]
    *notes, last = noted.notes
    assert [(n.op, n.output) for n in notes] == [(op, output) for _, op, output, _, _ in expected]
    assert [n.l1_small for n in notes] == [int(row[4]) for row in expected]
    kept = [0] + [INPUT_BYTES] * (len(expected) - 2)
    recorded = [int(row[3]) + k for row, k in zip(expected[:-1], kept, strict=True)]
    less = [n.op for n, bytes_there in zip(notes[:-1], recorded, strict=True) if n.l1 < bytes_there]
    assert set(less) <= {"to_layout"} and len(less) <= 4, "the parts of a join are given back one by one as they change"
    assert not [n.op for n, bytes_there in zip(notes[:-1], recorded, strict=True) if n.l1 > bytes_there]
    assert last.op == "move"


@pytest.mark.long
def test_every_layer_is_near_the_references(unet: Any, device: Any) -> None:
    model = create_tt("vanilla_unet", device, unet)
    images = model_entry("vanilla_unet").example_input()
    names = {"bottleneck": "bottleneck"}
    names |= {f"encoders.{i}.block": f"encoder{i + 1}" for i in range(4)}
    names |= {f"decoders.{i}": f"decoder{4 - i}" for i in range(4)}
    report = compare_layers(unet, model, images, model.place(images), threshold=0.95, names=names)
    assert report.passed, str(report)


def test_widths_come_from_the_reference(device: Any) -> None:
    reference = model_entry("vanilla_unet").reference(features=16, out_channels=2).eval()
    model = create_tt("vanilla_unet", device, reference)
    assert model.bottleneck.conv2.configuration.out_channels == 16 * 16
    assert model.conv.configuration.out_channels == 2
