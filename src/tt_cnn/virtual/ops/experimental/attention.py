"""`ttnn.transformer.scaled_dot_product_attention`: softmax(q k^T) v, chunk after chunk of the queries and keys.

Planned for the default program and for chunk sizes of a program config, the buffers as the real library's program
lists them; ragged variants (windows, sinks, block maps) are refused.
"""

from __future__ import annotations

from typing import Any

import torch

from tt_cnn.virtual.arguments.refusals import refuse_unfollowed
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.numerics import host_round
from tt_cnn.virtual.numerics.accumulation import product, total
from tt_cnn.virtual.ops.eltwise.binary_plan import plan_binary
from tt_cnn.virtual.ops.eltwise.kinds import MUL
from tt_cnn.virtual.ops.eltwise.unary_plan import traffic
from tt_cnn.virtual.ops.experimental.attention_config import SDPAProgram, SDPAProgramConfig
from tt_cnn.virtual.ops.matmul.problem import Compute
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.planning.plan import CircularBuffer, Planner, Slot
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.compute_config import WormholeComputeKernelConfig
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, CoreRange, CoreRangeSet, div_up
from tt_cnn.virtual.types.memory_config import DRAM_MEMORY_CONFIG, MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

_KEPT = DataType.BFLOAT16
"""Scores, exponentials and sums are stored in this format between the program's phases."""


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
        program = SDPAProgram() if program_config is None else program_config.frozen()
        tensors = [input_tensor_q, input_tensor_k, input_tensor_v] + ([] if attn_mask is None else [attn_mask])
        return Call(
            tensors, causal=is_causal, scale=scale, memory_config=memory_config, program=program, compute=compute
        )

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
        program: SDPAProgram,
        compute: Compute | None,
    ) -> list[Slot]:
        _check(q.spec, k.spec, v.spec, mask[0].spec if mask else None, causal)
        scaled = [_scaled(planner, one) for one in mask]
        inputs = [q, k, v, *scaled]
        output = planner.allocate(Spec(q.spec.shape, q.spec.dtype, Layout.TILE, memory_config or DRAM_MEMORY_CONFIG))
        cores = planner.grid if program.grid is None else _from_origin(program.grid)
        buffers = [CircularBuffer(size, cores) for size in _sizes(cores.num_cores(), inputs, causal, program)]
        batch, heads, rows, width = q.spec.shape
        macs = 2 * batch * heads * rows * k.spec.shape[2] * width
        work = traffic([slot.spec for slot in inputs], [output.spec], 4 * macs // (2 * width), macs)
        attributes = {"causal": causal, "scale": scale, "program": program, "compute": compute}
        planner.step("SDPAOperation", "SDPAProgramFactory", cores, inputs, [output], buffers, attributes, work)
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


def _sizes(cores: int, inputs: list[Slot], causal: bool, program: SDPAProgram) -> list[int]:
    """Bytes a core of the program's buffers, in their order."""
    q, k, v, *mask = (slot.spec for slot in inputs)
    rows, columns = div_up(program.queries, TILE_SIZE), div_up(program.keys, TILE_SIZE)
    width = q.padded_shape[3] // TILE_SIZE
    several = _chunks_a_core(cores, q, causal, rows) > 1
    one, scores, result = (count * _KEPT.tile_bytes for count in (1, rows * columns, rows * width))
    given = [rows * width * (2 if several else 1) * q.dtype.tile_bytes]
    given += [columns * width * 2 * spec.dtype.tile_bytes for spec in (k, v)]
    if mask:
        given.append(2 * rows * columns * mask[0].dtype.tile_bytes)
    else:
        tiles = _own_mask(q, k, causal, rows * TILE_SIZE, columns * TILE_SIZE)
        given += [tiles * _KEPT.tile_bytes] if tiles else []
    statistics = rows * _KEPT.tile_bytes
    between = [one, one, one, scores, result, result, *[statistics] * 5]
    return [*given, *between, 2 * (1 if rows % 2 else 2) * width * q.dtype.tile_bytes]


def _chunks_a_core(cores: int, q: Spec, causal: bool, rows: int) -> int:
    """Chunks of queries that one core gets. Causal ones are dealt in pairs, a short with a long one, if they can be."""
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
