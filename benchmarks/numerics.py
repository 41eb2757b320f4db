# SPDX-License-Identifier: Apache-2.0
"""What the card's rounding costs beside the work it follows: a 3x3 convolution, 256 to 256 channels, at 56x56.

Each round times torch's own float32 convolution and the numerics in turn, so that they share whatever else the
machine does; medians are compared. The limits are ours: packing must stay cheap enough that nobody turns it off.

    python benchmarks/numerics.py            prints the ratios
    python benchmarks/numerics.py --check    exits with 1 when one is over its limit
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable

import torch

from tt_cnn.virtual.numerics import host_round, pack, unary
from tt_cnn.virtual.types.enums import DataType

CHANNELS, SIZE = 256, 56
LIMITS = {"pack bfloat16": 0.10, "pack bfloat8_b": 0.25}


def measure(rounds: int) -> dict[str, float]:
    """Median seconds of each piece of work."""
    torch.manual_seed(0)
    x = torch.randn(1, CHANNELS, SIZE, SIZE).to(memory_format=torch.channels_last)
    weight = torch.randn(CHANNELS, CHANNELS, 3, 3) / 48
    result = torch.nn.functional.conv2d(x, weight, padding=1)
    rows = result.permute(0, 2, 3, 1).reshape(1, 1, SIZE * SIZE, CHANNELS).contiguous()
    scratch = rows.clone()

    def packed(dtype: DataType) -> Callable[[], object]:
        return lambda: pack(scratch, dtype, inplace=True)

    work: dict[str, Callable[[], object]] = {
        "conv2d": lambda: torch.nn.functional.conv2d(x, weight, padding=1),
        "pack bfloat16": packed(DataType.BFLOAT16),
        "pack bfloat8_b": packed(DataType.BFLOAT8_B),
        "pack bfloat4_b": packed(DataType.BFLOAT4_B),
        "host_round bfloat8_b": lambda: host_round(rows, DataType.BFLOAT8_B),
        "silu, quick": lambda: unary("silu", rows, DataType.BFLOAT16, exact=False),
    }
    times: dict[str, list[float]] = {name: [] for name in work}
    with torch.inference_mode():
        for turn in range(rounds + 1):
            for name, run in work.items():
                scratch.copy_(rows)
                start = time.perf_counter()
                run()
                if turn:  # the first round only warms up
                    times[name].append(time.perf_counter() - start)
    return {name: statistics.median(samples) for name, samples in times.items()}


def convolution_on_the_card(numerics: str, rounds: int) -> float:
    """Median seconds of `ttnn.conv2d`, 56x56, 64 to 64 channels, 3x3, from a tensor in DRAM, weights prepared."""
    from tt_cnn.virtual import ttnn

    with ttnn.manage_device(0, card="n150", l1_small_size=32768, numerics=numerics) as device:
        x = ttnn.from_torch(torch.randn(1, 1, SIZE * SIZE, 64), dtype=ttnn.bfloat16, device=device)
        weight: object = ttnn.from_torch(torch.randn(64, 64, 3, 3) / 24)
        times = []
        for _ in range(rounds + 1):
            start = time.perf_counter()
            _, (weight, _) = ttnn.conv2d(
                input_tensor=x,
                weight_tensor=weight,
                device=device,
                in_channels=64,
                out_channels=64,
                batch_size=1,
                input_height=SIZE,
                input_width=SIZE,
                kernel_size=(3, 3),
                padding=(1, 1),
                conv_config=ttnn.Conv2dConfig(
                    weights_dtype=ttnn.bfloat16, shard_layout=ttnn.TensorMemoryLayout.HEIGHT_SHARDED
                ),
                slice_config=ttnn.Conv2dL1FullSliceConfig,
                return_weights_and_bias=True,
            )
            ttnn.synchronize_device(device)
            times.append(time.perf_counter() - start)
        return statistics.median(times[1:])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="exit with 1 when a limit is exceeded")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    medians = measure(options.rounds)
    conv = medians.pop("conv2d")
    print(f"conv2d 3x3 {CHANNELS}->{CHANNELS} at {SIZE}x{SIZE}: {conv * 1e3:.1f} ms, {options.threads} threads")
    missed = []
    for name, seconds in medians.items():
        ratio, limit = seconds / conv, LIMITS.get(name)
        print(f"  {name:22s} {seconds * 1e3:7.2f} ms  {ratio:7.1%}" + (f"  (limit {limit:.0%})" if limit else ""))
        if limit is not None and ratio > limit:
            missed.append(name)
    print(f"ttnn.conv2d 3x3 64->64 at {SIZE}x{SIZE} on the virtual n150 (ttsim, which runs the real kernels: 5 s):")
    for numerics, rounds in (("native", options.rounds), ("device", options.rounds), ("exact", 2)):
        print(f"  {numerics:22s} {convolution_on_the_card(numerics, rounds) * 1e3:7.2f} ms")
    if missed:
        print("over the limit: " + ", ".join(missed))
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
