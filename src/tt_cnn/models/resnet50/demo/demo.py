"""ResNet50 on one picture: `python -m tt_cnn.models.resnet50.demo.demo`.

Weights are seeded, or those of a checkpoint of torchvision: `... demo.demo resnet50-0676ba61.pth`.
"""

from __future__ import annotations

import sys

import torch

from tt_cnn import ttnn
from tt_cnn.models import create_pipeline, create_reference, create_tt, model_entry
from tt_cnn.testing import comp_pcc

INPUTS = 4


def main(checkpoint: str | None = None) -> None:
    entry = model_entry("resnet50")
    reference = create_reference("resnet50", weights=checkpoint)
    images = entry.example_input()
    with torch.no_grad():
        expected = reference(images)
    device = ttnn.open_device(device_id=0, l1_small_size=entry.l1_small_size, num_command_queues=2)
    try:
        model = create_tt("resnet50", device, reference)
        with create_pipeline(model, "trace+2cq") as pipeline:
            inputs = [model.to_host_input(images)] * INPUTS
            pipeline.compile(inputs[0])
            outputs = pipeline.enqueue(inputs).pop_all()
            logits = model.to_torch(outputs[-1])[0]
            fps = pipeline.stats().fps
    finally:
        ttnn.close_device(device)
    pcc = comp_pcc(expected, logits)[1]
    print(f"PCC against PyTorch {pcc:.5f}, gate {entry.gates['logits']}; {fps:.1f} pictures a second on this machine")
    for name, values in (("PyTorch", expected), ("card", logits)):
        best = values[0].topk(5)
        ranked = ", ".join(f"{c} ({v:.3f})" for v, c in zip(best.values.tolist(), best.indices.tolist(), strict=True))
        print(f"{name:>8}: classes {ranked}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
