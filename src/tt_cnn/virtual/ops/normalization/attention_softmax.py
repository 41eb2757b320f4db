# SPDX-License-Identifier: Apache-2.0
"""`transformer.attention_softmax` and `attention_softmax_`: softmax of scores that are scaled and masked first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.numerics import matrix_unit
from tt_cnn.virtual.numerics.fidelity import to_source
from tt_cnn.virtual.ops.eltwise.binary_numbers import scalar_operand
from tt_cnn.virtual.ops.matmul.problem import Compute
from tt_cnn.virtual.ops.normalization.configs import SoftmaxDefaultProgramConfig, SoftmaxShardedMultiCoreProgramConfig
from tt_cnn.virtual.ops.normalization.softmax import (
    _L1_SHARE,
    _LONG,
    SoftmaxProgram,
    _intermediate,
    softmax_rows,
)
from tt_cnn.virtual.ops.operation import OPERATIONS, Call, Context, Operation, op
from tt_cnn.virtual.ops.reduction.units import staged, tiles
from tt_cnn.virtual.ops.reduction.values import reduction_compute
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, CoreCoord, Shape, num_cores_to_corerangeset, round_up
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

_BF16, _F32 = DataType.BFLOAT16, DataType.FLOAT32
_DTYPES = (_F32, _BF16, DataType.BFLOAT8_B)
_PER_HEAD = (
    "This path requires head-uniform masks; apply a per-head bias with a separate ttnn::add before ttnn::softmax."
)

ProgramConfig = SoftmaxDefaultProgramConfig | SoftmaxShardedMultiCoreProgramConfig


@dataclass(frozen=True, kw_only=True)
class MaskedSoftmaxProgram(SoftmaxProgram):
    """Rows of tiles are scaled and masked on their way to their maximum."""

    scale: float
    causal: bool
    """Each row has its own row of the mask; without, the mask's first row is that of all."""


class _AttentionSoftmax(Operation):
    in_place = False

    def arguments(
        self,
        tensor: Tensor,
        *,
        head_size: int | None = None,
        attention_mask: Tensor | None = None,
        program_config: ProgramConfig | None = None,
        causal_mask: bool | None = False,
        memory_config: MemoryConfig | None = None,
    ) -> Call:
        """`program_config` changes nothing: recorded for shards with the default and with a sharded config."""
        fatal(
            not self.in_place or attention_mask is not None,
            "Cannot apply divide by sqrt(head_size) using in-place version when attention_mask is not set.",
        )
        tensors = [tensor] if attention_mask is None else [tensor, attention_mask]
        scale = 1.0 if head_size is None else head_size**-0.5
        return Call(tensors, scale=scale, causal=bool(causal_mask), memory_config=memory_config)

    def plan(
        self, planner: Planner, x: Slot, mask: Slot, scale: float, causal: bool, memory_config: MemoryConfig | None
    ) -> list[Slot]:
        spec = x.spec
        fatal(spec.layout is Layout.TILE, "Inputs to softmax must be tilized")
        fatal(
            spec.dtype in _DTYPES,
            f"Input tensor must be FLOAT32, BFLOAT16, or BFLOAT8_B, got: {spec.dtype.native}",
        )
        if self.in_place:
            _check_in_place(spec, mask.spec)
            out = x
        else:
            out = planner.allocate(spec.with_(memory_config=memory_config or spec.memory_config))
        _check_columns(spec, mask.spec)
        settings = reduction_compute(planner.card.arch, approx=spec.dtype is not _F32)
        kept = _intermediate(spec.dtype, None)
        matrices, rows, _ = tiles(spec)
        cores = num_cores_to_corerangeset(min(matrices * rows, planner.card.cores), CoreCoord(*planner.card.grid), True)
        program = MaskedSoftmaxProgram(
            factory="SoftmaxProgramFactoryAttentionOptimized",
            cores=cores,
            buffers=staged(cores, _sizes(planner, spec, mask.spec, out.spec, settings, kept)),
            compute=None,
            dim=len(spec.shape) - 1,
            stable=True,
            settings=settings,
            kept=kept,
            config=None,
            scale=scale,
            causal=causal,
        )
        planner.dispatch(program, [x, mask], [out])
        return [out]

    def numbers(self, context: Context, x: torch.Tensor, mask: torch.Tensor, **_: Any) -> list[torch.Tensor]:
        program = context.program(MaskedSoftmaxProgram)
        scores, added = context.logical(x), context.logical(mask, 1)
        if added.shape[-2] != 1 and not program.causal:
            added = added[..., :1, :]
        fatal(
            added.shape[-2] in (1, scores.shape[-2]),
            f"What a causal mask of {added.shape[-2]} rows does to scores of {scores.shape[-2]} rows is not known",
        )
        if context.engine.numerics == "native":
            return [context.store((scores * program.scale + added).softmax(-1))]
        engine, exact, kept, fp32 = context.engine, context.exact, program.kept, program.settings.fp32
        x_dtype, mask_dtype = (spec.dtype for spec in context.inputs)
        factor = to_source(scalar_operand(program.scale, _BF16, scores), _BF16).expand_as(scores)
        fidelity = program.settings.fidelity
        scaled = matrix_unit.mul(to_source(scores, x_dtype), factor, fidelity, fp32_dest=fp32, exact=exact)
        scaled = engine.pack(scaled, kept)
        masked = matrix_unit.add(
            to_source(scaled, kept), to_source(added.expand_as(scores), mask_dtype), fp32_dest=fp32, exact=exact
        )
        return [context.store(softmax_rows(context, engine.pack(masked, kept), program, kept))]


