# SPDX-License-Identifier: Apache-2.0
"""`layer_norm` and `rms_norm`: rows normalized by their mean and variance, scaled and shifted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.numerics import VectorUnit, matrix_unit, run_unary
from tt_cnn.virtual.numerics.fidelity import to_source
from tt_cnn.virtual.ops.compute_program import ComputeProgram
from tt_cnn.virtual.ops.layout.work_split import split_work
from tt_cnn.virtual.ops.matmul.problem import Compute
from tt_cnn.virtual.ops.normalization.configs import (
    LayerNormDefaultProgramConfig,
    LayerNormShardedMultiCoreProgramConfig,
)
from tt_cnn.virtual.ops.normalization.layer_norm_buffers import Rows, interleaved_sizes, shard_buffers
from tt_cnn.virtual.ops.normalization.layer_norm_checks import Config, check_norm
from tt_cnn.virtual.ops.normalization.time import row_norm_cycles, sharded_norm_cycles
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.ops.reduction.units import staged, tiles, usable_l1
from tt_cnn.virtual.ops.reduction.values import sum_rows
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.planning.program import Step
from tt_cnn.virtual.tensors.conversion import as_stored
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import DataType, Layout, MathFidelity
from tt_cnn.virtual.types.geometry import TILE_SIZE
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

_BF16, _F32 = DataType.BFLOAT16, DataType.FLOAT32


@dataclass(frozen=True, kw_only=True)
class RowNormProgram(ComputeProgram):
    """Rows of tiles, whole or in pieces, or the shards of a grid."""

    op: str = "LayerNorm"
    epsilon: float
    centered: bool
    settings: Compute
    """What the kernels run with."""
    in_pieces: bool
    """A row does not fit L1."""
    given: tuple[str, ...]
    """Which tensors come after the input."""

    def time(self, step: Step, figures: Figures) -> Cycles:
        named = {name: slot.spec for name, slot in zip(self.given, step.inputs[1:], strict=True)}
        if self.factory == "LayerNormShardedProgramFactory":
            return sharded_norm_cycles(step, figures, self.settings, self.centered, named)
        return row_norm_cycles(step, figures, self.settings, self.centered, named, self.in_pieces)


class _RowNorm(Operation):
    """Tensors of the call: the input, then weight, bias and residual where given (`has` says which)."""

    centered = True
    default_fp32 = True

    def make_call(self, input_tensor: Tensor, **options: Any) -> Call:
        named = {
            "weight": "weight",
            "bias": "bias",
            "residual_input_tensor": "residual",
            "recip_tensor": "reciprocals",  # of Welford's counts: read by its program, the values are the same
        }
        given = {name: options[key] for key, name in named.items() if options.get(key) is not None}
        config = options["compute_kernel_config"]
        return Call(
            [input_tensor, *given.values()],
            has=tuple(given),
            epsilon=as_stored(options["epsilon"], DataType.FLOAT32),
            memory_config=options["memory_config"],
            compute=None if config is None else Compute.of(config),
            program=options["program_config"],
        )

    def settings(self, compute: Compute | None) -> Compute:
        return compute or Compute(MathFidelity.HiFi4, approx=False, fp32=self.default_fp32)

    # --- plan -----------------------------------------------------------------------------------------------------

    def plan(
        self,
        planner: Planner,
        x: Slot,
        *others: Slot,
        has: tuple[str, ...],
        epsilon: float,
        memory_config: MemoryConfig | None,
        compute: Compute | None,
        program: Config | None,
    ) -> list[Slot]:
        named = dict(zip(has, others, strict=True))
        specs = {name: slot.spec for name, slot in named.items()}
        fatal(
            not self.centered or len(x.spec.shape) > 0,
            "LayerNorm operation not supported for 0D tensors. (rank=0)",
        )
        fatal(
            self.centered or x.spec.layout is Layout.TILE,
            "ttnn::rms_norm does not support ROW_MAJOR input tensors. Use TILE layout.",
        )
        program = program or _default_program(x.spec)
        config = memory_config or x.spec.memory_config
        shards = isinstance(program, LayerNormShardedMultiCoreProgramConfig)
        if shards and config.is_sharded() and config.shard_spec is None:
            config = config.with_shard_spec(x.spec.memory_config.shard_spec)
        in_place = isinstance(program, LayerNormShardedMultiCoreProgramConfig) and program.inplace
        made = x.spec if in_place else x.spec.with_(memory_config=config)
        check_norm(x.spec, specs, config, program, self.centered, planner.card)
        settings = self.settings(compute)
        room = usable_l1(planner)
        out = x if in_place else planner.allocate(made)
        in_pieces = False
        if isinstance(program, LayerNormShardedMultiCoreProgramConfig):
            cores = x.spec.shard.grid
            buffers = shard_buffers(x, out, named, settings, program, self.centered, planner.card)
        else:
            matrices, rows, _ = tiles(x.spec)
            cores, _ = split_work(planner.card, matrices * rows, row_wise=True)
            staging = Rows(x.spec, out.spec, specs, settings, self.centered)
            sizes, in_pieces = interleaved_sizes(planner, staging, program.use_welford, room)
            buffers = staged(cores, sizes)
        step = RowNormProgram(
            factory=f"LayerNorm{'Sharded' if shards else 'MultiCore'}ProgramFactory",
            cores=cores,
            buffers=buffers,
            compute=compute,
            epsilon=epsilon,
            centered=self.centered,
            settings=settings,
            in_pieces=in_pieces,
            given=has,
        )
        planner.dispatch(step, [x, *others], [out])
        return [out]

    # --- numbers --------------------------------------------------------------------------------------------------

    def numbers(
        self,
        context: Context,
        x: torch.Tensor,
        *others: torch.Tensor,
        has: tuple[str, ...],
        epsilon: float,
        **_: Any,
    ) -> list[torch.Tensor]:
        value = context.logical(x)
        value = value if value.dim() else value.reshape(1)
        width = value.shape[-1]
        named = {name: (v, context.inputs[i + 1]) for i, (name, v) in enumerate(zip(has, others, strict=True))}
        if "residual" in named:
            value = value + named["residual"][0][tuple(slice(0, s) for s in value.shape)]
        scale, shift = (_row(named[n], width) if n in named else None for n in ("weight", "bias"))
        if context.engine.numerics == "native":
            return [context.store(_plain(value, scale, shift, epsilon, self.centered))]
        result = self._rows(context, value, scale, shift, epsilon, context.program(RowNormProgram).settings)
        return [context.store(result)]

    def _rows(
        self,
        context: Context,
        x: torch.Tensor,
        scale: torch.Tensor | None,
        shift: torch.Tensor | None,
        epsilon: float,
        settings: Compute,
    ) -> torch.Tensor:
        """The kernel's order; everything between two steps goes through the registers' own format."""
        engine, exact, fp32 = context.engine, context.exact, settings.fp32
        kept = _F32 if fp32 else _BF16
        dtype = context.inputs[0].dtype

        def stored(value: torch.Tensor) -> torch.Tensor:
            return to_source(engine.pack(value, kept), kept)

        def times(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return matrix_unit.mul(a, b, settings.fidelity, fp32_dest=fp32, exact=exact)

        share = 1.0 / x.shape[-1]
        centered = to_source(x, dtype)
        if self.centered:
            mean = stored(sum_rows(engine, x, dtype, 1.0, settings) * share)
            centered = stored(matrix_unit.sub(centered, mean, fp32_dest=fp32, exact=exact))
        squares = engine.pack(times(centered, centered), kept)
        variance = stored(sum_rows(engine, squares, kept, 1.0, settings) * share)
        biased = matrix_unit.add(variance, torch.full_like(variance, epsilon), fp32_dest=fp32, exact=exact)
        unit = VectorUnit(fp32_dest=fp32, fp32_input=fp32, exact=exact)
        inverse = stored(run_unary("rsqrt", biased, unit=unit))
        result = times(centered, inverse)
        if scale is not None:
            result = times(stored(result), to_source(scale, _F32))
        if shift is not None:
            result = matrix_unit.add(stored(result), to_source(shift, _F32), fp32_dest=fp32, exact=exact)
        return result


def _plain(
    x: torch.Tensor, scale: torch.Tensor | None, shift: torch.Tensor | None, epsilon: float, centered: bool
) -> torch.Tensor:
    if centered:
        x = x - x.mean(-1, keepdim=True)
    x = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + epsilon)
    x = x if scale is None else x * scale
    return x if shift is None else x + shift


def _row(named: tuple[torch.Tensor, Spec], width: int) -> torch.Tensor:
    """Weights as one row: tiled ones have it first, row-major ones are cut into pieces of a tile's width."""
    value, spec = named
    if spec.layout is Layout.TILE:
        return value.reshape(-1, value.shape[-1])[0, :width]
    return value.reshape(-1)[:width]


