"""Find the cells of a drawn slide on the card: `python -m tt_cnn.models.vanilla_unet.demo.demo`."""

from __future__ import annotations

import torch

from tt_cnn import ttnn
from tt_cnn.evaluation.datasets import SegmentationShapes
from tt_cnn.models import create_pipeline, create_reference, create_tt, model_entry
from tt_cnn.testing import comp_pcc

NAME = "vanilla_unet"


def main() -> float:
    """Prints how the card's mask compares with PyTorch's, and returns their PCC."""
    entry = model_entry(NAME)
    reference = create_reference(NAME, shipped=True)
    picture, cells = SegmentationShapes("val")[0]
    images = entry.normalize(torch.from_numpy(picture).permute(2, 0, 1)[None] / 255)
    device = ttnn.open_device(device_id=0, l1_small_size=entry.l1_small_size, num_command_queues=2)
    try:
        model = create_tt(NAME, device, reference)
        host_input = model.to_host_input(images)
        with create_pipeline(model, "trace+2cq") as pipeline:
            pipeline.compile(host_input)
            (output,) = pipeline.enqueue([host_input]).pop_all()
            (mask,) = model.to_torch(output)
    finally:
        ttnn.close_device(device)
    with torch.no_grad():
        expected = reference(images)
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
