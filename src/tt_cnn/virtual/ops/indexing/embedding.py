# SPDX-License-Identifier: Apache-2.0
"""`embedding`: rows of a table by their numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.cost.pipeline import Block, Pages, Share, pipeline_cycles, reading_cycles
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.indexing.indices import checked_indices
from tt_cnn.virtual.ops.layout.relayout import scratchpad, staging
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.ops.reduction.units import cores_for_work, tiles
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.planning.program import Program, Step
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import DataType, EmbeddingsType, Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, Shape, div_up
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

_INDICES, _INDICES_OF_TILES = 256, 128
"""Bytes of indices that a kernel reads at a time (recorded)."""
_ROWS_KEPT = {EmbeddingsType.GENERIC: 0, EmbeddingsType.PADDED: 1, EmbeddingsType.BINARY: 2}
"""Rows of the table that a kernel keeps beside it. The values are the same."""


@dataclass(frozen=True, kw_only=True)
class EmbeddingProgram(Program):
    """Row by row of the table; rows become tiles on the way where tiles are wanted."""

    op: str = "Embeddings"
    kind: EmbeddingsType
    token: int | None

    def time(self, step: Step, figures: Figures) -> Cycles:
        """A block of indices, then the rows that they name: 32 before a wait where they become tiles, else one."""
        indices, table, output = step.inputs[0].spec, step.inputs[1].spec, step.outputs[0].spec
        cores = self.cores.num_cores()
        rows = max(1, div_up(indices.volume, cores))
        tiled = output.layout is Layout.TILE
        at_once = TILE_SIZE if tiled else 1
        tiles = div_up(table.page_bytes, TILE_SIZE * table.dtype.element_bytes)
        block = Block(
            reads=[Pages(table, at_once, table.page_bytes)],
            writes=[Pages(output, tiles if tiled else 1, output.page_bytes)],
            compute=tiles * figures.tilize(table.dtype, output.dtype, False) if tiled else 0.0,
        )
        fetched = Block(reads=[Pages(indices, 1, min(indices.page_bytes, _INDICES))])
        start = div_up(rows, TILE_SIZE) * reading_cycles(figures, fetched)
        return pipeline_cycles(figures, Share.of(div_up(indices.volume, at_once), cores), block, start=start)

    def dram_bytes(self, step: Step) -> int:
        """Without the table, of which a few rows are read."""
        return super().dram_bytes(replace(step, inputs=step.inputs[:1]))


@op("embedding")
class Embedding(Operation):
    """Rows of a table by their numbers."""

    def arguments(
        self,
        input_tensor: Tensor,
        weight: Tensor,
        *,
        padding_idx: int | None = None,
        layout: Any = None,
        embeddings_type: EmbeddingsType = EmbeddingsType.GENERIC,
        dtype: Any = None,
        memory_config: Any = None,
        output_tensor: Tensor | None = None,
    ) -> Call:
        tensors = [input_tensor, weight] + ([] if output_tensor is None else [output_tensor])
        return Call(
            tensors,
            kind=_kind(embeddings_type, padding_idx),
            token=padding_idx,
            layout=layout,
            dtype=dtype,
            memory_config=memory_config,
        )

    def plan(
        self,
        planner: Planner,
        x: Slot,
        table: Slot,
        *given: Slot,
        kind: EmbeddingsType,
        token: int | None,
        layout: Layout | None,
        dtype: DataType | None,
        memory_config: MemoryConfig | None,
    ) -> list[Slot]:
        if kind is EmbeddingsType.BINARY:
            fatal(table.spec.padded_shape[-2] == 2, "Weight tensor must have 2 embeddings for BINARY Embeddings Type")
        fatal(table.spec.dtype is DataType.BFLOAT16, "Weights tensor must have BFLOAT16 dtype")
        target = layout or table.spec.layout
        shape = Shape((*x.spec.shape, table.spec.shape[-1]))
        config = memory_config or x.spec.memory_config
        wanted = Spec(shape, dtype or table.spec.dtype, target, config)
        out = _given(planner, given[0], wanted) if given else planner.allocate(wanted)
        rows, row = x.spec.shape.volume(), table.spec.page_bytes
        if target is Layout.TILE:
            columns = tiles(out.spec)[2]
            cores = cores_for_work(planner, max(1, rows // TILE_SIZE))
            sizes = {
                "rows": 2 * columns * table.spec.dtype.tile_bytes,
                "output": 2 * columns * out.spec.dtype.tile_bytes,
            }
            factory, indices = "EmbeddingsFusedProgramFactory", _INDICES_OF_TILES
        else:
            cores = cores_for_work(planner, rows)
            sizes = {"rows": row * (2 if rows > planner.card.cores else 1)}
            factory, indices = "EmbeddingsRMProgramFactory", _INDICES
        private = {"indices": indices, "kept rows": _ROWS_KEPT[kind] * row}
        buffers = (
            *(staging(size, cores, name=name) for name, size in sizes.items()),
            *(scratchpad(size, cores, name) for name, size in private.items() if size),
        )
        program = EmbeddingProgram(factory=factory, cores=cores, buffers=buffers, kind=kind, token=token)
        planner.dispatch(program, [x, table], [out])
        return [out]

    def numbers(
        self, context: Context, x: torch.Tensor, table: torch.Tensor, *_: torch.Tensor, **__: Any
    ) -> list[torch.Tensor]:
        rows = context.logical(table, 1).reshape(-1, context.inputs[1].shape[-1])
        return [context.store(rows[checked_indices(context.logical(x), len(rows), "embedding")])]


def _kind(asked: EmbeddingsType, token: int | None) -> EmbeddingsType:
    """A padding index makes the table a padded one, whatever type was asked for (recorded)."""
    if token is not None:
        return EmbeddingsType.PADDED
    fatal(asked is not EmbeddingsType.PADDED, "Pad token must be specified when PADDED Embeddings Type is specified")
    return asked


def _given(planner: Planner, given: Slot, wanted: Spec) -> Slot:
    """The caller's tensor under the shape of the result."""
    own = given.spec
    fatal(
        own.shape.volume() == wanted.shape.volume(),
        "Attempting to reshape between two shapes with different volumes",
    )
    fatal(
        (own.dtype, own.layout) == (wanted.dtype, wanted.layout),
        f"embedding is planned with an output_tensor of the result's dtype and layout ({wanted.dtype.native}, "
        f"{wanted.layout.native}) on this card, got {own.dtype.native}, {own.layout.native}.",
    )
    if own.shape == wanted.shape:
        return given
    return planner.view(given, wanted.with_(memory_config=own.memory_config))
