# SPDX-License-Identifier: Apache-2.0
"""ResNet50 on one image: `python -m tt_cnn.models.resnet50.demo.demo`.

Weights are seeded, or those of a checkpoint of torchvision: `... demo.demo resnet50-0676ba61.pth`.
"""

from __future__ import annotations

import sys

from tt_cnn.models import create_reference, model_entry
from tt_cnn.models.running import reference_outputs, running_model
from tt_cnn.testing import comp_pcc

INPUTS = 4


def main(checkpoint: str | None = None) -> None:
    entry = model_entry("resnet50")
    reference = create_reference("resnet50", weights=checkpoint)
    images = entry.example_input()
    (expected,) = reference_outputs(reference, images)
    with running_model(entry, reference) as running:
        logits = running.run([images] * INPUTS)[-1][0]
    pcc = comp_pcc(expected, logits)[1]
    print(f"PCC against PyTorch {pcc:.5f}, gate {entry.gates['logits']}")
    print(f"{running.pictures_per_second:.1f} images per second on this machine")
    for name, values in (("PyTorch", expected), ("card", logits)):
        best = values[0].topk(5)
        ranked = ", ".join(f"{c} ({v:.3f})" for v, c in zip(best.values.tolist(), best.indices.tolist(), strict=True))
        print(f"{name:>8}: classes {ranked}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
