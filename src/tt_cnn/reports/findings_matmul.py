"""Findings about `ttnn.matmul` and `ttnn.linear`: each is another form of the call that was planned and is faster."""

from __future__ import annotations

from collections.abc import Iterator

from tt_cnn.reports.records import Finding
from tt_cnn.reports.replanning import BUSY, Planned, Replanner, fidelity_finding, finding, weights_finding
from tt_cnn.reports.replanning_matmul import MatmulCall, matmul_of, plan_matmul
from tt_cnn.virtual.types.enums import DataType, MathFidelity
from tt_cnn.virtual.types.tensor_spec import Spec


def matmul_findings(replanner: Replanner) -> Iterator[Finding]:
    for number in replanner.calls:
        call = matmul_of(replanner, number) if replanner.worth_a_look(number) else None
        if call is not None:
            looker = _Looker(replanner, call)
            for look in (looker.grid, looker.weights, looker.fidelity):
                yield from look()


class _Looker:
    def __init__(self, replanner: Replanner, call: MatmulCall) -> None:
        self.replanner, self.call = replanner, call

    def grid(self) -> Iterator[Finding]:
        """The library's choice of a program for the whole grid, in the place of the program that runs."""
        row = self.call.working
        size = self.replanner.card.grid
        planned, saves = self._saving(self.call.but(program=None, core_grid=size))
        if planned is None or saves <= 0:
            return
        few = row.cores < BUSY * row.available_cores and planned.cores > row.cores
        on = f"runs on {row.cores} of {row.available_cores} cores"
        program = row.factory.removesuffix("ProgramFactory")
        grid = f"core_grid=ttnn.CoreGrid(x={size[0]}, y={size[1]})"
        yield finding(
            self.call,
            "few cores" if few else "matmul program",
            f"{on}: {_product(self.call)}" if few else f"{on} with the program {program}",
            f"{grid} would use {planned.cores}" if few else f"set {grid}",
            saves,
            {"core_grid": size},
        )

    def weights(self) -> Iterator[Finding]:
        right = self.call.right
        kept = self.replanner.profile.buffers[self.call.working.inputs[1].buffer].born_before
        if right.dtype not in (DataType.BFLOAT16, DataType.FLOAT32) or not kept:
            return
        smaller = Spec(right.shape, DataType.BFLOAT8_B, right.layout, right.memory_config)
        planned, saves = self._saving(self.call.with_right(smaller))
        if planned is not None:
            yield weights_finding(self.call, right.dtype, saves)

    def fidelity(self) -> Iterator[Finding]:
        now = self.call.compute.math_fidelity
        if now is MathFidelity.LoFi:
            return
        planned, saves = self._saving(self.call.with_fidelity(MathFidelity.LoFi))
        if planned is not None:
            yield fidelity_finding(self.call, now, saves)

    def _saving(self, changed: MatmulCall) -> tuple[Planned | None, float]:
        """What is dispatched then, where the card takes it and leaves the output where the next call finds it."""
        planned, now = plan_matmul(self.replanner, changed), self.call.now
        if planned is None or planned.output.memory_config != now.output.memory_config:
            return None, 0.0
        return planned, self.replanner.time_of(now) - self.replanner.time_of(planned)


def _product(call: MatmulCall) -> str:
    left, right = ("x".join(map(str, tuple(spec.shape)[-2:])) for spec in call.specs[:2])
    return f"{left} times {right}"
