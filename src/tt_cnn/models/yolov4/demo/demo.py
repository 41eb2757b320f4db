# SPDX-License-Identifier: Apache-2.0
"""Find the shapes in a drawn image on the card: `python -m tt_cnn.models.yolov4.demo.demo`."""

from __future__ import annotations

import torch

from tt_cnn.evaluation.drawn_data import DetectionShapes
from tt_cnn.models import create_reference, model_entry
from tt_cnn.models.running import reference_outputs, running_model
from tt_cnn.testing import comp_pcc

NAME = "yolov4"
SURE = 0.5
"""Confidence from which on a box is printed."""


def main() -> dict[str, float]:
    """Prints how the card's outputs compare with PyTorch's and what both are sure of; returns the PCCs."""
    entry = model_entry(NAME)
    reference = create_reference(NAME, shipped=True)
    picture, _ = DetectionShapes("val")[0]
    images = entry.normalize(torch.from_numpy(picture).permute(2, 0, 1)[None] / 255)
    with running_model(entry, reference) as running:
        (found,) = running.run([images])
    expected = reference_outputs(reference, images)
    pcc = {
        name: float(comp_pcc(golden, value)[1])
        for name, golden, value in zip(running.model.outputs, expected, found, strict=True)
    }
    print(f"{entry.title}: PCC with PyTorch " + ", ".join(f"{value:.4f} for {name}" for name, value in pcc.items()))
    for who, (boxes, confidences) in (("the card", found), ("PyTorch", expected)):
        print(f"what {who} is sure of:")
        for line in _sure(boxes[0, :, 0], confidences[0], images.shape[-1]):
            print(f"  {line}")
    return pcc


def _sure(boxes: torch.Tensor, confidences: torch.Tensor, size: int) -> list[str]:
    """The box of each class that is surest, where it is sure enough."""
    lines = []
    for number, name in enumerate(DetectionShapes.class_names):
        confidence, best = confidences[:, number].max(dim=0)
        if confidence > SURE:
            corners = ", ".join(f"{value * size:.0f}" for value in boxes[best].tolist())
            lines.append(f"{name} {float(confidence):.2f} at ({corners})")
    return lines


if __name__ == "__main__":
    main()
