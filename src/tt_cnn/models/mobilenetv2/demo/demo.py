# SPDX-License-Identifier: Apache-2.0
"""Logits of a seeded image on the card and in PyTorch: `python -m tt_cnn.models.mobilenetv2.demo.demo`.

`tt-cnn weights mobilenetv2` fetches trained weights and `tt-cnn demo mobilenetv2` takes photographs.
"""

from __future__ import annotations

from tt_cnn.models import create_reference, model_entry
from tt_cnn.models.running import reference_outputs, running_model
from tt_cnn.testing import comp_pcc

NAME = "mobilenetv2"
BEST = 5


def main() -> float:
    """Prints both models' best classes, and returns the PCC of their logits."""
    entry = model_entry(NAME)
    reference = create_reference(NAME)
    images = entry.example_input()
    with running_model(entry, reference) as running:
        ((logits,),) = running.run([images])
    (expected,) = reference_outputs(reference, images)
    pcc = float(comp_pcc(expected, logits)[1])
    print(f"{entry.title}, logits {tuple(logits.shape)}: PCC with PyTorch {pcc:.4f}")
    for who, values in (("the card", logits), ("PyTorch", expected)):
        print(f"best classes of {who}: {values[0].topk(BEST).indices.tolist()}")
    return pcc


if __name__ == "__main__":
    main()
