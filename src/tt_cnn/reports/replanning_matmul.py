"""`ttnn.matmul` and `ttnn.linear` of a profile, planned again with something changed."""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tt_cnn.reports.profile import Row
from tt_cnn.reports.replanning import Planned, Replanner, activation_of, memory_config_of, spec_of
from tt_cnn.virtual.errors.card_error import CardError
from tt_cnn.virtual.ops.matmul.configs import ProgramConfig
from tt_cnn.virtual.types.compute_config import WormholeComputeKernelConfig
from tt_cnn.virtual.types.enums import DataType, MathFidelity
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

MATMULS = {"ttnn.matmul": "matmul", "ttnn.linear": "linear"}
"""Calls that are understood, and the operations that plan them."""


@dataclass(frozen=True)
class MatmulCall:
    rows: tuple[Row, ...]
    left: Spec
    right: Spec
    bias: Spec | None
    program: ProgramConfig | None
    """As it was planned, whoever chose it; None lets the library choose."""
    core_grid: tuple[int, int] | None
    fidelity: MathFidelity
    compute: dict[str, Any]
    """The rest of the compute kernel config."""
    activation: Any
    """After the product; one inside it is the program's."""
    transposes: tuple[bool, bool]
    memory_config: MemoryConfig | None
    dtype: DataType | None
    now: Planned | None = None
    """Planned as it is."""

    @property
    def layer(self) -> str:
        return self.rows[0].name

    @property
    def working(self) -> Row:
        return self.rows[0]


def matmul_of(replanner: Replanner, rows: tuple[Row, ...]) -> MatmulCall | None:
    """The call, where it is a product that planning reproduces."""
    if rows[0].call_name not in MATMULS or rows[0].op != "Matmul":
        return None
    try:
        call = _read(rows)
    except (KeyError, ValueError, SyntaxError, IndexError, CardError):
        return None
    planned = plan_matmul(replanner, call)
    return replace(call, now=planned) if planned is not None and planned.is_like(rows) else None


def plan_matmul(replanner: Replanner, call: MatmulCall) -> Planned | None:
    specs = [call.left, call.right, *([call.bias] if call.bias is not None else [])]
    attributes = {
        "has": ("bias",) if call.bias is not None else (),
        "program": call.program,
        "activation": call.activation,
        "core_grid": call.core_grid,
        "compute": WormholeComputeKernelConfig(math_fidelity=call.fidelity, **call.compute),
        "transpose_a": call.transposes[0],
        "transpose_b": call.transposes[1],
        "memory_config": call.memory_config,
        "dtype": call.dtype,
    }
    return replanner.plan(MATMULS[call.rows[0].call_name], specs, call.rows[0], attributes)


_READERS: dict[str, Callable[[str], Any]] = {
    "config.kind": str,
    "config.activation": activation_of,
    "activation": activation_of,
    "compute.fidelity": MathFidelity.__getitem__,
    "memory_config": memory_config_of,
    "dtype": DataType.__getitem__,
}
_CALL = ("has", "core_grid", "activation", "transpose_a", "transpose_b", "memory_config", "dtype")
"""Arguments of the call that matter; its program and how it computes are read from the step."""


def _read(rows: tuple[Row, ...]) -> MatmulCall:
    def read(given: tuple[tuple[str, str], ...], names: tuple[str, ...]) -> dict[str, Any]:
        return {name: _READERS.get(name, literal_eval)(text) for name, text in given if name.startswith(names)}

    values = read(rows[0].arguments, _CALL) | read(rows[0].attributes, ("config.", "compute.", "adds_bias"))
    config = {name.removeprefix("config."): value for name, value in values.items() if name.startswith("config.")}
    if "output" in values["has"]:
        raise ValueError("it writes into a tensor that was given")
    added = "bias" in values["has"] and not values["adds_bias"]  # only after a program of the library's choice
    return MatmulCall(
        rows=rows,
        left=spec_of(rows[0].inputs[0]),
        right=spec_of(rows[0].inputs[1]),
        bias=_bias(rows) if "bias" in values["has"] else None,
        program=None if added else ProgramConfig(**config),
        core_grid=None,
        fidelity=values["compute.fidelity"],
        compute={
            "math_approx_mode": values["compute.approx"],
            "fp32_dest_acc_en": values["compute.fp32"],
            "packer_l1_acc": values["compute.packer_l1"],
            "dst_full_sync_en": values["compute.full_sync"],
        },
        activation=None if "core_grid" in values else values.get("activation"),
        transposes=(values["transpose_a"], values["transpose_b"]),
        memory_config=values.get("memory_config"),
        dtype=values.get("dtype"),
    )


def _bias(rows: tuple[Row, ...]) -> Spec:
    """Inside the product, or added after it."""
    if len(rows[0].inputs) > 2:
        return spec_of(rows[0].inputs[2])
    added = next(row for row in rows if row.op == "BinaryNg")
    return spec_of(added.inputs[1])
