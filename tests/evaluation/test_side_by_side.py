# SPDX-License-Identifier: Apache-2.0
"""Reference and card side by side: the figures of both, from the same pictures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tt_cnn.evaluation.chosen_data import data_set
from tt_cnn.evaluation.preparation import Placement, prepare
from tt_cnn.evaluation.side_by_side import classes_of, compare
from tt_cnn.evaluation.tasks import TASKS, boxes_of
from tt_cnn.models import EXECUTORS, ModelEntry, create_reference
from tt_cnn.models.running import RunningModel, opened_card, reference_outputs, running_model
from tt_cnn.testing import comp_pcc
from tt_cnn.virtual.devices.opening import open_devices


class Pictures:
    """Pictures with targets of one's own."""

    def __init__(self, *samples: tuple[np.ndarray, Any]) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[np.ndarray, Any]:
        return self.samples[index]


def striped(count: int) -> list[torch.Tensor]:
    """Pictures of the kind that the tutorial's model knows."""
    from stripes.reference.training import drawn_images

    images, _ = drawn_images(count, torch.Generator().manual_seed(6))
    return list(images.split(1))


@pytest.mark.parametrize("executor", EXECUTORS)
def test_every_executor_gives_the_reference_s_answers(stripes: ModelEntry, executor: str) -> None:
    reference = create_reference(stripes.name, shipped=True)
    images = striped(3)
    with running_model(stripes, reference, executor=executor) as running:
        found = running.run(images)
    assert len(found) == 3 and running.pictures == 3 and running.pictures_per_second > 0
    for image, (ours,) in zip(images, found, strict=True):
        (expected,) = reference_outputs(reference, image)
        assert comp_pcc(expected, ours, 0.99)[0] and expected.argmax() == ours.argmax()
    assert open_devices() == []


def test_two_chips_share_an_odd_number_of_pictures(stripes: ModelEntry) -> None:
    reference = create_reference(stripes.name, shipped=True)
    images = striped(3)
    with running_model(stripes, reference, card="n300") as running:
        assert running.model.chips == 2
        found = running.run(images)
    for image, (ours,) in zip(images, found, strict=True):
        (expected,) = reference_outputs(reference, image)
        assert comp_pcc(expected, ours, 0.99)[0] and expected.argmax() == ours.argmax()


def test_figures_of_a_classifier(stripes: ModelEntry) -> None:
    from stripes.reference.training import drawn_images

    reference = create_reference(stripes.name, shipped=True)
    images, labels = drawn_images(10, torch.Generator().manual_seed(2))
    uint8 = (images * 255).byte().permute(0, 2, 3, 1).numpy()
    wrong = [int(label) for label in labels]
    wrong[0] = (wrong[0] + 1) % 4
    seen = []
    with running_model(stripes, reference) as running:
        result = compare(
            stripes,
            reference,
            running,
            Pictures(*zip(uint8, wrong, strict=True)),
            count=10,
            classes=4,
            progress=seen.append,
        )
    with torch.no_grad():
        answers = reference(torch.from_numpy(uint8).permute(0, 3, 1, 2) / 255).argmax(1).tolist()
    right = sum(answer == label for answer, label in zip(answers, wrong, strict=True))
    assert result.reference["top-1"] == pytest.approx(10 * right) and right < 10
    assert result.differences()["top-1"] == 0 and result.agreement["top-1"] == 100 and result.differing == []
    assert 0.99 < result.pcc["scores"] <= 1
    assert seen == [8, 2] and result.pictures == 10


def test_figures_of_generated_pictures(stand_in: ModelEntry) -> None:
    reference = create_reference(stand_in.name)
    classes = classes_of(stand_in, reference, stand_in.resolution)
    data, source = data_set(stand_in, None, (), count=3, resolution=stand_in.resolution)
    with running_model(stand_in, reference) as running:
        result = compare(stand_in, reference, running, data, count=3, classes=classes)
    task = TASKS[stand_in.task]
    metric = task.metric(classes)
    for index in range(3):
        picture, target = data[index]
        image, placement = prepare(stand_in, picture)
        metric.add(task.judged(reference_outputs(reference, image), placement), target)
    assert result.reference == metric.results()
    assert set(result.card) == set(result.reference) and source == "generated images"
    assert min(result.pcc.values()) > 0.99


