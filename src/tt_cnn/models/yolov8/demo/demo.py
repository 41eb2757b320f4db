# SPDX-License-Identifier: Apache-2.0
"""An image through YOLOv8 on the card and in PyTorch: `python -m tt_cnn.models.yolov8.demo.demo [yolov8x]`."""

from __future__ import annotations

import sys

import torch

from tt_cnn.models import create_reference, model_entry
from tt_cnn.models.running import reference_outputs, running_model
from tt_cnn.testing import comp_pcc

SHOWN = 5


def main(name: str = "yolov8s") -> float:
    """Prints the surest boxes of both, and returns the PCC of all predictions."""
    entry = model_entry(name)
    reference = create_reference(name, seed=0)
    images = entry.example_input()
    with running_model(entry, reference) as running:
        ((predictions,),) = running.run([images])
    (expected,) = reference_outputs(reference, images)
    pcc = float(comp_pcc(expected, predictions)[1])
    print(f"{entry.title}, predictions {tuple(predictions.shape)}: PCC with PyTorch {pcc:.4f}")
    print("seeded weights: the boxes mean nothing, but they are the same ones")
    surest = expected[0, 4:].amax(dim=0).topk(SHOWN).indices
    for index in surest.tolist():
        for who, found in (("PyTorch", expected), ("the card", predictions)):
            print(f"box {index:4}  {who:8}  {_shown(found[0, :, index])}")
    return pcc


def _shown(prediction: torch.Tensor) -> str:
    x, y, width, height = prediction[:4].tolist()
    score, label = prediction[4:].max(dim=0)
    return f"center ({x:6.1f}, {y:6.1f})  size {width:6.1f} x {height:6.1f}  class {int(label):2}  score {score:.3f}"


if __name__ == "__main__":
    main(*sys.argv[1:2])
