# SPDX-License-Identifier: Apache-2.0
"""The card's units on a GPU beside the CPU, bit for bit: `python -m tests.differential.units [--seconds 60]`.

Random operands of every kind: odd shapes, infinities, NaN, denormals, zeros of both signs, all fidelities and formats,
registers of float32 and bfloat16, whole convolutions with every way of keeping sums between blocks. Needs a GPU and
Triton. A NaN is like any other. Ends with status 1 where a bit differs.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tests.differential.checking import different_bits
from tt_cnn.virtual.engines.replay.kernels.alike import OUTSIDE_TRACES
from tt_cnn.virtual.numerics.convolution.inner import Inner
from tt_cnn.virtual.numerics.convolution.recipe import Recipe
from tt_cnn.virtual.numerics.convolution.windows import Window
from tt_cnn.virtual.numerics.fidelity import to_source
from tt_cnn.virtual.numerics.formats import host_round
from tt_cnn.virtual.numerics.primitive import PRIMITIVES, compiled
from tt_cnn.virtual.numerics.vector_unit import VectorUnit
from tt_cnn.virtual.types.enums import DataType, MathFidelity

FIDELITIES = (MathFidelity.LoFi, MathFidelity.HiFi2, MathFidelity.HiFi3, MathFidelity.HiFi4)
FORMATS = (DataType.BFLOAT16, DataType.BFLOAT8_B, DataType.BFLOAT4_B, DataType.FLOAT32)
SPECIAL = (float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e-45, -1e-40, 2.0**-126, 3.4e38, -3.4e38, 1.0, -1.0)
UNARY = ("sigmoid", "exp", "gelu", "tanh", "mish", "silu", "sqrt", "reciprocal", "erf", "log", "lgamma", "relu")
BINARY = ("add", "sub", "mul", "div", "maximum", "pow", "atan2", "squared_difference")
ROUNDINGS = ("to_bfloat16", "round_away", "round_even", "stored", "flush_denormals")
Case = tuple[str, list[Tensor], dict[str, Any]]
"""A primitive, its operands and its parameters."""


def numbers(random: random.Random, *shape: int) -> Tensor:
    """Some of every size, and now and then what is no ordinary number."""
    kind = random.choice(("normal", "wide", "large", "tiny", "sparse", "any"))
    x = torch.randn(shape)
    if kind == "any":
        x = x * 2.0 ** torch.randint(-149, 128, shape)
        drawn = torch.tensor(SPECIAL)[torch.randint(len(SPECIAL), shape)]
        return torch.where(torch.rand(shape) < random.choice((0.0, 0.001, 0.2)), drawn, x)
    if kind == "sparse":
        return x * (torch.rand(shape) < 0.2)
    low, high = {"normal": (0, 1), "wide": (-30, 30), "large": (20, 33), "tiny": (-75, -42)}[kind]
    return x * 2.0 ** torch.randint(low, high, shape)


def in_source(random: random.Random, rows: int, columns: int) -> Tensor:
    dtype = random.choice(FORMATS)
    wide = host_round(numbers(random, rows, columns + -columns % 32), dtype)[:, :columns]
    return to_source(wide, dtype) if random.random() < 0.9 else wide


def of_product(random: random.Random) -> Case:
    rows, inner, columns = random.randint(1, 300), random.randint(1, 300), random.randint(1, 150)
    operands = [in_source(random, rows, inner), in_source(random, inner, columns)]
    if random.random() < 0.5:
        start = numbers(random, rows, columns)
        operands.append(random.choice((start, host_round(start, DataType.BFLOAT16))))
    return "followed_product", operands, {"fidelity": random.choice(FIDELITIES), "fp32_dest": random.random() < 0.5}


def of_convolution(random: random.Random) -> Case:
    kernel = random.randint(1, 3), random.randint(1, 3)
    shard = random.choice((32, 64))
    cores = random.choice((1, 2, 3))
    channels = random.choice((shard * cores, random.randint(max(1, shard * (cores - 1)), shard * cores)))
    scheme = random.choice(("height", "block", "width")) if cores == 1 else random.choice(("block", "width"))
    inner = Inner(scheme, kernel, channels, shard, cores, whole=random.random() < 0.3)
    sides = tuple(random.randint(0, 2) for _ in range(4))
    window = Window(kernel, (random.randint(1, 2), random.randint(1, 2)), sides, (random.randint(1, 2), 1))
    recipe = Recipe(
        window,
        inner,
        random.choice(FORMATS),
        DataType.BFLOAT16,
        random.choice((DataType.BFLOAT16, DataType.FLOAT32, DataType.BFLOAT8_B)),
        random.choice(FIDELITIES),
        fp32_dest=random.random() < 0.5,
        packer_adds=random.random() < 0.5,
        bias=random.random() < 0.5,
        reloads_whole=random.random() < 0.3,
    )
    image = numbers(random, random.randint(1, 2), random.randint(5, 14), random.randint(5, 14), channels)
    weights = in_source(random, len(inner.worked_rows()), 32 * random.randint(1, 3))
    weights[inner.worked_rows() == inner.blank] = 0.0
    return "followed_sums", [image, weights], {"recipe": recipe}


def of_unit(random: random.Random) -> Case:
    name = random.choice(("aligned_sum", "multiplied", "partially_fused", "to_blocks", "cut", "unary", "binary", "any"))
    rows, columns = random.randint(1, 200), 32 * random.randint(1, 8)
    shapes = [(rows, columns), random.choice(((rows, columns), (1, columns), (rows, 1), (1, 1))), (rows, columns)]
    a, b, c = (numbers(random, *shape) for shape in shapes)
    fp32 = {"fp32_dest": random.random() < 0.5}
    if name == "aligned_sum":
        return name, [a, b], fp32
    if name == "multiplied":
        return name, [a, b], {"fidelity": random.choice(FIDELITIES), "exact": random.random() < 0.8, **fp32}
    if name == "partially_fused":
        return name, [a, b, c], {"vectors": tuple(random.random() < 0.7 for _ in range(3))}
    if name == "to_blocks":
        dtype = random.choice((DataType.BFLOAT8_B, DataType.BFLOAT4_B))
        return name, [a], {"dtype": dtype, "precise": dtype is DataType.BFLOAT8_B and random.random() < 0.5}
    if name == "cut":
        return name, [a], {"bits": random.randint(1, 10)}
    if name == "any":
        return random.choice(ROUNDINGS), [a], {}
    unit = VectorUnit(fp32_dest=fp32["fp32_dest"], fp32_input=fp32["fp32_dest"])
    if name == "unary":
        return name, [a], {"name": random.choice(UNARY), "params": (), "unit": unit}
    return name, [a, c], {"name": random.choice(BINARY), "unit": unit}


def differs(case: Case, device: str, functions: dict[str, Callable[..., Tensor]]) -> str:
    name, operands, parameters = case
    with torch.inference_mode():
        with compiled(OUTSIDE_TRACES):
            expected = PRIMITIVES[name](*(one.clone() for one in operands), **parameters)
        with compiled(functions):
            found = PRIMITIVES[name](*(one.to(device) for one in operands), **parameters).cpu()
    return different_bits(found, expected)


def main() -> int:
    from tt_cnn.virtual.engines.replay.cuda.exact.registers import FOLLOWED  # with Triton, which is optional

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args()
    end, seed, wrong, counted = time.perf_counter() + options.seconds, options.first, 0, Counter[str]()
    while time.perf_counter() < end:
        drawn = random.Random(seed)
        torch.manual_seed(seed)
        case = drawn.choice((of_product, of_convolution, of_unit))(drawn)
        why = differs(case, "cuda", FOLLOWED)
        counted[case[0]] += 1
        if why:
            wrong += 1
            print(f"seed {seed}, {case[0]}{case[2]}: {why}", flush=True)
        seed += 1
    print(f"{sum(counted.values())} cases from seed {options.first}, {wrong} differ: {dict(counted)}")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
