"""`tt-cnn demo`: a traced program on two command queues, checked against PyTorch, with its L1 picture."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer
from rich.progress import track

from tt_cnn.cli.console import errors, output

ROWS, CHANNELS, CORES = 16384, 128, 64
GATE = 0.999
"""PCC that silu, an addition and mish must keep in bfloat16."""

Card = Annotated[str, typer.Option("--card", help="n150, n300 or p150.")]
Inputs = Annotated[int, typer.Option("--inputs", min=2, help="How many inputs go through.")]


def demo(card: Card = "n150", inputs: Inputs = 32) -> None:
    """Run a small traced program on the virtual card, as a real pipeline would.

    Queue 1 writes the next input while queue 0 computes on the last one; events order the two. Every output is
    compared with PyTorch, and the L1 of a core is drawn step by step.
    """
    import torch

    from tt_cnn.reports.l1_picture import draw, l1_use
    from tt_cnn.virtual import ttnn

    device = ttnn.open_device(device_id=0, card=card, l1_small_size=32768, num_command_queues=2, hazards="raise")
    try:
        program = _Program(ttnn, device)
        with device.record_commands() as commands:
            program.warm_up()
        output.print(f"the program on a virtual {card}, a core's L1 ({device.card.l1_size // 1024} KB) a step:")
        for line in draw(l1_use(commands, device.card), device.card):
            output.print(f"  {line}", markup=False, highlight=False, soft_wrap=True)
        program.capture()
        torch.manual_seed(0)
        samples = [torch.randn(1, 1, ROWS, CHANNELS) for _ in range(inputs)]
        start = time.perf_counter()
        outputs = [program.run(sample) for sample in track(samples, "replaying the trace", console=errors)]
        ttnn.synchronize_device(device)
        results = [ttnn.to_torch(one).float() for one in outputs]
        seconds = time.perf_counter() - start
        worst = min(_pcc(_reference(s), r) for s, r in zip(samples, results, strict=True))
        program.release()
        if worst < GATE:
            raise RuntimeError(f"the worst PCC against PyTorch is {worst:.6f}; it must be at least {GATE}")
        output.print(f"{inputs} inputs through 2 queues and a trace: worst PCC against PyTorch {worst:.6f}, no hazards")
        output.print(f"{inputs / seconds:.0f} inputs a second on this machine's CPU (not the card's speed)")
    finally:
        ttnn.close_device(device)


class _Program:
    """Persistent input in DRAM, a sharded copy of it in L1, and a trace from that to the output."""

    def __init__(self, ttnn: Any, device: Any) -> None:
        self.ttnn, self.device = ttnn, device
        banks = device.dram_grid_size().x
        self.dram_input = ttnn.allocate_tensor_on_device(
            (1, 1, ROWS, CHANNELS), ttnn.bfloat16, ttnn.ROW_MAJOR_LAYOUT, device, self._shards(banks, 1, "DRAM")
        )
        self.l1_config = self._shards(8, CORES // 8, "L1")

    def _shards(self, x: int, y: int, where: str) -> Any:
        ttnn = self.ttnn
        grid = ttnn.CoreRangeSet([ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(x - 1, y - 1))])
        spec = ttnn.ShardSpec(grid, [-(-ROWS // (x * y)), CHANNELS], ttnn.ShardOrientation.ROW_MAJOR)
        return ttnn.MemoryConfig(ttnn.TensorMemoryLayout.HEIGHT_SHARDED, getattr(ttnn.BufferType, where), spec)

    def compute(self, x: Any) -> Any:
        ttnn = self.ttnn
        tiled = ttnn.to_layout(x, ttnn.TILE_LAYOUT)
        return ttnn.mish(ttnn.add(ttnn.silu(tiled), tiled))

    def warm_up(self) -> None:
        """Compile every program before the capture."""
        import torch

        self._write(torch.zeros(1, 1, ROWS, CHANNELS), queue=0)
        self.l1_input = self.ttnn.reshard(self.dram_input, self.l1_config)
        self.compute(self.l1_input)
        self.ttnn.synchronize_device(self.device)

    def capture(self) -> None:
        ttnn = self.ttnn
        self.trace = ttnn.begin_trace_capture(self.device, cq_id=0)
        self.output = self.compute(self.l1_input)
        ttnn.end_trace_capture(self.device, self.trace, cq_id=0)
        self.staged = ttnn.record_event(self.device, 0)

    def _write(self, values: Any, queue: int) -> None:
        ttnn = self.ttnn
        host = ttnn.from_torch(values, dtype=ttnn.bfloat16)
        ttnn.copy_host_to_device_tensor(host, self.dram_input, cq_id=queue)

    def run(self, values: Any) -> Any:
        # queue 1   wait(staged) ─▶ write n+1 ─▶ record(written)
        # queue 0   wait(written) ─▶ stage ─▶ record(staged) ─▶ replay ─▶ read (the host does not wait)
        ttnn = self.ttnn
        ttnn.wait_for_event(1, self.staged)
        self._write(values, queue=1)
        written = ttnn.record_event(self.device, 1)
        ttnn.wait_for_event(0, written)
        self.l1_input = ttnn.reshard(self.dram_input, self.l1_config, self.l1_input)
        self.staged = ttnn.record_event(self.device, 0)
        ttnn.execute_trace(self.device, self.trace, cq_id=0, blocking=False)
        return self.output.cpu(blocking=False, cq_id=0)

    def release(self) -> None:
        self.ttnn.release_trace(self.device, self.trace)


def _reference(x: Any) -> Any:
    import torch

    return torch.nn.functional.mish(torch.nn.functional.silu(x) + x)


def _pcc(expected: Any, found: Any) -> float:
    import torch

    return float(torch.corrcoef(torch.stack([expected.flatten(), found.flatten()]).double())[0, 1])
