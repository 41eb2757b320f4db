# SPDX-License-Identifier: Apache-2.0
"""`ttnn.transformer.scaled_dot_product_attention`: softmax(q k^T) v, chunk after chunk of the queries and keys.

Planned for the default program and for chunk sizes of a program config, the buffers as the real library's program
lists them; ragged variants (windows, sinks, block maps) are refused.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch

from tt_cnn.virtual.arguments.refusals import refuse_unfollowed
from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.cost.rows import Stream
from tt_cnn.virtual.cost.tensix import BlockProduct, vector_cycles
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.numerics import host_round
from tt_cnn.virtual.numerics.accumulation import product, total
from tt_cnn.virtual.ops.compute_program import ComputeProgram
from tt_cnn.virtual.ops.eltwise.binary_plan import plan_binary
from tt_cnn.virtual.ops.eltwise.kinds import MUL
from tt_cnn.virtual.ops.eltwise.time import Tiles, overlapped_cycles
from tt_cnn.virtual.ops.experimental.attention_config import SDPAChunks, SDPAProgramConfig
from tt_cnn.virtual.ops.matmul.problem import Compute
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.planning.plan import CircularBuffer, Planner, Slot
from tt_cnn.virtual.planning.program import Step
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.compute_config import WormholeComputeKernelConfig
from tt_cnn.virtual.types.enums import DataType, Layout, MathFidelity
from tt_cnn.virtual.types.geometry import TILE_SIZE, CoreRange, CoreRangeSet, div_up
from tt_cnn.virtual.types.memory_config import DRAM_MEMORY_CONFIG, MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

_KEPT = DataType.BFLOAT16
"""Scores, exponentials and sums are stored in this format between the program's phases."""
_DEFAULT_FIDELITY = MathFidelity.HiFi2
"""Of a call without a compute config, whose exponentials are approximate (sdpa.cpp)."""
_PASSES_A_CHUNK = 5
"""For a chunk of keys: scores, their maximum, their exponential, its sum and the result."""
_CONSTANTS = 2
"""Tiles that the writer fills: the factor of the sums, and ones."""
_SCORE_PASSES, _RESULT_PASSES = 3, 2
"""What tiles go through beside the products: scores for their maximum, their exponential and its sum; results to be
scaled down when a larger maximum came, and added up."""


@dataclass(frozen=True, kw_only=True)
class AttentionProgram(ComputeProgram):
    """Each core takes chunks of queries, and for each goes through the chunks of keys and values."""

    suffix: ClassVar[str] = "Operation"
    op: str = "SDPA"
    factory: str = "SDPAProgramFactory"
    causal: bool
    scale: float | None
    rows: int
    """Tiles of a chunk of queries."""
    columns: int
    """Tiles of a chunk of keys."""
    width: int
    """Tiles of a head."""
    query_chunks: int
    """That a core works on."""
    key_chunks: float
    """For each of them, on an average where it is causal: the later half of the keys is not looked at."""

    def time(self, step: Step, figures: Figures) -> Cycles:
        """Scores are a product on the matrix unit, their exponentials the vector unit's work, results one more product.

        All keys and values are read again for every chunk of queries. With each chunk of keys the unpacker and packer
        change from one to the next of several short passes. Cores beyond the chunks have nothing to do.
        """
        q, k, v, *mask = (slot.spec for slot in step.inputs)
        batch, heads, length, _ = q.padded_shape
        worked = batch * heads * div_up(length, self.rows * TILE_SIZE)
        cores = min(step.cores.num_cores(), div_up(worked, self.query_chunks))
        chunks = self.query_chunks * self.key_chunks
        scores, results = chunks * self.rows * self.columns, chunks * self.rows * self.width
        products = (
            self._product(self.columns, self.width, q.dtype, k.dtype),
            self._product(self.width, self.columns, _KEPT, v.dtype),
        )
        matrix = chunks * sum(product.multiply_cycles(figures) for product in products)
        multiplied = chunks * sum(product.cycles(figures) for product in products)
        vector = scores * vector_cycles(figures, "exp", True)
        passed = (_SCORE_PASSES * scores + _RESULT_PASSES * results) * figures.elementwise_cycles
        changes = chunks * _PASSES_A_CHUNK * figures.reconfigure_cycles
        queries, keys = self.rows * self.width, self.columns * self.width
        streamed = overlapped_cycles(
            figures,
            cores,
            [
                Tiles(q, self.query_chunks * queries, queries),
                *(Tiles(one, chunks * keys, keys) for one in (k, v)),
                *(Tiles(one, scores, self.rows * self.columns) for one in mask),
            ],
            [Tiles(step.outputs[0].spec, self.query_chunks * queries, queries)],
            compute=multiplied + passed + vector + changes,
            matrix=matrix,
            vector=vector,
            unpack_pack=passed,
        )
        first = Stream(q, queries + keys, queries + keys).together(figures, cores)
        out = step.outputs[0].spec
        last = Stream(out, queries, queries).together(figures, cores, read=False)
        start = _CONSTANTS * figures.constant_tile_cycles
        return streamed._replace(total=streamed.total + start + first + last)

    def _product(self, width: int, inner: int, left: DataType, right: DataType) -> BlockProduct:
        """Sub-blocks of a row of tiles, as wide as the registers allow."""
        registers = 8 if self.compute is None else self.compute.registers
        across = next(n for n in range(min(width, registers), 0, -1) if width % n == 0)
        fidelity = self.fidelity or _DEFAULT_FIDELITY
        return BlockProduct(self.rows, width, inner, 1, across, left, right, _KEPT, fidelity)


