"""Logits of a seeded picture on the card and in PyTorch: `python -m tt_cnn.models.mobilenetv2.demo.demo`.

`tt-cnn weights mobilenetv2` fetches trained weights and `tt-cnn demo mobilenetv2` takes photographs.
"""

from __future__ import annotations

import torch

from tt_cnn import ttnn
from tt_cnn.models import create_pipeline, create_reference, create_tt, model_entry
from tt_cnn.testing import comp_pcc

NAME = "mobilenetv2"
BEST = 5


def main() -> float:
    """Prints both models' best classes, and returns the PCC of their logits."""
    entry = model_entry(NAME)
    reference = create_reference(NAME)
    images = entry.example_input()
    device = ttnn.open_device(device_id=0, l1_small_size=entry.l1_small_size, num_command_queues=2)
    try:
        model = create_tt(NAME, device, reference)
        host_input = model.to_host_input(images)
        with create_pipeline(model, "trace+2cq") as pipeline:
            pipeline.compile(host_input)
            (output,) = pipeline.enqueue([host_input]).pop_all()
            (logits,) = model.to_torch(output)
    finally:
        ttnn.close_device(device)
    with torch.no_grad():
        expected = reference(images)
    pcc = float(comp_pcc(expected, logits)[1])
    print(f"{entry.title}, logits {tuple(logits.shape)}: PCC with PyTorch {pcc:.4f}")
    for who, values in (("the card", logits), ("PyTorch", expected)):
        print(f"best classes of {who}: {values[0].topk(BEST).indices.tolist()}")
    return pcc


if __name__ == "__main__":
    main()
