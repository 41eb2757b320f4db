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
from tt_cnn.virtual.ops.normalization.time import row_norm_cycles, sharded_norm_cycles
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.ops.reduction.units import staged, tiles
from tt_cnn.virtual.ops.reduction.values import sum_rows
from tt_cnn.virtual.planning.plan import CircularBuffer, Planner, Slot
from tt_cnn.virtual.planning.program import Step
from tt_cnn.virtual.tensors.conversion import as_stored
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import DataType, Layout, MathFidelity, TensorMemoryLayout
from tt_cnn.virtual.types.geometry import TILE_SIZE, CoreRangeSet, round_up
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

_BF16, _F32 = DataType.BFLOAT16, DataType.FLOAT32
_SQUARES = 8
_LONG = {(False, False): 112, (False, True): 56, (True, False): 56, (True, True): 28}
"""Tiles of a row held at a time where a row does not fit L1, by (weights are given, float32 registers)."""


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

    reads_free_memory = True  # long rows are worked through in pieces where they do not fit
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
        program: Any,
    ) -> list[Slot]:
        named = dict(zip(has, others, strict=True))
        fatal(
            x.spec.dtype in (_F32, _BF16, DataType.BFLOAT8_B),
            f"Input tensor must be FLOAT32, BFLOAT16, or BFLOAT8_B, got: {x.spec.dtype.native}",
        )
        fatal(
            not self.centered or len(x.spec.shape) > 0,
            "LayerNorm operation not supported for 0D tensors. (rank=0)",
        )
        if "residual" in named:
            _check_residual(x.spec, named["residual"].spec)
        for name in ("weight", "bias"):
            if name in named:
                _check_weights(x.spec, named[name].spec, {"weight": "Gamma", "bias": "Beta"}[name])
        settings = self.settings(compute)
        sharded = x.spec.is_sharded and isinstance(program, LayerNormShardedMultiCoreProgramConfig)
        if x.spec.is_sharded:
            layout = x.spec.memory_config.memory_layout
            fatal(layout is not TensorMemoryLayout.HEIGHT_SHARDED, "Height sharded inputs are not supported.")
            _check_shards(x.spec)
        in_place = sharded and program.inplace
        config = memory_config or x.spec.memory_config
        out = x if in_place else planner.allocate(x.spec.with_(memory_config=config))
        in_pieces = False
        if sharded:
            # the sharded program's intermediate buffers are not modelled; it borrows its tensors
            cores = x.spec.shard.grid
            buffers: tuple[CircularBuffer, ...] = (_borrowed("input", x, cores), _borrowed("output", out, cores))
        else:
            matrices, rows, _ = tiles(x.spec)
            cores, _ = split_work(planner.card, matrices * rows, row_wise=True)
            sizes, in_pieces = self._sizes(planner, x.spec, out.spec, named, settings)
            buffers = staged(cores, sizes)
        made = RowNormProgram(
            factory=f"LayerNorm{'Sharded' if sharded else 'MultiCore'}ProgramFactory",
            cores=cores,
            buffers=buffers,
            compute=compute,
            epsilon=epsilon,
            centered=self.centered,
            settings=settings,
            in_pieces=in_pieces,
            given=has,
        )
        planner.dispatch(made, [x, *others], [out])
        return [out]

    def _sizes(
        self, planner: Planner, x: Spec, out: Spec, named: dict[str, Slot], settings: Compute
    ) -> tuple[dict[str, int], bool]:
        """Bytes of the buffers, and whether rows are worked through in pieces."""
        block = 4 if settings.fp32 else 8
        sizes = self._buffers(x, out, named, settings, block, round_up(tiles(x)[2], block))
        weights = [named[name].spec for name in ("weight", "bias") if name in named]
        tiled = all(spec.layout is Layout.TILE for spec in weights)  # as the kernel for long rows takes them
        if not tiled or sum(sizes.values()) <= planner.program_l1():
            return sizes, False
        sizes = self._buffers(x, out, named, settings, block, _LONG[bool(weights), settings.fp32])
        return sizes | {"partial sums": (_F32 if settings.fp32 else _BF16).tile_bytes}, True

    def _buffers(
        self, x: Spec, out: Spec, named: dict[str, Slot], settings: Compute, block: int, columns: int
    ) -> dict[str, int]:
        register = (_F32 if settings.fp32 else _BF16).tile_bytes
        weights = {name: named[name].spec.dtype.tile_bytes for name in ("weight", "bias") if name in named}
        residual = named.get("residual")
        held = 2 * block if residual is not None else columns
        constants = 2 * _BF16.tile_bytes
        sizes = {"input": held * x.dtype.tile_bytes, "output": 2 * block * out.dtype.tile_bytes}
        sizes |= {"scaler": constants, "epsilon": constants}
        sizes |= {"inverse root": 2 * register, "squares": columns * register, "variance": _SQUARES * register}
        if self.centered:
            sizes |= {"mean": 2 * register, "centered": columns * register}
        if weights:
            sizes["scaled"] = 2 * block * register
        sizes |= {name: columns * tile for name, tile in weights.items()}
        if residual is not None:
            sizes |= {"sum": columns * register, "residual": 2 * block * residual.spec.dtype.tile_bytes}
        return sizes

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


