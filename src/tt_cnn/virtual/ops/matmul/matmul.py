"""`matmul` and `linear`: a product, and around it what the product's program cannot do (`bound_matmul`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch

from tt_cnn.virtual.arguments.refusals import refuse_unfollowed
from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.eltwise.activations import kernel_of
from tt_cnn.virtual.ops.eltwise.binary_numbers import binary_value
from tt_cnn.virtual.ops.eltwise.binary_plan import plan_binary
from tt_cnn.virtual.ops.eltwise.kinds import KINDS
from tt_cnn.virtual.ops.eltwise.numbers import apply_activation, operand_in
from tt_cnn.virtual.ops.eltwise.unary_plan import plan_unary
from tt_cnn.virtual.ops.matmul.activation import activation_of
from tt_cnn.virtual.ops.matmul.configs import SIMPLE, Activation, Program, program_of
from tt_cnn.virtual.ops.matmul.numbers import product_value
from tt_cnn.virtual.ops.matmul.problem import Problem, resolve_compute
from tt_cnn.virtual.ops.matmul.program import choose_program, plan_matmul
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.ops.shape.reshape.reshape import plan_reshape
from tt_cnn.virtual.ops.shape.reshape.viewing import plan_view
from tt_cnn.virtual.ops.shape.transpose.transpose import plan_transpose
from tt_cnn.virtual.planning.plan import Plan, Planner, Slot
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import DataType
from tt_cnn.virtual.types.geometry import TILE_SIZE, Shape, Tile
from tt_cnn.virtual.types.memory_config import DRAM_MEMORY_CONFIG
from tt_cnn.virtual.types.tensor_spec import Spec

_ADD = KINDS["add"]


class _Product(Operation):
    """Tensors of the call: left, right, then bias and output where given (`has` says which)."""

    reads_free_memory = True

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
        refuse_unfollowed(self.name, **{name: rest.pop(name, None) or None for name in unfollowed})
        optional = {"bias": bias, "output": optional_output_tensor}
        named = {name: tensor for name, tensor in optional.items() if tensor is not None}
        return Call(
            [input_tensor_a, input_tensor_b, *named.values()],
            has=tuple(named),
            program=program_of(program_config),
            activation=activation_of(activation),
            core_grid=None if core_grid is None else (core_grid.x, core_grid.y),
            compute=compute_kernel_config,
            **rest,
        )

    # --- plan -----------------------------------------------------------------------------------------------------

    def plan(
        self,
        planner: Planner,
        left: Slot,
        right: Slot,
        *others: Slot,
        has: tuple[str, ...],
        program: Program | None,
        activation: Activation | None,
        core_grid: tuple[int, int] | None,
        compute: Any,
        transpose_a: bool,
        transpose_b: bool,
        memory_config: Any,
        dtype: DataType | None,
    ) -> list[Slot]:
        named = dict(zip(has, others, strict=True))
        bias, output = named.get("bias"), named.get("output")
        temporaries: list[Slot] = []
        if left.spec.is_sharded or right.spec.is_sharded:
            fatal(
                activation is None,
                f"Sharded matmul run with {activation and activation[0].native} activation: this should be placed in "
                "the program config's fused_activation field",
            )
        fatal(
            not (core_grid is not None and program is not None),
            "Cannot use both user core grid/coordinates and a program config",
        )
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

        def problem(a: Slot, b: Slot, c: Slot | None, turn_a: bool, turn_b: bool) -> Problem:
            return Problem(a.spec, b.spec, None if c is None else c.spec, config, out_dtype, resolved, turn_a, turn_b)

        def choose(p: Problem) -> Program:
            batched = self.name == "matmul" and prod(p.b[:-2]) > 1
            return program or choose_program(planner, p, core_grid, activation, batched)

        vector = len(right.spec.shape) == 1
        asked = problem(left, right, bias, transpose_a, transpose_b)
        fatal(
            len(asked.a) > 0 and len(asked.b) > 0,
            "ttnn.matmul: Both arguments to matmul need to be at least 1D, but got shapes "
            f"{left.spec.shape} and {right.spec.shape}",
        )
        turned_outside = (transpose_a or transpose_b) and choose(asked).kind == SIMPLE
        a, b = left, right
        if turned_outside and transpose_a:
            a = plan_transpose(planner, left, -1, -2, left.spec.memory_config)
            temporaries.append(a)
        if vector:
            b = plan_reshape(planner, right, Shape((right.spec.shape[-1], 1)))
            temporaries.append(b)
        elif turned_outside and transpose_b:
            b = plan_transpose(planner, right, -1, -2, right.spec.memory_config)
            temporaries.append(b)
        turns = (False, False) if turned_outside else (transpose_a, transpose_b)
        fused = (
            bias if bias is not None and _fuses_bias(a.spec, b.spec, bias.spec, config, program, core_grid) else None
        )
        final = problem(a, b, fused, *turns)
        out = plan_matmul(planner, final, choose(final), a, b, fused, output)
        if vector:
            out = _replaced(planner, out, plan_reshape(planner, out, asked.output_shape))
        if bias is not None:
            if fused is None:
                out = _replaced(planner, out, _plan_bias(planner, out, bias, output))
            # the library forgets here that it turned the matrices itself
            shape = _biased_shape(problem(left, right, None, *turns).output_shape, bias.spec.shape)
            if shape != out.spec.shape and shape.volume() <= out.spec.volume:
                out = plan_view(planner, out, shape)
        if activation is not None and core_grid is None:
            out = _replaced(planner, out, _plan_activation(planner, out, activation, output))
        kept = {slot.buffer for slot in (left, right, out, *others)}
        planner.free(*(slot for slot in temporaries if slot.buffer not in kept))
        return [out]

    def _job(self, device: MeshDevice, call: Call, plan: Plan, *rest: Any) -> Callable[[], None]:
        """The numbers follow the planned program, which depends on the L1 that was free."""
        step = next((s for s in plan.steps if s.op == "Matmul"), None)
        if step is not None:
            planned = step.program.decisions
            call = _with(call, program=planned["program"], compute=planned["compute"], fused=_fused(call, step.inputs))
        return super()._job(device, call, plan, *rest)

    # --- numbers --------------------------------------------------------------------------------------------------

    def numbers(
        self, context: Context, *values: torch.Tensor, has: tuple[str, ...], fused: bool, **attributes: Any
    ) -> list[torch.Tensor]:
        engine, out = context.engine, context.outputs[0]
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
            specs[bias_at] if bias_at is not None and fused else None,
            out.memory_config,
            out.dtype,
            attributes["compute"],
            turn_a,
            turn_b,
        )
        bias = _bias_rows(values[bias_at], specs[bias_at]) if bias_at is not None else None
        value = product_value(engine, p, attributes["program"], left, right, bias if fused else None)
        shape = tuple(p.output_shape)
        packed = engine.pack(value, out.dtype)
        if bias is not None and not fused and bias_at is not None:
            spec = Spec(p.output_shape, out.dtype, out.layout)
            row = operand_in(values[bias_at], specs[bias_at], spec.shape, spec.padded_shape)
            dtypes = (out.dtype, specs[bias_at].dtype, out.dtype)
            value = binary_value(engine, _ADD, packed, row, dtypes, None, ((), (), ()))
            packed = engine.pack(value, out.dtype)
        activation = attributes["activation"]
        if activation is not None and attributes["core_grid"] is None:
            packed = apply_activation(engine, packed, activation, fp32_dest=out.dtype is DataType.FLOAT32)
        logical = packed[tuple(slice(0, size) for size in _as_rank(shape, packed.dim()))]
        if tuple(packed.shape) == tuple(out.padded_shape) and len(shape) == len(out.shape):
            return [context.store(packed)]
        return [context.store(logical.reshape(tuple(out.shape)))]


def _plan_bias(planner: Planner, x: Slot, bias: Slot, output: Slot | None) -> Slot:
    config = x.spec.memory_config
    return plan_binary(planner, _ADD, x, bias, dtype=x.spec.dtype, memory_config=config, output=output)


def _plan_activation(planner: Planner, x: Slot, activation: Activation, output: Slot | None) -> Slot:
    config = x.spec.memory_config
    return plan_unary(planner, x, kernel_of(activation), dtype=x.spec.dtype, memory_config=config, output=output)


def _replaced(planner: Planner, old: Slot, new: Slot) -> Slot:
    """A result that took the place of another, whose memory is given back at once."""
    if old.buffer != new.buffer:
        planner.free(old)
    return new


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


def _fused(call: Call, inputs: Sequence[Slot]) -> bool:
    return "bias" in call.attributes["has"] and len(inputs) > 2


def _with(call: Call, **attributes: Any) -> Call:
    changed = Call(call.tensors, queue=call.queue, device=call.device)
    changed.attributes = {**call.attributes, **attributes}
    changed.given = call.given
    return changed


def _fuses_bias(
    a: Spec, b: Spec, bias: Spec, output: Any, program: Program | None, core_grid: tuple[int, int] | None
) -> bool:
    """`get_post_process_bias`, turned around."""
    if bias.padded_shape[-2] != TILE_SIZE or prod(tuple(b.shape)[:-2]) > 1:
        return False
    if program is not None:
        return program.kind != SIMPLE
    if core_grid is not None:
        return True
    if not output.is_dram():
        return False
    if a.is_sharded:
        return True
    configs = (a.memory_config, b.memory_config, output)
    return not any(c.is_sharded() for c in configs) and all(c.is_dram() for c in configs)


def _biased_shape(product: Shape, bias: Shape) -> Shape:
    """`compute_matmul_with_bias_output_shape`"""
    rank = max(len(product), len(bias))
    dims = []
    for a, b in zip(product.to_rank(rank), bias.to_rank(rank), strict=True):
        fatal(a == b or a == 1 or b == 1, "Broadcast error: Invalid dimension")
        dims.append(max(a, b))
    return Shape(dims)


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
