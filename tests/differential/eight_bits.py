# SPDX-License-Identifier: Apache-2.0
"""Replays in 8 bits on inputs unlike the calibration's: each keeps the guard, or runs without 8 bits.

python -m tests.differential.eight_bits --models resnet50,vanilla_unet                 int8, on the CPU
python -m tests.differential.eight_bits --models resnet50,vanilla_unet --engine cuda   fp8, on a GPU
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

import torch

from tt_cnn.bench import VirtualCard
from tt_cnn.models import create_reference, model_entry
from tt_cnn.models.running import reference_outputs
from tt_cnn.testing.pcc import comp_pcc
from tt_cnn.virtual.engines.precision import GUARD

Change = Callable[[torch.Tensor, torch.Generator], torch.Tensor]


def _sparse(x: torch.Tensor, g: torch.Generator) -> torch.Tensor:
    return torch.where(torch.rand(x.shape, generator=g) < 0.95, torch.zeros_like(x), x)


def _with(value: float) -> Change:
    def put(x: torch.Tensor, g: torch.Generator) -> torch.Tensor:
        x = x.clone()
        x.view(-1)[x.numel() // 3] = value
        return x

    return put


KINDS: dict[str, Change] = {
    "the calibration's own kind": lambda x, g: x,
    "scaled by 0.1": lambda x, g: 0.1 * x,
    "scaled by 10": lambda x, g: 10 * x,
    "shifted by a deviation": lambda x, g: x + x.std(),
    "shifted by -3 deviations": lambda x, g: x - 3 * x.std(),
    "constant": lambda x, g: torch.full_like(x, float(x.mean())),
    "zeros": lambda x, g: torch.zeros_like(x),
    "sparse": _sparse,
    "noise": lambda x, g: torch.randn(x.shape, generator=g) * x.std() + x.mean(),
    "negative": lambda x, g: -x,
    "upside down": lambda x, g: x.flip(2),
    "with a NaN": _with(float("nan")),
    "with an infinity": _with(float("inf")),
}


def examined(model: str, engine: str) -> list[tuple[str, float, bool, bool]]:
    """For each kind: the PCC, whether it ran in 8 bits, and whether that is as it must be."""
    entry, reference = model_entry(model), create_reference(model)
    example = entry.example_input().bfloat16().float()
    options = {"numerics": "native", "engine": engine, "precision": "fp8" if engine == "cuda" else "int8"}
    card = VirtualCard(model, reference, example, **options)
    rows = []
    try:
        for number, (kind, change) in enumerate(KINDS.items()):
            fresh = entry.example_input(seed=100 + number)
            x = change(fresh, torch.Generator().manual_seed(number)).bfloat16().float()
            before = _outside(card)
            (found,) = card.run([x])
            eight = _outside(card) == before and any(p.eight_bit and not p.eight_bit.refused for p in card.parts)
            expected = reference_outputs(reference, x)
            special = not bool(torch.isfinite(x).all())
            if special:
                same = all(torch.equal(a.isnan(), b.isnan()) for a, b in zip(found, expected, strict=True))
                rows.append((kind, float("nan"), eight, same and not eight))
                continue
            pcc = min(comp_pcc(b, a)[1] for a, b in zip(found, expected, strict=True))
            constant = any(float(b.float().std()) == 0.0 for b in expected)
            rows.append((kind, pcc, eight, constant or not eight or pcc >= GUARD))
    finally:
        card.close()
    return rows


def _outside(card: VirtualCard) -> int:
    return sum(part.eight_bit.outside for part in card.parts if part.eight_bit is not None)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="resnet50,vanilla_unet")
    parser.add_argument("--engine", default="cpu", choices=("cpu", "cuda"))
    options = parser.parse_args(arguments)
    wrong = 0
    for model in options.models.split(","):
        print(f"| {model} | PCC | ran in |\n|---|---|---|")
        for kind, pcc, eight, right in examined(model, options.engine):
            print(f"| {kind} | {pcc:.4f} | {'8 bits' if eight else 'float'}{'' if right else ' WRONG'} |", flush=True)
            wrong += not right
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
