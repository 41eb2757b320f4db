# SPDX-License-Identifier: Apache-2.0
"""A model with a batch on a GPU, what it should give, and how time is taken there."""

from __future__ import annotations

import copy
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.fx.experimental.optimization import fuse

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from tt_cnn.models import create_reference, model_entry  # noqa: E402
from tt_cnn.testing.pcc import comp_pcc  # noqa: E402

Outputs = list[torch.Tensor]


def reference(model: str) -> nn.Module:
    """With batch norms folded, and nothing done in place."""
    module: nn.Module = fuse(create_reference(model).eval())
    for one in module.modules():
        if hasattr(one, "inplace"):
            one.inplace = False
    return module


def outputs_of(module: Callable[[torch.Tensor], Any], x: torch.Tensor) -> Outputs:
    result = module(x)
    return [result] if isinstance(result, torch.Tensor) else list(result)


def seconds(call: Callable[[], Any], calls: int = 20, rounds: int = 7) -> float:
    """The median over rounds of a call among `calls`, as the device sees it."""
    for _ in range(5):
        call()
    times = []
    for _ in range(rounds):
        before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        before.record()
        for _ in range(calls):
            call()
        after.record()
        after.synchronize()
        times.append(before.elapsed_time(after) / 1e3 / calls)
    return statistics.median(times)


def worst_pcc(expected: Outputs, found: Outputs) -> float:
    return min(float(comp_pcc(a, b.float().cpu())[1]) for a, b in zip(expected, found, strict=True))


class Case:
    def __init__(self, model: str, batch: int) -> None:
        self.model, self.batch = model, batch
        self.module = reference(model)
        self.example = (
            model_entry(model).example_input(batch_size=batch).bfloat16().float()
        )  # as the card's input holds it

    @property
    def name(self) -> str:
        return f"{self.model} x{self.batch}"

    def half(self) -> tuple[nn.Module, torch.Tensor]:
        module: Any = copy.deepcopy(self.module).cuda().bfloat16()
        x = self.example.cuda().bfloat16().contiguous(memory_format=torch.channels_last)
        return module.to(memory_format=torch.channels_last), x

    def expected(self, x: torch.Tensor | None = None) -> Outputs:
        x = self.example if x is None else x
        with torch.no_grad():
            previous = torch.backends.cudnn.allow_tf32
            torch.backends.cudnn.allow_tf32 = False
            try:
                return [y.cpu() for y in outputs_of(copy.deepcopy(self.module).cuda(), x.cuda())]
            finally:
                torch.backends.cudnn.allow_tf32 = previous
