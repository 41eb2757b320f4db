"""How quickly calls are planned, without their numbers. `python benchmarks/planning.py [--check]`.

Measured on one core: distinct conv2d calls planned and placed in a second, and a whole YOLOv4 at 320x320 (110
convolutions; the program that the tests compare with the real library's plan), for the first time and with its plans
cached. With `--check`, a missed limit ends with status 1.
"""

from __future__ import annotations

import gc
import random
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from figure import Figure

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.virtual.networks.noting import PlanOnlyCard
from tests.virtual.networks.yolov4 import YOLOv4
from tt_cnn.virtual import ttnn

SEED = 3
CALLS = 1000
PASSES = 7
SLOW = 0.95
"""Of the single calls' times, the one that is told beside the rate."""


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
    seconds, refused = [], 0
    for layer in sampled_layers(CALLS):
        image, weight, bias = _operands(layer, card)
        begin = time.process_time()
        try:
            _convolved(card, layer, image, weight, bias)
        except RuntimeError:
            refused += 1
        seconds.append(time.process_time() - begin)
        image.deallocate()
        card.clear_program_cache()  # tables of a thousand layers are more than L1_SMALL holds
    rate = CALLS / sum(seconds)
    slow = statistics.quantiles(seconds, n=100)[round(SLOW * 100) - 1]
    detail = (
        f"{CALLS} distinct calls, {refused} of them refused; median {statistics.median(seconds) * 1e3:.2f} ms, "
        f"{SLOW:.0%} under {slow * 1e3:.2f} ms, longest {max(seconds) * 1e3:.1f} ms"
    )
    return Figure("distinct conv2d calls planned and placed", rate, "a second", 500, at_least=True), detail


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


class YOLOv4WithoutValues(YOLOv4):
    """Making up and rounding the values of 64 million weights is not what is measured."""

    def on_host(self, *shape: int) -> Any:
        return ttnn.zeros(shape, dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT)


def network() -> tuple[list[Figure], str]:
    card = PlanOnlyCard(l1_small_size=32768)
    model = YOLOv4WithoutValues(ttnn, card)
    times = []
    for _ in range(PASSES):
        image = model.input()
        begin = time.process_time()
        model(image)
        times.append((time.process_time() - begin) * 1e3)
    with card.record_commands() as commands:
        model(model.input())
    ops = [command for command in commands if command.plan is not None]
    steps = sum(len(command.steps) for command in ops)
    cold, prepared, *cached = times
    detail = (
        f"YOLOv4 320x320: {len(ops)} calls, {steps} dispatched steps; the second pass, whose weights are prepared "
        f"already, took {prepared:.1f} ms; cached passes {min(cached):.1f} to {max(cached):.1f} ms"
    )
    return [
        Figure("a network planned and placed for the first time", cold, "ms", 400),
        Figure("the same with its plans cached (median)", statistics.median(cached), "ms", 50),
    ], detail


def main(arguments: list[str]) -> int:
    torch.set_num_threads(1)
    gc.freeze()  # what the imports brought is not searched for garbage again and again
    times, of_network = network()
    rate, of_calls = convolutions()
    for line in (rate, f"  {of_calls}", *times, f"  {of_network}"):
        print(line)
    return int("--check" in arguments and not all(figure.met for figure in (rate, *times)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
