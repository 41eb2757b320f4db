# SPDX-License-Identifier: Apache-2.0
"""Find the cells of a drawn slide on the card: `python -m tt_cnn.models.vanilla_unet.demo.demo`."""

from __future__ import annotations

import torch

from tt_cnn.evaluation.drawn_data import SegmentationShapes
from tt_cnn.models import create_reference, model_entry
from tt_cnn.models.running import reference_outputs, running_model
from tt_cnn.testing import comp_pcc

NAME = "vanilla_unet"


def main() -> float:
    """Prints how the card's mask compares with PyTorch's, and returns their PCC."""
    entry = model_entry(NAME)
    reference = create_reference(NAME, shipped=True)
    picture, cells = SegmentationShapes("val")[0]
    images = entry.normalize(torch.from_numpy(picture).permute(2, 0, 1)[None] / 255)
    with running_model(entry, reference) as running:
        ((mask,),) = running.run([images])
    (expected,) = reference_outputs(reference, images)
    pcc = float(comp_pcc(expected, mask)[1])
    print(f"{entry.title}, mask {tuple(mask.shape)}: PCC with PyTorch {pcc:.4f}")
    for who, found in (("the card", mask), ("PyTorch", expected)):
        print(
            f"IoU of {who} with the cells that were drawn: {_iou(found[0, 0] > 0.5, torch.from_numpy(cells) > 0):.4f}"
        )
    return pcc


def _iou(found: torch.Tensor, drawn: torch.Tensor) -> float:
    return float((found & drawn).sum() / (found | drawn).sum())


if __name__ == "__main__":
    main()
