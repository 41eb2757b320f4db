# SPDX-License-Identifier: Apache-2.0
"""`matmul` and `linear`: their arguments and their numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from tt_cnn.virtual.arguments.refusals import refuse_unfollowed
from tt_cnn.virtual.ops.eltwise.binary_numbers import binary_value
from tt_cnn.virtual.ops.eltwise.numbers import apply_activation, operand_in
from tt_cnn.virtual.ops.matmul.activation import activation_of
from tt_cnn.virtual.ops.matmul.alternatives import alternatives
from tt_cnn.virtual.ops.matmul.configs import Activation, ProgramConfig, frozen_config
from tt_cnn.virtual.ops.matmul.numbers import product_value
from tt_cnn.virtual.ops.matmul.plan import ADD, MatmulRequest, plan_matmul
from tt_cnn.virtual.ops.matmul.problem import Problem, resolve_compute
from tt_cnn.virtual.ops.matmul.program import MatmulProgram
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.planning.alternatives import Alternative, CallSite
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import DataType
from tt_cnn.virtual.types.geometry import TILE_SIZE, Shape, Tile
from tt_cnn.virtual.types.memory_config import DRAM_MEMORY_CONFIG
from tt_cnn.virtual.types.tensor_spec import Spec


class _Product(Operation):
    """Tensors of the call: left, right, then bias and output where given (`has` says which)."""

    def make_call(
        self,
        input_tensor_a: Tensor,
        input_tensor_b: Tensor,
        *,
        bias: Tensor | None = None,
        optional_output_tensor: Tensor | None = None,
        core_grid: Any = None,
        compute_kernel_config: Any = None,
        program_config: Any = None,
        activation: Any = None,
        **rest: Any,
    ) -> Call:
        tile = rest.pop("output_tile", None)
        if not (tile is None or isinstance(tile, Tile)):  # there are no others than those of 32x32
            raise TypeError(f"output_tile is {tile!r}; it must be a ttnn.Tile or None")
        unfollowed = ("global_cb", "sub_device_id", "prefetcher_pipes", "in0_column_offset")
        given = {name: rest.pop(name, None) for name in unfollowed}
        nothing = [name for name, value in given.items() if isinstance(value, int | list | tuple) and not value]
        refuse_unfollowed(self.name, **{name: given[name] for name in given if name not in nothing})
        optional = {"bias": bias, "output": optional_output_tensor}
        named = {name: tensor for name, tensor in optional.items() if tensor is not None}
        return Call(
            [input_tensor_a, input_tensor_b, *named.values()],
            has=tuple(named),
            program=frozen_config(program_config),
            activation=activation_of(activation),
            core_grid=None if core_grid is None else (core_grid.x, core_grid.y),
            compute=compute_kernel_config,
            **rest,
        )

    def alternatives(self, site: CallSite) -> Iterator[Alternative]:
        yield from super().alternatives(site)
        yield from alternatives(site)

    # --- plan -----------------------------------------------------------------------------------------------------

    def plan(
        self,
        planner: Planner,
        left: Slot,
        right: Slot,
        *others: Slot,
        has: tuple[str, ...],
        program: ProgramConfig | None,
        activation: Activation | None,
        core_grid: tuple[int, int] | None,
        compute: Any,
        transpose_a: bool,
        transpose_b: bool,
        memory_config: Any,
        dtype: DataType | None,
    ) -> list[Slot]:
        named = dict(zip(has, others, strict=True))
        output = named.get("output")
        config = memory_config or DRAM_MEMORY_CONFIG
        out_dtype = dtype or (left.spec.dtype if output is None else output.spec.dtype)
        if output is not None and config == DRAM_MEMORY_CONFIG:
            config = output.spec.memory_config
        resolved = resolve_compute(
            compute,
            left.spec.dtype,
            right.spec.dtype,
            out_dtype,
            planner.card.arch,
            chosen_by_user=program is not None or core_grid is not None,
        )
        request = MatmulRequest(
            out_dtype,
            config,
            resolved,
            program,
            core_grid,
            activation,
            transpose_a,
            transpose_b,
            batches_alone=self.name == "matmul",
        )
        return [plan_matmul(planner, left, right, named.get("bias"), request, output)]

    # --- numbers --------------------------------------------------------------------------------------------------

    def numbers(
        self, context: Context, *values: torch.Tensor, has: tuple[str, ...], **attributes: Any
    ) -> list[torch.Tensor]:
        engine, out, program = context.engine, context.outputs[0], context.program(MatmulProgram)
        left, right = values[0], values[1]
        specs = list(context.inputs)
        bias_at = 2 if "bias" in has else None
        turn_a, turn_b = attributes["transpose_a"], attributes["transpose_b"]
        if len(specs[1].shape) == 1:
            specs[1] = Spec(Shape((specs[1].shape[0], 1)), specs[1].dtype, specs[1].layout)
            right = _column(right, specs[1])
        p = Problem(
            specs[0],
            specs[1],
            specs[bias_at] if bias_at is not None and program.adds_bias else None,
            out.memory_config,
            out.dtype,
            program.compute,
            turn_a,
            turn_b,
        )
        bias = _bias_rows(values[bias_at], specs[bias_at]) if bias_at is not None else None
        value = product_value(engine, p, program, left, right, bias if program.adds_bias else None)
        shape = tuple(p.output_shape)
        packed = engine.pack(value, out.dtype)
        if bias is not None and not program.adds_bias and bias_at is not None:
            spec = Spec(p.output_shape, out.dtype, out.layout)
            row = operand_in(values[bias_at], specs[bias_at], spec.shape, spec.padded_shape)
            dtypes = (out.dtype, specs[bias_at].dtype, out.dtype)
            value = binary_value(engine, ADD, packed, row, dtypes, None, ((), (), ()))
            packed = engine.pack(value, out.dtype)
        activation = attributes["activation"]
        if activation is not None and attributes["core_grid"] is None:
            packed = apply_activation(engine, packed, activation, fp32_dest=out.dtype is DataType.FLOAT32)
        logical = packed[tuple(slice(0, size) for size in _as_rank(shape, packed.dim()))]
        if tuple(packed.shape) == tuple(out.padded_shape) and len(shape) == len(out.shape):
            return [context.store(packed)]
        return [context.store(logical.reshape(tuple(out.shape)))]


def _as_rank(shape: tuple[int, ...], rank: int) -> tuple[int, ...]:
    return (1,) * (rank - len(shape)) + shape


def _column(values: torch.Tensor, spec: Spec) -> torch.Tensor:
    """A vector as the column it becomes."""
    rows, columns = spec.padded_shape
    result = values.new_zeros(rows, columns)
    result[: spec.shape[0], 0] = values[0, : spec.shape[0]]
    return result


def _bias_rows(bias: torch.Tensor, spec: Spec) -> torch.Tensor:
    """The first row of a row of tiles is what the kernels broadcast; a bias of whole tiles stays."""
    return bias[..., :1, :] if spec.padded_shape[-2] == TILE_SIZE else bias


@op("matmul")
class Matmul(_Product):
    """The matrix product of two tiled tensors, batched where they have more dimensions."""

    def arguments(
        self,
        input_tensor_a: Tensor,
        input_tensor_b: Tensor,
        *,
        transpose_a: bool = False,
        transpose_b: bool = False,
        memory_config: Any = None,
        dtype: Any = None,
        program_config: Any = None,
        activation: Any = None,
        compute_kernel_config: Any = None,
        core_grid: Any = None,
        output_tile: Any = None,
        optional_output_tensor: Tensor | None = None,
        global_cb: Any = None,
        sub_device_id: Any = None,
        prefetcher_pipes: Any = (),
    ) -> Call:
        given = dict(locals())
        del given["self"]
        return self.make_call(given.pop("input_tensor_a"), given.pop("input_tensor_b"), **given)


@op("linear")
class Linear(_Product):
    """`matmul` with a bias, fused where the program can."""

    def arguments(
        self,
        input_tensor_a: Tensor,
        input_tensor_b: Tensor,
        *,
        bias: Tensor | None = None,
        transpose_a: bool = False,
        transpose_b: bool = False,
        memory_config: Any = None,
        dtype: Any = None,
        program_config: Any = None,
        activation: Any = None,
        compute_kernel_config: Any = None,
        core_grid: Any = None,
        output_tile: Any = None,
        optional_output_tensor: Tensor | None = None,
        global_cb: Any = None,
        sub_device_id: Any = None,
        prefetcher_pipes: Any = (),
        in0_column_offset: int | None = None,
    ) -> Call:
        given = dict(locals())
        del given["self"]
        return self.make_call(given.pop("input_tensor_a"), given.pop("input_tensor_b"), **given)