def _sizes(planner: Planner, x: Spec, mask: Spec, out: Spec, settings: Compute, kept_dtype: DataType) -> dict[str, int]:
    """Of the program for attention with a scale and a mask, in bytes: a row of tiles, or some of a long one."""
    _, _, columns = tiles(x)
    register, kept = (_F32 if settings.fp32 else _BF16).tile_bytes, kept_dtype.tile_bytes
    scaler = (_F32 if x.dtype is _F32 else _BF16).tile_bytes
    block = min(columns, 4 if settings.fp32 else 8)
    width = round_up(columns, block)
    tile, out_tile, one = x.dtype.tile_bytes, out.dtype.tile_bytes, _BF16.tile_bytes
    sizes = {"input": 2 * block * tile, "output": 2 * block * out_tile, "reciprocal sums": register, "scaler": scaler}
    sizes |= {"sums": register, "exponentials": width * kept, "scaled": (width + block) * kept, "scale": one}
    sizes |= {"attention mask": width * mask.dtype.tile_bytes, "mask": one, "maxima": kept, "shifted": width * kept}
    if sum(sizes.values()) <= planner.card.l1_size * _L1_SHARE:
        return sizes
    sizes |= {"input": _LONG * tile, "exponentials": _LONG * kept, "scaled": _LONG * kept, "shifted": _LONG * kept}
    sizes |= {"attention mask": _LONG * mask.dtype.tile_bytes}
    return sizes | {"partial maxima": kept, "partial sums": register, "sums before": register}


def _check_columns(x: Spec, mask: Spec) -> None:
    """The real kernels read past a mask that is narrower."""
    fatal(
        mask.layout is Layout.ROW_MAJOR or mask.shape[-1] == x.shape[-1],
        f"A mask of {mask.shape[-1]} columns does not go with scores of {x.shape[-1]}",
    )


def _check_in_place(x: Spec, mask: Spec) -> None:
    own, other = x.padded_shape, mask.padded_shape
    fatal(
        own[0] == other[0],
        f"Input and mask batch sizes must match, got {own} for input and {other} for mask",
    )
    if mask.is_sharded:
        return
    if mask.layout is Layout.ROW_MAJOR:
        expected = Shape((own[0], 1, own[-1] // TILE_SIZE, TILE_SIZE))
        fatal(other == expected, "Non-sharded mask shape must match expected shape")
    for dim in range(1, len(other) - 2):
        fatal(
            other[dim] == 1,
            f"Non-sharded mask intermediate dimensions must be 1, got {other[dim]} at dimension {dim}. {_PER_HEAD}",
        )


def _check_mask(x: Tensor, mask: Tensor) -> None:
    own, other = x.padded_shape, mask.padded_shape
    fatal(own[0] == other[0], f"Input and mask batch sizes must match, got input: {own[0]} vs mask: {other[0]}")
    fatal(
        own[-1] == other[-1],
        f"Input and mask inner dimensions must match, got input: {own[-1]} vs mask: {other[-1]}",
    )
    fatal(
        other[-2] in (1, TILE_SIZE),
        f"Mask height must be 1 or input tensor tile height ({TILE_SIZE}), got: {other[-2]}. A full causal mask is not "
        "accepted here; for causal attention use ttnn::transformer::scaled_dot_product_attention with is_causal=true.",
    )
    for dim in range(1, len(other) - 2):
        fatal(other[dim] == 1, f"Mask intermediate dimension {dim} must be 1, got: {other[dim]}. {_PER_HEAD}")


@op("transformer.attention_softmax_")
class AttentionSoftmaxInPlace(_AttentionSoftmax):
    """Scores over the square root of the head's size, a mask added, softmax: written over the scores."""

    in_place = True


@op("transformer.attention_softmax")
class AttentionSoftmax(_AttentionSoftmax):
    """The same in a new tensor of four dimensions. Without a mask it is a product and a softmax."""

    def shortcut(self, call: Call) -> Any:
        x, *mask = call.tensors
        config = call.attributes["memory_config"]
        if mask:
            _check_mask(x, mask[0])
            tiled = [_tiled(one) for one in (x, *mask)]
            if any(one is not given for one, given in zip(tiled, call.tensors, strict=True)):
                call.tensors = tiled
            return None
        scaled = OPERATIONS["multiply"](x, call.attributes["scale"])
        whole = _tiled(scaled)
        if len(whole.shape) < 4:
            whole = OPERATIONS["reshape"](whole, whole.shape.to_rank(4))
        return OPERATIONS["softmax"](whole, -1, memory_config=config)


def _tiled(x: Tensor) -> Tensor:
    if x.layout is Layout.TILE:
        return x
    *leading, rows, columns = x.shape
    padded = [*leading, round_up(rows, TILE_SIZE), round_up(columns, TILE_SIZE)]
    return OPERATIONS["tilize_with_val_padding"](x, padded, 0.0)