@op("transformer.scaled_dot_product_attention")
class ScaledDotProductAttention(Operation):
    """Attention over heads (B, H, S, D); keys and values may have fewer heads, which groups of queries share."""

    def arguments(
        self,
        input_tensor_q: Tensor,
        input_tensor_k: Tensor,
        input_tensor_v: Tensor,
        *,
        attn_mask: Tensor | None = None,
        is_causal: bool = True,
        scale: float | None = None,
        sliding_window_size: int | None = None,
        memory_config: MemoryConfig | None = None,
        program_config: SDPAProgramConfig | None = None,
        compute_kernel_config: WormholeComputeKernelConfig | None = None,
        attention_sink: Tensor | None = None,
        cu_window_seqlens: Tensor | None = None,
        windowed_q_token_offset: int = 0,
        windowed_q_token_offset_tensor: Tensor | None = None,
        output_concat_heads: bool = False,
        attn_mask_block_map: Tensor | None = None,
    ) -> Call:
        refuse_unfollowed(
            self.name,
            sliding_window_size=sliding_window_size,
            attention_sink=attention_sink,
            cu_window_seqlens=cu_window_seqlens,
            windowed_q_token_offset_tensor=windowed_q_token_offset_tensor,
            attn_mask_block_map=attn_mask_block_map,
            output_concat_heads=output_concat_heads,
        )
        compute = None if compute_kernel_config is None else Compute.of(compute_kernel_config)
        chunks = SDPAChunks() if program_config is None else program_config.frozen()
        tensors = [input_tensor_q, input_tensor_k, input_tensor_v] + ([] if attn_mask is None else [attn_mask])
        return Call(tensors, causal=is_causal, scale=scale, memory_config=memory_config, chunks=chunks, compute=compute)

    def plan(
        self,
        planner: Planner,
        q: Slot,
        k: Slot,
        v: Slot,
        *mask: Slot,
        causal: bool,
        scale: float | None,
        memory_config: MemoryConfig | None,
        chunks: SDPAChunks,
        compute: Compute | None,
    ) -> list[Slot]:
        _check(q.spec, k.spec, v.spec, mask[0].spec if mask else None, causal)
        scaled = [_scaled(planner, one) for one in mask]
        inputs = [q, k, v, *scaled]
        output = planner.allocate(Spec(q.spec.shape, q.spec.dtype, Layout.TILE, memory_config or DRAM_MEMORY_CONFIG))
        cores = planner.grid if chunks.grid is None else _from_origin(chunks.grid)
        rows, columns = div_up(chunks.queries, TILE_SIZE), div_up(chunks.keys, TILE_SIZE)
        key_chunks = div_up(k.spec.padded_shape[2], columns * TILE_SIZE)
        program = AttentionProgram(
            cores=cores,
            compute=compute,
            causal=causal,
            scale=scale,
            rows=rows,
            columns=columns,
            width=q.spec.padded_shape[3] // TILE_SIZE,
            query_chunks=(queries := _chunks_per_core(cores.num_cores(), q.spec, causal, rows)),
            key_chunks=(key_chunks + 1) / 2 if causal and queries > 1 else key_chunks,
        )
        planner.dispatch(replace(program, buffers=_buffers(program, inputs)), inputs, [output])
        planner.free(*scaled)
        return [output]

    def numbers(
        self,
        context: Context,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        *mask: torch.Tensor,
        causal: bool,
        scale: float | None,
        **_: Any,
    ) -> list[torch.Tensor]:
        """Products and sums in float32, whatever the compute config; scores and exponentials are rounded to bfloat16
        unless numbers are native."""
        values = [context.logical(value, i) for i, value in enumerate((q, k, v))]
        groups = values[0].shape[1] // values[1].shape[1]
        keys, content = (value.repeat_interleave(groups, 1) for value in values[1:])
        factor = scale if scale is not None else values[0].shape[-1] ** -0.5
        native = context.engine.numerics == "native"
        multiplied = torch.matmul if native else product
        scores = multiplied(values[0], keys.transpose(-2, -1))
        rows, columns = scores.shape[-2:]
        if causal:
            scores = scores.masked_fill(
                torch.ones(rows, columns, dtype=torch.bool).triu(1).to(scores.device), -torch.inf
            )
        scores = _kept(context, scores) * factor
        if mask:
            scores = scores + context.logical(mask[0], 3)
        weights = _kept(context, (scores - scores.amax(-1, keepdim=True)).exp())
        sums = weights.sum(-1, keepdim=True) if native else total(weights, dims=(-1,))
        return [context.store(multiplied(weights, content) / sums)]


