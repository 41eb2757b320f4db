# SPDX-License-Identifier: Apache-2.0
"""A small program many times over: nothing may grow. `python benchmarks/soak.py [eager calls] [replays]`.

Prints memory of the process, buffers, pending jobs and hazard spans at ten points of each part, and ends with status 1
where the second half of a part took more memory than a little noise.
"""

from __future__ import annotations

import gc
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tt_cnn.virtual import ttnn
from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.types.enums import BufferType

POINTS = 10
NOISE_MB = 4.0


@dataclass(frozen=True)
class Point:
    done: int
    rss_mb: float
    allocated: int
    live: int
    pending: int
    spans: int
    microseconds: float

    def __str__(self) -> str:
        return (
            f"{self.done:>8} calls  {self.rss_mb:7.1f} MB  {self.allocated:>7} B a bank in {self.live} buffers  "
            f"{self.pending} jobs pending  {self.spans} hazard spans  {self.microseconds:6.1f} us a call"
        )


def rss_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


def point(device: MeshDevice, done: int, seconds: float, calls: int) -> Point:
    ttnn.synchronize_device(device)
    gc.collect()
    allocated = sum(
        device.memory_view(kind).total_bytes_allocated_per_bank for kind in (BufferType.DRAM, BufferType.L1)
    )
    pending = sum(queue.pending for queue in device.queues)
    return Point(done, rss_mb(), allocated, len(device.live), pending, device.hazards.size, seconds / calls * 1e6)


def soak(device: MeshDevice, call: Any, calls: int, wait_every: int) -> list[Point]:
    """`call(i)` many times, looked at after each tenth."""
    points = []
    part = max(calls // POINTS, 1)
    for tenth in range(POINTS):
        start = time.perf_counter()
        for i in range(part):
            call(tenth * part + i)
            if i % wait_every == 0:
                ttnn.synchronize_device(device)
        ttnn.synchronize_device(device)
        points.append(point(device, (tenth + 1) * part, time.perf_counter() - start, part))
    return points


def grew(points: list[Point]) -> list[str]:
    """What grew between the middle and the end."""
    middle, end = points[len(points) // 2 - 1], points[-1]
    growing = [name for name in ("allocated", "live", "pending") if getattr(end, name) > getattr(middle, name)]
    if end.spans > max(p.spans for p in points[: len(points) // 2]) + 64:
        growing.append("spans")
    if end.rss_mb > middle.rss_mb + NOISE_MB:
        growing.append("rss_mb")
    return growing


class SmallProgram:
    """Host input to queue 1, sum and relu on queue 0, output back."""

    def __init__(self, device: MeshDevice) -> None:
        self.device = device
        values = torch.rand(1, 1, 32, 64)
        self.host = ttnn.from_torch(values, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT)
        self.input = ttnn.to_device(self.host, device)
        ttnn.relu(ttnn.add(self.input, self.input))
        self.trace = ttnn.begin_trace_capture(device, cq_id=0)
        self.output = ttnn.relu(ttnn.add(self.input, self.input))
        ttnn.end_trace_capture(device, self.trace, cq_id=0)
        self.read = ttnn.record_event(device, 0)
        self.expected = torch.relu(2 * values.bfloat16().float())

    def eager(self, i: int) -> None:
        kept = ttnn.relu(ttnn.add(self.input, self.input))
        if i % 500 == 0:
            assert torch.allclose(ttnn.to_torch(kept).float(), self.expected, rtol=0.01)

    def replay(self, i: int) -> None:
        ttnn.wait_for_event(1, self.read)
        ttnn.copy_host_to_device_tensor(self.host, self.input, cq_id=1)
        ttnn.wait_for_event(0, ttnn.record_event(self.device, 1))
        ttnn.execute_trace(self.device, self.trace, cq_id=0, blocking=False)
        self.read = ttnn.record_event(self.device, 0)
        if i % 500 == 0:
            assert torch.allclose(ttnn.to_torch(self.output).float(), self.expected, rtol=0.01)


def run(eager_calls: int, replays: int, show: Any = print) -> list[str]:
    device = ttnn.open_device(device_id=0, num_command_queues=2, hazards="raise")
    growing = []
    try:
        for name, calls, wait_every in (("eager", eager_calls, 256), ("replay", replays, 256)):
            program = SmallProgram(device)
            call = getattr(program, name)
            for i in range(min(calls, 500)):
                call(i)
            points = soak(device, call, calls, wait_every)
            show(f"{name}: two ops a call" if name == "eager" else f"{name}: write, four events, replay of two ops")
            for one in points:
                show(f"  {one}")
            growing += [f"{name}: {what}" for what in grew(points)]
            ttnn.release_trace(device, program.trace)
            del program, call
    finally:
        ttnn.close_device(device)
    return growing


def main() -> None:
    torch.set_num_threads(1)
    eager_calls, replays = (*map(int, sys.argv[1:]), 20_000, 100_000)[:2] if len(sys.argv) > 2 else (20_000, 100_000)
    growing = run(eager_calls, replays)
    print("grew: " + ", ".join(growing) if growing else "nothing grew")
    sys.exit(bool(growing))


if __name__ == "__main__":
    main()