def _borrowed(name: str, slot: Slot, cores: CoreRangeSet) -> CircularBuffer:
    return CircularBuffer(slot.spec.shard_pages * slot.spec.page_bytes, cores, slot, dataflow=True, name=name)


def _check_weights(x: Spec, weights: Spec, name: str) -> None:
    low = name.lower()
    fatal(weights.dtype.is_float, f"{name} tensor must be FLOAT32 or BFLOAT16, got: {weights.dtype.native}")
    if weights.layout is Layout.TILE:
        own, other = (f"logical[-1]={_width(spec)} padded[-1]={spec.padded_shape[-1]}" for spec in (x, weights))
        fatal(
            weights.padded_shape[-1] == x.padded_shape[-1] and _width(weights) >= _width(x),
            f"Input and {low} padded widths must match and {low} logical width must be >= input logical width "
            f"(otherwise valid input columns would be multiplied by {low} padding). Got input: {own} vs {low}: {other}",
        )
        fatal(
            weights.padded_shape[-2] == TILE_SIZE,
            f"{name} tensor height must equal tile height ({TILE_SIZE}), got: {weights.padded_shape[-2]}",
        )
        return
    fatal(
        weights.padded_shape[-1] == TILE_SIZE and weights.volume == x.padded_shape[-1],
        f"{name}'s last padded dim needs to equal tile width and {low}'s volume needs to align with last padded dim of "
        f"input. Error with {low}.value().padded_shape(): {weights.padded_shape}, tile_width: {TILE_SIZE}, "
        f"{low}.value().physical_volume(): {weights.volume}, a.padded_shape(): {x.padded_shape}",
    )


def _width(spec: Spec) -> int:
    return spec.shape[-1] if len(spec.shape) else 1


def _check_residual(x: Spec, residual: Spec) -> None:
    fatal(
        x.shape == residual.shape and x.padded_shape == residual.padded_shape,
        f"Input and residual logical and padded shapes must match, got input: logical={x.shape} "
        f"padded={x.padded_shape} vs residual: logical={residual.shape} padded={residual.padded_shape}",
    )


def _check_shards(x: Spec) -> None:
    """`validate_shard_spec`: the grid holds the tensor's shards exactly."""
    rows, columns = x.shards
    cores, width = x.shard.num_cores(), x.physical[1]
    if x.memory_config.memory_layout is TensorMemoryLayout.WIDTH_SHARDED:
        padded = cores * x.shard.shape[1]
        fatal(
            padded >= width and padded - width < x.shard.shape[1],
            f"Shard-padded width ({cores}x{x.shard.shape[1]} = {padded}) does not align with tensor width {width}: "
            f"trailing pad {padded - width} must be less than one shard width ({x.shard.shape[1]})",
        )
        return
    fatal(
        rows * columns == cores,
        f"Shard layout requires {rows}x{columns} = {rows * columns} shards but shard grid has {cores} cores",
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
