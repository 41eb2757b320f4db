# SPDX-License-Identifier: Apache-2.0
"""Every kernel that may run a step of a small network on a GPU, against torch: in 16 bits and with e4m3 numbers.

    python benchmarks/cuda_kernels.py

Tests run the steps on the CPU, where there are no kernels. This looks at the kernels: all tilings that the tuner would
measure, on the same inputs. Exits 1 where one differs by more than the order of sums can.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from tt_cnn.virtual.engines.replay.capture import graph_of
from tt_cnn.virtual.engines.replay.cuda.convolution_arguments import Workspace
from tt_cnn.virtual.engines.replay.cuda.kernel_calls import Convolution, KernelCall
from tt_cnn.virtual.engines.replay.cuda.launches import Launches
from tt_cnn.virtual.engines.replay.fp8.rewrite import Fp8Rounding
from tt_cnn.virtual.engines.replay.graph import Node

APART = 0.012
"""Norm of the difference over that of the result. Hopper adds up e4m3 products with few bits, so some round away."""


class Wide(nn.Module):
    """Many pixels: few channels, a stride, a residual after Mish, a transposed convolution in place, a tail."""

    shape = (2, 32, 64, 128)

    def __init__(self) -> None:
        super().__init__()
        self.first, self.down, self.same = (
            nn.Conv2d(32, 32, 3, 1, 1),
            nn.Conv2d(32, 64, 3, 2, 1),
            nn.Conv2d(64, 64, 3, 1, 1),
        )
        self.up, self.join, self.tail = (
            nn.ConvTranspose2d(64, 32, 2, 2),
            nn.Conv2d(64, 32, 3, 1, 1),
            nn.Conv2d(32, 1, 1),
        )

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        a = F.relu(self.first(torch.tanh(x)))
        b = F.mish(self.down(a))
        joined = torch.cat((self.up(F.mish(self.same(b)) + b), a), 1)
        return [torch.sigmoid(self.tail(F.relu(self.first(F.relu(self.join(joined)))))), F.max_pool2d(joined, 2)]


class Small(nn.Module):
    """Few pixels: windows of one, sums that programs share, a residual before ReLU, odd channels, very few pixels."""

    shape = (1, 64, 20, 20)

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.back, self.same = nn.Conv2d(64, 128, 1), nn.Conv2d(128, 64, 1), nn.Conv2d(64, 64, 3, 1, 1)
        self.deep, self.last = nn.Conv2d(64, 512, 3, 1, 1), nn.Conv2d(512, 255, 3)

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        a = F.leaky_relu(self.back(F.relu(self.wide(torch.tanh(x)))), 0.1)
        b = F.relu(self.same(a) + a)
        return [self.last(F.max_pool2d(F.max_pool2d(F.mish(self.deep(b)), 3, 1, 1), 4)), b * 2]


def graphs() -> Iterator[tuple[str, list[Node], torch.Tensor]]:
    torch.manual_seed(0)
    for net in (Wide(), Small()):
        x = torch.randn(net.shape)
        nodes = graph_of(net, [x])
        rounding = Fp8Rounding(nodes, [[x]])
        yield f"{type(net).__name__.lower()}, 16 bits", nodes, x
        yield f"{type(net).__name__.lower()}, e4m3", rounding.quantized(nodes, rounding.layers), x


class Check:
    def __init__(self, nodes: list[Node], x: torch.Tensor, device: str) -> None:
        from tt_cnn.virtual.engines.replay.cuda import launch, tuning

        self.launch, self.tuning = launch, tuning
        self.launches = Launches(nodes, device, torch.float16)
        self.launches.inputs[0].copy_(x)
        self.workspace = Workspace(self.launches.device)
        self.tuner = tuning.Tuner(self.workspace, Path("/nowhere"))
        found = [step for step in self.launches.calls if isinstance(step, Convolution)]
        wanted = [(one, tiles) for one in found for _, tiles in tuning.ways(one, False) if tiles is not None]
        self.tuner.compile(wanted, pdl=False)

    def run(self) -> Iterator[tuple[KernelCall, int, float, str]]:
        """Each step by torch, then by each kernel: how many there are, and the worst. Later steps go on from torch."""
        for step in self.launches.calls:
            added = step.other.clone() if isinstance(step, KernelCall) and step.other is not None else None
            step.run()
            if not isinstance(step, KernelCall):
                continue
            images = [step.y] if step.eight is None else [step.y, step.eight]
            expected = [one.clone() for one in images]
            worst, which, kernels = 0.0, "", self.kernels(step)
            for name, kernel in kernels:
                for one in images:
                    one.zero_()
                if step.other is not None and added is not None:  # whose place the result may take
                    step.other.copy_(added)
                kernel()
                apart = max(_apart(a, b) for a, b in zip(images, expected, strict=True))
                if not apart <= worst:
                    worst, which = apart, name
            for one, value in zip(images, expected, strict=True):
                one.copy_(value)
            yield step, len(kernels), worst, which

    def kernels(self, step: KernelCall) -> list[tuple[str, Callable[[], Any]]]:
        if not isinstance(step, Convolution):
            return [("", self.launch.simple(step, False))]
        found = []
        for name, tiles in self.tuning.ways(step, True):
            if tiles is None:
                found.append((name, self.tuning.library(step, name, lambda node, value: None, False)))
            else:
                matrix = self.tuner.matrix(step, tiles.neighbours)
                found.append((str(tiles), self.launch.convolution(step, matrix, tiles, self.workspace, False)))
        return found


def _apart(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float((found.float() - expected.float()).norm() / expected.float().norm())


def main() -> None:
    if not torch.cuda.is_available():
        sys.exit("torch sees no CUDA device here")
    torch.backends.cudnn.allow_tf32 = False
    bad = 0
    with torch.no_grad():
        for name, nodes, x in graphs():
            for step, count, worst, which in Check(nodes, x, "cuda").run():
                bad += not worst <= APART
                kind = f"{type(step).__name__} to {'x'.join(map(str, step.node.shape))}"
                print(f"{name}: {kind}, {count} kernels, at most {worst:.5f} apart {which}", flush=True)
    sys.exit(f"{bad} steps differ" if bad else 0)


if __name__ == "__main__":
    main()
