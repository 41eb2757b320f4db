# SPDX-License-Identifier: Apache-2.0
"""ttnn.repeat_interleave: each element of a dimension repeated in its place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.eltwise.typecast import plan_typecast
from tt_cnn.virtual.ops.layout.moving import PagesProgram
from tt_cnn.virtual.ops.layout.to_layout import plan_to_layout
from tt_cnn.virtual.ops.layout.to_memory_config import plan_to_memory_config
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.ops.shape.concat import plan_concat
from tt_cnn.virtual.ops.shape.programs import Temporaries, alignment, cores_for, normalized
from tt_cnn.virtual.ops.shape.reordering import plan_transpose
from tt_cnn.virtual.ops.shape.repeat.program import DEPTH, repeated
from tt_cnn.virtual.ops.shape.reshape.reshape import plan_reshape
from tt_cnn.virtual.ops.shape.reshape.squeezing import plan_unsqueeze
from tt_cnn.virtual.planning.plan import CircularBuffer, Planner, Slot
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, Shape, round_up
from tt_cnn.virtual.types.memory_config import DRAM_MEMORY_CONFIG, MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

_GENERATED_DTYPES = (DataType.BFLOAT16, DataType.FLOAT32, DataType.INT32)
_CAST = (DataType.BFLOAT8_B, DataType.BFLOAT4_B, DataType.UINT8)
BATCH = 32
"""Copies that are joined at a time."""


def plan_repeat_interleave(planner: Planner, x: Slot, times: int, dim: int, config: MemoryConfig | None = None) -> Slot:
    at = normalized(dim, len(x.spec.shape))
    if _generated(planner, x.spec, times, at, config):
        return _through_generated(planner, x, times, at, config or x.spec.memory_config)
    return _through_concat(planner, x, times, at, config)


def _slot_bytes(planner: Planner, spec: Spec, config: MemoryConfig) -> int:
    card = planner.card
    stick = spec.shape[-1] * spec.dtype.element_bytes
    out_word = card.l1_alignment if config.is_l1() else card.dram_alignment
    return max(round_up(stick, alignment(card, spec)), round_up(stick, out_word))


@dataclass(frozen=True, kw_only=True)
class RepeatInterleaveCodegenProgram(PagesProgram):
    op: str = "RepeatInterleaveCodegen"
    factory: str = "RepeatInterleaveCodegenProgramFactory"
    times: int
    dim: int


def _generated(planner: Planner, spec: Spec, times: int, dim: int, config: MemoryConfig | None) -> bool:
    rank = len(spec.shape)
    if spec.is_sharded or (config is not None and config.is_sharded()) or not 2 <= rank <= 4 or times < 2:
        return False
    if 0 in spec.shape or spec.dtype not in _GENERATED_DTYPES:
        return False
    if spec.layout is Layout.TILE:
        return dim < rank - 2
    if spec.shape[-1] < 2 or dim == rank - 1:
        return False
    return planner.program_l1() // _slot_bytes(planner, spec, config or spec.memory_config) >= 2


def _through_generated(planner: Planner, x: Slot, times: int, dim: int, config: MemoryConfig) -> Slot:
    spec = x.spec
    output = planner.allocate(Spec(repeated(spec.shape, dim, times), spec.dtype, spec.layout, config))
    if spec.layout is Layout.TILE:
        cores = cores_for(planner.card, output.spec.volume // TILE_SIZE**2)
        size = DEPTH * spec.dtype.tile_bytes
    else:
        cores = cores_for(planner.card, output.spec.logical_2d[0])
        slot = _slot_bytes(planner, spec, config)
        most = planner.program_l1() // slot
        batch = DEPTH // 2
        while 2 * batch > most:
            batch //= 2
        size = 2 * batch * slot
    buffers = (CircularBuffer(size, cores, name="pages"),)
    planner.dispatch(RepeatInterleaveCodegenProgram(cores=cores, buffers=buffers, times=times, dim=dim), [x], [output])
    return output


def _through_concat(planner: Planner, x: Slot, times: int, dim: int, config: MemoryConfig | None) -> Slot:
    spec = x.spec
    rank = len(spec.shape)
    scope = Temporaries(planner)
    if rank == 1:
        column = plan_unsqueeze(planner, x, 1)
        joined = scope.add(_through_concat(planner, scope.add(column), times, 0, config))
        result = plan_reshape(planner, joined, Shape([spec.shape[0] * times]))
        scope.leave(result)
        return result
    if spec.is_sharded and times > 1:
        # Row-major L1 shards of four dimensions go through `upsample` in the real library; here they too go by DRAM.
        whole = scope.add(plan_to_memory_config(planner, x, DRAM_MEMORY_CONFIG))
        joined = scope.add(_through_concat(planner, whole, times, dim, DRAM_MEMORY_CONFIG))
        result = plan_to_memory_config(planner, joined, config or DRAM_MEMORY_CONFIG)
        scope.leave(result)
        return result
    target = config or spec.memory_config
    if times == 1:
        return plan_to_memory_config(planner, x, target)
    if dim == rank - 1:
        turned = scope.add(plan_transpose(planner, x, -1, -2, target))
        joined = scope.add(_through_concat(planner, turned, times, rank - 2, target))
        result = plan_transpose(planner, joined, -1, -2, target)
        scope.leave(result)
        return result
    current = x
    casts = spec.dtype in _CAST
    if casts:
        current = scope.add(plan_typecast(planner, current, DataType.BFLOAT16, target))
    current = scope.replace(current, plan_to_layout(planner, current, Layout.ROW_MAJOR, None, None))
    expanded = plan_unsqueeze(planner, current, dim + 1)
    batches = [min(BATCH, times - at) for at in range(0, times, BATCH)]
    parts = [scope.add(plan_concat(planner, [expanded] * count, dim + 1)) for count in batches]
    joined = scope.add(plan_concat(planner, parts, dim + 1))
    shaped = scope.add(plan_reshape(planner, joined, repeated(spec.shape, dim, times)))
    laid = scope.add(plan_to_layout(planner, shaped, spec.layout, None, None))
    result = plan_typecast(planner, laid, spec.dtype, target) if casts else plan_to_memory_config(planner, laid, target)
    scope.leave(result)
    return result


@op("repeat_interleave")
class RepeatInterleave(Operation):
    """Each element of a dimension so many times in a row."""

    def arguments(
        self, input_tensor: Tensor, repeats: int, dim: int, *, memory_config: MemoryConfig | None = None
    ) -> Call:
        return Call([input_tensor], repeats=int(repeats), dim=int(dim), memory_config=memory_config)

    def plan(self, planner: Planner, x: Slot, repeats: int, dim: int, memory_config: MemoryConfig | None) -> list[Slot]:
        most = planner.card.dram_banks * planner.card.dram_bank_size // max(1, x.spec.num_pages * x.spec.page_bytes)
        fatal(repeats <= most, f"{repeats} repeats of {x.spec.shape} are more than the card's DRAM holds.")
        return [plan_repeat_interleave(planner, x, repeats, dim, memory_config)]

    def numbers(self, context: Context, x: torch.Tensor, repeats: int, dim: int, **_: Any) -> list[torch.Tensor]:
        return [context.store(context.logical(x).repeat_interleave(repeats, dim=dim))]