def _kept(context: Context, value: torch.Tensor) -> torch.Tensor:
    return value if context.engine.numerics == "native" else host_round(value, _KEPT)


def _from_origin(grid: tuple[int, int]) -> CoreRangeSet:
    return CoreRangeSet([CoreRange((0, 0), (grid[0] - 1, grid[1] - 1))])


def _scaled(planner: Planner, mask: Slot) -> Slot:
    """The mask by the inverse of the scale: the program adds it before it scales."""
    return plan_binary(planner, MUL, mask, None, dtype=mask.spec.dtype)


def _check(q: Spec, k: Spec, v: Spec, mask: Spec | None, causal: bool) -> None:
    (batch, heads, rows, width), shared, content = (tuple(s.shape[i] for i in range(4)) for s in (q, k, v))
    for spec in (q, k, v):
        fatal(spec.layout is Layout.TILE, "Inputs to SDPA must be tilized")
        fatal(not spec.is_sharded, "Operands to SDPA need to be in DRAM or L1, not in shards, on this card")
    for name, i, alike in (
        ("batch", 0, shared[0] == content[0] == batch),
        ("num_heads", 1, shared[1] == content[1]),
        ("sequence length", 2, shared[2] == content[2]),
        ("hidden dim", 3, shared[3] == content[3] == width),
    ):
        fatal(alike, f"K and V {name} must match. Got K: {shared[i]}, V: {content[i]}")
    fatal(
        heads % shared[1] == 0,
        "Q num_heads must be >= K num_heads and divisible by K num_heads, and K num_heads must be greater than 0. Got "
        f"Q: {heads}, K: {shared[1]}",
    )
    if causal:
        fatal(mask is None, "is_causal is specified: attn_mask must not be given")
        fatal(
            rows == shared[2],
            f"Causal SDPA requires Q and K to have the same sequence length. Got Q: {rows}, K: {shared[2]}",
        )
    elif mask is not None:
        fatal(
            mask.shape[2] == q.shape[2] and mask.shape[3] == k.shape[2],
            "attn_mask must be of the size of queries by keys",
        )


def _buffers(program: AttentionProgram, inputs: list[Slot]) -> tuple[CircularBuffer, ...]:
    """In the order of the real program."""
    q, k, v, *mask = (slot.spec for slot in inputs)
    rows, columns, width = program.rows, program.columns, program.width
    one, scores, result = (count * _KEPT.tile_bytes for count in (1, rows * columns, rows * width))
    sizes = {"queries": rows * width * (2 if program.query_chunks > 1 else 1) * q.dtype.tile_bytes}
    sizes |= {name: columns * width * 2 * spec.dtype.tile_bytes for name, spec in (("keys", k), ("values", v))}
    if mask:
        sizes["mask"] = 2 * rows * columns * mask[0].dtype.tile_bytes
    else:
        tiles = _own_mask(q, k, program.causal, rows * TILE_SIZE, columns * TILE_SIZE)
        sizes |= {"mask": tiles * _KEPT.tile_bytes} if tiles else {}
    sizes |= {"scale": one, "scaler": one, "column of ones": one, "scores": scores}
    sizes |= {"result": result, "result before": result}
    statistics = ("maxima", "maxima before", "sums", "sums before", "correction")
    sizes |= dict.fromkeys(statistics, rows * _KEPT.tile_bytes)
    sizes["output"] = 2 * (1 if rows % 2 else 2) * width * q.dtype.tile_bytes
    return tuple(CircularBuffer(size, program.cores, name=name) for name, size in sizes.items())


def _chunks_per_core(cores: int, q: Spec, causal: bool, rows: int) -> int:
    """Chunks of queries that one core gets. Causal ones go in pairs, a short and a long one, if possible."""
    batch, heads, queries, _ = q.padded_shape
    chunks = div_up(queries, rows * TILE_SIZE)
    together = 2 if causal and chunks % 2 == 0 else 1
    return together * div_up(batch * heads * chunks // together, cores)


def _own_mask(q: Spec, k: Spec, causal: bool, rows: int, columns: int) -> int:
    """Tiles of the program's own mask: one that hides all, and one for the diagonal or for the keys' end."""
    cut = k.shape[2] % columns != 0
    if not (causal or cut or q.shape[2] % rows):
        return 0
    return 2 if causal or cut else 1
