# SPDX-License-Identifier: Apache-2.0
"""How quickly calls are planned and timed, without their numbers.

    python benchmarks/planning.py [--check]
    python benchmarks/planning.py --against TREE [--rounds 3]     beside another tree of the project, in the same run

Measured on one core: distinct conv2d calls planned, placed and timed in a second; and a whole YOLOv4 at 320x320 (110
convolutions; the program that the tests compare with the real library's plan) planned and placed for the first time,
with its plans cached, and with all but one of them cached, since the block height of one convolution is another. With
`--check`, a missed limit ends with status 1. With `--against`, both trees are measured in turns, each time in a process
of its own, and the medians and the ratio of this tree to the other are printed.

What was expected of keeping placements, and what came, beside the tree before all work on planning (medians of 5 rounds
on a busy machine; limits in the output):

- A pass with one layer changed was to take 0.3 of the time, since placing and looking plans up took half of it. It
  takes 0.49: both are a tenth now, but binding arguments, making tensors and commands and the network's own code are
  the rest, without a part above 10 %. No placement but the changed layer's is made.
- A first pass was to take 0.33 and takes 0.50. Nearly half of it was the conversion of 64 million zeros, which is gone.
- Distinct calls were to be 2.3 times as many and are 1.36 times as many. Of their steps 85 % and of their programs
  nearly all differ, so keeping parts of plans saves nothing. What is left is flat: 140 small objects and 3,000 function
  calls for each call, and 15 % of the time in the garbage collector, which walks the plans that are kept.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from figure import Figure

HERE = Path(__file__).resolve().parents[1]
TREE = Path(os.environ.get("TT_CNN_MEASURED_TREE", HERE))
"""Whose sources are measured: those of a child process may be another tree's."""
sys.path[:0] = [str(TREE / "src"), str(TREE)]

from tests.virtual.networks.noting import PlanOnlyCard  # noqa: E402
from tests.virtual.networks.yolov4 import Conv, YOLOv4  # noqa: E402
from tt_cnn.virtual import ttnn  # noqa: E402
from tt_cnn.virtual.cost.kernel import kernel_cost  # noqa: E402

SEED = 3
CALLS = 1000
PASSES = 7
HEIGHTS = (32, 64, 96, 160, 192)
"""Rows of a block of the first convolution, which takes 128; each is planned once."""
STEM = Conv(3, 32, 320, 3, block_rows=128)
SLOW = 0.95
"""Of the single calls' times, the one that is given beside the rate."""


@dataclass(frozen=True)
class Layer:
    """A convolution as vision models have them; each is planned once."""

    size: int
    inputs: int
    outputs: int
    kernel: int
    stride: int
    layout: Any
    in_l1: bool
    block_rows: int
    weights: Any
    output: Any
    batch: int


def sampled_layers(count: int) -> list[Layer]:
    """Distinct layers: of residual networks, detectors and segmentation, from all memories and in all layouts."""
    draw = random.Random(SEED)
    height, block, width = (getattr(ttnn.TensorMemoryLayout, f"{n}_SHARDED") for n in ("HEIGHT", "BLOCK", "WIDTH"))
    layers: dict[Layer, None] = {}
    while len(layers) < count:
        size = draw.choice([7, 10, 14, 20, 28, 30, 40, 56, 60, 80, 112, 120, 160])
        large = size > 28
        widest = 64 if size > 80 else 256 if large else 1024
        channels = [c for c in (3, 16, 24, 32, 48, 64, 96, 128, 192, 256, 320, 512, 768, 1024) if c <= widest]
        layers[
            Layer(
                size,
                draw.choice(channels),
                draw.choice(channels[1:]),
                draw.choice([1, 1, 3, 3, 3, *([5, 7] if large else [])]),
                draw.choice([1, 1, 1, 2]),
                draw.choice([None, height, height, block] if large else [None, height, block, width]),
                draw.random() < 0.5,
                draw.choice([0, 0, 0, 32, 64, 96]),
                draw.choice([ttnn.bfloat16, ttnn.bfloat8_b]),
                draw.choice([ttnn.bfloat16, ttnn.bfloat8_b]),
                draw.choice([1, 1, 1, 2, 8]) if size < 60 else 1,
            )
        ] = None
    return list(layers)


def convolutions() -> tuple[Figure, str]:
    """Each layer once, on a card that has seen none of them. Uploads of images are not counted."""
    card = PlanOnlyCard()
    commands: list[Any] = []
    card.listeners.append(commands.append)
    seconds, refused = [], 0
    for layer in sampled_layers(CALLS):
        image, weight, bias = _operands(layer, card)
        commands.clear()
        begin = time.process_time()
        try:
            _convolved(card, layer, image, weight, bias)
        except RuntimeError:
            refused += 1
        for command in commands:
            for placed in command.steps:
                kernel_cost(placed.step, card.card)
        seconds.append(time.process_time() - begin)
        image.deallocate()
        card.clear_program_cache()  # tables of a thousand layers are more than L1_SMALL holds
    rate = CALLS / sum(seconds)
    slow = statistics.quantiles(seconds, n=100)[round(SLOW * 100) - 1]
    detail = (
        f"{CALLS} distinct calls, {refused} of them refused; median {statistics.median(seconds) * 1e3:.2f} ms, "
        f"{SLOW:.0%} under {slow * 1e3:.2f} ms, longest {max(seconds) * 1e3:.1f} ms"
    )
    return Figure("distinct conv2d calls planned, placed and timed", rate, "a second", 1500, at_least=True), detail