def test_pictures_that_nobody_knows_are_compared_with_the_reference(stripes: ModelEntry) -> None:
    reference = create_reference(stripes.name, shipped=True)
    data = Pictures((np.zeros((64, 64, 3), np.uint8), None), (np.full((80, 64, 3), 200, np.uint8), None))
    with running_model(stripes, reference) as running:
        result = compare(stripes, reference, running, data, count=5, classes=4)
    assert result.reference == result.card == {} and result.pictures == 2
    assert result.agreement["top-5"] == 100


def test_a_card_that_says_something_else_is_found_out(stripes: ModelEntry, monkeypatch: pytest.MonkeyPatch) -> None:
    reference = create_reference(stripes.name, shipped=True)
    monkeypatch.setattr(RunningModel, "run", lambda self, images: [(-reference(image),) for image in images])
    data = Pictures((np.zeros((64, 64, 3), np.uint8), None))
    with running_model(stripes, reference) as running, torch.no_grad():
        result = compare(stripes, reference, running, data, count=1, classes=4)
    assert result.agreement["top-1"] == 0 and result.differing == ["0000"]
    assert result.pcc["scores"] == pytest.approx(-1)


def test_both_forms_of_boxes_are_understood() -> None:
    corners = torch.tensor([[[[0.25, 0.5, 0.5, 1.0]], [[0.0, 0.0, 0.5, 0.25]]]])
    confidences = torch.tensor([[[0.9, 0.1], [0.2, 0.8]]])
    together = torch.tensor([[[48.0, 32.0], [72.0, 12.0], [32.0, 64.0], [48.0, 24.0], [0.9, 0.2], [0.1, 0.8]]])
    for outputs in ((corners.reshape(1, 2, 1, 4), confidences), (together,)):
        boxes, scores = boxes_of(outputs, (96, 128))
        assert torch.allclose(boxes, corners.reshape(2, 4)) and torch.allclose(scores, confidences[0])


def test_answers_are_told_in_words() -> None:
    placement = Placement.of((96, 128), (96, 128), "letterbox")
    outputs = (
        torch.tensor([[[[0.25, 0.5, 0.5, 1.0]], [[0.0, 0.0, 0.5, 0.25]]]]),
        torch.tensor([[[0.9, 0.1], [0.8, 0.2]]]),
    )
    detection = TASKS["detection"]
    found = detection.prediction(outputs, placement)
    assert found.corners.tolist() == [[32, 48, 64, 96], [0, 0, 64, 24]]
    assert detection.describe(found, ("disc", "star")) == "2 disc"
    assert detection.as_target(found).xywh.tolist() == [[32, 48, 32, 48], [0, 0, 64, 24]]
    assert detection.describe(detection.prediction(outputs, placement, 0.95), ("disc", "star")) == "nothing"
    mask = TASKS["segmentation"].prediction((torch.full((1, 1, 96, 128), 0.6),), placement)
    assert TASKS["segmentation"].describe(mask, ("cell",)) == "cell on 100.0% of the image"
    likely = TASKS["classification"].prediction((torch.tensor([[0.0, 9.0]]),), placement)
    assert TASKS["classification"].describe(likely, ("cat", "dog")) == "dog 100%, cat 0%"


def test_an_unknown_executor_or_card_is_refused(stripes: ModelEntry) -> None:
    with (
        pytest.raises(ValueError, match="executor is '3cq'; it must be one of plain, trace"),
        opened_card(stripes, executor="3cq"),
    ):
        pass
    with (
        pytest.raises(ValueError, match="the virtual cards are n150, n300, t3000, galaxy, p150"),
        opened_card(stripes, card="e75"),
    ):
        pass


def test_the_older_name_of_a_description_works_with_a_warning() -> None:
    likely = torch.tensor([0.0, 1.0])
    with pytest.warns(DeprecationWarning, match=r"told\(\) is now describe\(\)"):
        assert TASKS["classification"].told(likely, ("cat", "dog")) == "dog 100%, cat 0%"