def _default_program(x: Spec) -> Config:
    """What the library takes where none is given: blocks as large as a shard."""
    if not x.is_sharded or x.memory_config.shard_spec is None:
        return LayerNormDefaultProgramConfig()
    shape = x.shard.shape
    return LayerNormShardedMultiCoreProgramConfig(
        compute_with_storage_grid_size=x.shard.grid.bounding_box().grid_size(),
        subblock_w=1,
        block_h=max(1, shape[0] // TILE_SIZE),
        block_w=max(1, shape[1] // TILE_SIZE),
        inplace=False,
    )


@op("layer_norm")
class LayerNorm(_RowNorm):
    """Rows with mean 0 and variance 1."""

    def arguments(
        self,
        input_tensor: Tensor,
        *,
        epsilon: float = 1e-12,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        residual_input_tensor: Tensor | None = None,
        memory_config: Any = None,
        program_config: LayerNormDefaultProgramConfig | LayerNormShardedMultiCoreProgramConfig | None = None,
        compute_kernel_config: Any = None,
        recip_tensor: Tensor | None = None,
    ) -> Call:
        given = dict(locals())
        del given["self"]
        return self.make_call(**given)


@op("rms_norm")
class RmsNorm(_RowNorm):
    """Rows with a mean square of 1."""

    centered = False
    default_fp32 = False

    def arguments(
        self,
        input_tensor: Tensor,
        *,
        epsilon: float = 1e-12,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        residual_input_tensor: Tensor | None = None,
        memory_config: Any = None,
        program_config: LayerNormDefaultProgramConfig | LayerNormShardedMultiCoreProgramConfig | None = None,
        compute_kernel_config: Any = None,
    ) -> Call:
        given = dict(locals())
        del given["self"]
        return self.make_call(**given)