def _operands(layer: Layer, card: PlanOnlyCard) -> tuple[Any, Any, Any]:
    """The image in interleaved memory of the card; weights and bias on the host."""
    rows = layer.batch * layer.size * layer.size
    spec = ttnn.TensorSpec(
        (1, 1, rows, layer.inputs),
        ttnn.bfloat16,
        ttnn.ROW_MAJOR_LAYOUT,
        buffer_type=ttnn.BufferType.L1 if layer.in_l1 else ttnn.BufferType.DRAM,
    )
    weight = torch.empty(layer.outputs, layer.inputs, layer.kernel, layer.kernel, dtype=torch.bfloat16)
    bias = torch.empty(1, 1, 1, layer.outputs, dtype=torch.bfloat16)
    return ttnn.allocate_tensor_on_device(spec, card), ttnn.from_torch(weight), ttnn.from_torch(bias)


def _convolved(card: PlanOnlyCard, layer: Layer, image: Any, weight: Any, bias: Any) -> None:
    output = ttnn.conv2d(
        input_tensor=image,
        weight_tensor=weight,
        bias_tensor=bias,
        device=card,
        in_channels=layer.inputs,
        out_channels=layer.outputs,
        batch_size=layer.batch,
        input_height=layer.size,
        input_width=layer.size,
        kernel_size=(layer.kernel, layer.kernel),
        stride=(layer.stride, layer.stride),
        padding=(layer.kernel // 2, layer.kernel // 2),
        dtype=layer.output,
        conv_config=ttnn.Conv2dConfig(
            weights_dtype=layer.weights, shard_layout=layer.layout, act_block_h_override=layer.block_rows
        ),
    )
    output.deallocate()


class SearchedYOLOv4(YOLOv4):
    """Without values, since making up and rounding 64 million weights is not what is measured; and with another block
    height of the first convolution where one is set."""

    block_rows = STEM.block_rows

    def on_host(self, *shape: int) -> Any:
        return ttnn.zeros(shape, dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT)

    def conv(self, x: Any, conv: Conv) -> Any:
        if conv != STEM or self.block_rows == STEM.block_rows:
            return super().conv(x, conv)
        changed = replace(conv, block_rows=self.block_rows)
        self.weights[changed] = self.weights[conv]  # prepared already: their layout does not depend on the height
        return super().conv(x, changed)


def milliseconds(model: SearchedYOLOv4) -> float:
    image = model.input()
    begin = time.process_time()
    model(image)
    return (time.process_time() - begin) * 1e3


def network() -> tuple[list[Figure], str]:
    card = PlanOnlyCard(l1_small_size=32768)
    model = SearchedYOLOv4(ttnn, card)
    cold, prepared, *cached = [milliseconds(model) for _ in range(PASSES)]
    changed = []
    for rows in HEIGHTS:
        model.block_rows = rows
        changed.append(milliseconds(model))
    with card.record_commands() as commands:
        model(model.input())
    ops = [command for command in commands if command.plan is not None]
    steps = sum(len(command.steps) for command in ops)
    detail = (
        f"YOLOv4 320x320: {len(ops)} calls, {steps} dispatched steps; the second pass, whose weights are prepared "
        f"already, took {prepared:.1f} ms; cached passes {min(cached):.1f} to {max(cached):.1f} ms, passes with one "
        f"layer changed {min(changed):.1f} to {max(changed):.1f} ms"
    )
    return [
        Figure("a network planned and placed for the first time", cold, "ms", 120),
        Figure("the same with its plans cached (median)", statistics.median(cached), "ms", 50),
        Figure("the same with one layer changed (median)", statistics.median(changed), "ms", 25),
    ], detail


def measured() -> tuple[list[Figure], list[str]]:
    torch.set_num_threads(1)
    gc.freeze()  # what the imports brought is not searched for garbage again and again
    times, of_network = network()
    rate, of_calls = convolutions()
    return [rate, *times], [of_calls, of_network]


def figures_of(tree: Path) -> list[Figure]:
    """Of a tree, measured in a process of its own."""
    environment = os.environ | {"TT_CNN_MEASURED_TREE": str(tree), "PYTHONPATH": str(Path(__file__).parent)}
    command = [sys.executable, __file__, "--json"]
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=tree, check=True)
    return [Figure(**one) for one in json.loads(result.stdout.splitlines()[-1])]


def compared(other: Path, rounds: int) -> list[Figure]:
    """Print the medians of both trees; this tree's are returned."""
    found: dict[Path, list[list[Figure]]] = {other: [], HERE: []}
    for number in range(rounds):
        for tree in (other, HERE) if number % 2 else (HERE, other):
            found[tree].append(figures_of(tree))
    medians = []
    print(f"medians of {rounds} rounds, and of the ratios of each round")
    for olds, news in zip(zip(*found[other], strict=True), zip(*found[HERE], strict=True), strict=True):
        before = statistics.median(figure.value for figure in olds)
        ratio = statistics.median(new.value / old.value for old, new in zip(olds, news, strict=True))
        medians.append(replace(news[0], value=statistics.median(figure.value for figure in news)))
        print(f"{medians[-1]}   other tree {before:8.2f}, new / old {ratio:.2f}")
    return medians


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="end with status 1 where a limit is missed")
    parser.add_argument("--against", type=Path, help="another tree of the project")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.against is not None:
        figures = compared(given.against.resolve(), given.rounds)
    else:
        figures, details = measured()
        if given.json:
            print(json.dumps([asdict(figure) for figure in figures]))
            return 0
        for line in (figures[0], f"  {details[0]}", *figures[1:], f"  {details[1]}"):
            print(line)
    return int(given.check and not all(figure.met for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
