"""`ttnn.matmul` and `ttnn.linear` of a profile, planned again with something changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tt_cnn.reports.replanning import Planned, ProductCall, Replanner, step_of
from tt_cnn.virtual.ops.matmul.program import MatmulProgram
from tt_cnn.virtual.types.compute_config import WormholeComputeKernelConfig
from tt_cnn.virtual.types.enums import MathFidelity
from tt_cnn.virtual.types.tensor_spec import Spec


@dataclass(frozen=True)
class MatmulCall(ProductCall):
    operation: str
    specs: tuple[Spec, ...]
    """Left, right, and the bias where there is one."""
    attributes: Mapping[str, Any]
    """Those that it was made with. Its compute config is always told: the default would follow what is changed."""
    compute: WormholeComputeKernelConfig

    @property
    def right(self) -> Spec:
        return self.specs[1]

    def but(self, **attributes: Any) -> MatmulCall:
        return replace(self, attributes={**self.attributes, **attributes})

    def with_right(self, spec: Spec) -> MatmulCall:
        return replace(self, specs=(self.specs[0], spec, *self.specs[2:]))

    def with_fidelity(self, fidelity: MathFidelity) -> MatmulCall:
        return self.but(compute=replace(self.compute, math_fidelity=fidelity))


def matmul_of(replanner: Replanner, call: int) -> MatmulCall | None:
    """The call, where it begins with a product and makes its output itself."""
    rows, made = replanner.calls[call], replanner.profile.calls[call]
    if made.operation not in ("matmul", "linear") or rows[0].op != "Matmul" or "output" in made.attributes["has"]:
        return None
    program = step_of(rows[0]).program
    assert isinstance(program, MatmulProgram)
    planned = program.compute
    compute = WormholeComputeKernelConfig(
        math_fidelity=planned.fidelity,
        math_approx_mode=planned.approx,
        fp32_dest_acc_en=planned.fp32,
        packer_l1_acc=planned.packer_l1,
        dst_full_sync_en=planned.full_sync,
    )
    specs = tuple(slot.spec for slot in made.plan.inputs)
    attributes = {**made.attributes, "compute": compute}
    return MatmulCall(rows, replanner.now(call), made.operation, specs, attributes, compute)


def plan_matmul(replanner: Replanner, call: MatmulCall) -> Planned | None:
    return replanner.plan(call.operation, call.specs, call.attributes, call.rows[0].call)
