# SPDX-License-Identifier: Apache-2.0
"""The gate of the outputs: on which input it is measured, and what it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.bringup import small_nets
from tt_cnn.bringup import bring_up
from tt_cnn.bringup.accuracy import RUNGS, Accuracy, measure
from tt_cnn.bringup.bring_up import BringUp
from tt_cnn.bringup.codegen.files import entry_code
from tt_cnn.bringup.inputs import IMAGENET, Normalisation, example, three_numbers
from tt_cnn.bringup.source import model_source
from tt_cnn.builder.overrides import Assignment

AS_THEY_ARE = Normalisation((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))


def test_the_gate_is_what_is_asked_or_little_less_than_bfloat16_reaches() -> None:
    found = Accuracy({"near": 0.981, "far": 0.9}, {"near": 0.985, "far": 0.999}, 0.99)
    assert found.gate("near") == pytest.approx(0.98) and found.gate("far") == 0.99
    assert found.margin("near") > 0 > found.margin("far") and not found.passed
    assert Accuracy({"far": 0.9}, {}, 0.89).passed and not Accuracy({"far": 0.9}, {}, 0.91).passed


def lowered(**options: object) -> BringUp:
    work = BringUp(model_source(f"{Path(small_nets.__file__)}:SmallResNet"), (1, 3, 32, 32), **options)  # type: ignore[arg-type]
    work.load()
    work.lower()
    return work


def test_an_output_is_judged_on_the_input_where_it_is_worst() -> None:
    work = lowered()
    first, second = work.samples
    assert work.model is not None
    with work.entry() as entry:
        each = [measure(entry, work.model, [one], "n150", Assignment(), 0.0) for one in (first, second)]
        both = measure(entry, work.model, [first, second], "n150", Assignment(), 0.0)
        (output,) = both.pcc
        assert each[0].pcc != each[1].pcc
        assert both.pcc[output] == min(one.pcc[output] for one in each)
        assert not measure(entry, work.model, [first, second], "n150", Assignment(), 1.0).passed


def test_images_are_normalised_as_asked_from_the_statistics_to_the_entry() -> None:
    images = example((1, 3, 32, 32), normalisation=AS_THEY_ARE)
    assert images.min() >= 0 and images.max() <= 1
    work, usual = lowered(normalisation=AS_THEY_ARE), lowered()
    assert torch.equal(work.inputs[0], images) and not torch.equal(usual.inputs[0], images)
    assert not torch.equal(work.model.norm.running_mean, usual.model.norm.running_mean)  # type: ignore[union-attr]
    assert "mean=(0.0, 0.0, 0.0)" in entry_code(work.facts) and f"mean={IMAGENET.mean}" in entry_code(usual.facts)
    with work.entry() as entry:
        assert entry.mean == (0.0, 0.0, 0.0) and entry.std == (1.0, 1.0, 1.0)


def test_a_lower_gate_is_written_into_the_folder() -> None:
    work = lowered(min_pcc=0.9)
    work.fit()
    assert work.accuracy is not None and work.accuracy.passed
    assert set(work.facts.gates.values()) == {0.9}


def test_numbers_of_channels() -> None:
    assert three_numbers("0.5", "--mean") == (0.5, 0.5, 0.5)
    assert three_numbers("0.1,0.2,0.3", "--mean") == (0.1, 0.2, 0.3)
    for text in ("", "1,2", "a,b,c", "1,2,nan", "1,2,3,4"):
        with pytest.raises(ValueError, match="--mean is"):
            three_numbers(text, "--mean")
    with pytest.raises(ValueError, match="greater than 0"):
        Normalisation((0.0, 0.0, 0.0), (1.0, 0.0, 1.0))


def test_the_cheapest_arithmetic_with_room_to_spare_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"first": 0.991, "second": 0.9965, "third": 0.999}
    assert _arithmetic(monkeypatch, found) == "second"


def test_without_room_to_spare_it_is_the_most_accurate(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _arithmetic(monkeypatch, {"first": 0.98, "second": 0.992, "third": 0.991}) == "second"


def _arithmetic(monkeypatch: pytest.MonkeyPatch, pcc: dict[str, float]) -> str:
    """What is taken of arithmetics whose outputs have these PCC."""
    work = lowered()
    rungs = [replace(RUNGS[0], name=name) for name in pcc]
    measured = iter(pcc.values())
    monkeypatch.setattr(bring_up, "RUNGS", rungs)
    monkeypatch.setattr(bring_up, "measure", lambda *_: Accuracy({"output": next(measured)}, {}))
    work.fit()
    assert work.arithmetic is not None and work.accuracy is not None
    assert work.accuracy.pcc == {"output": pcc[work.arithmetic.name]}
    return work.arithmetic.name
