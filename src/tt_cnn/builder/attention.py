# SPDX-License-Identifier: Apache-2.0
"""The layer of attention over tokens."""

from __future__ import annotations

from math import prod
from typing import Any

import torch

from tt_cnn import ttnn
from tt_cnn.builder.attention_configuration import AttentionConfiguration
from tt_cnn.builder.channel_slices import free
from tt_cnn.builder.constants import matrix_on_device
from tt_cnn.builder.flow import TILE, Flow
from tt_cnn.builder.layer import Layer, telling
from tt_cnn.builder.lowering import to_compute_config, whole_values
from tt_cnn.builder.naming import named
from tt_cnn.builder.rules import shown
from tt_cnn.builder.weights import replicated, to_one_torch

_HIDDEN = -1e9
"""In a mask: the card has no use for an infinity there. Also beyond the keys' end, up to the end of their tiles, which
TT-NN's op takes from the mask where one is given."""
_MOST_KEYS = 256
"""That are processed together: more of them fill L1."""
_SECTIONS = {1: (3,), 2: (1, 2), 3: (1, 1, 1)}
"""How many of q, k and v each of the tensors has, by the number of tensors."""
_CHUNKS = (128, 64, 32)
"""Queries that a core takes together."""


class TtAttention(Layer):
    """Tokens in, tokens out, by `ttnn.transformer.scaled_dot_product_attention`: products, a softmax and moves of heads
    as ops of their own take two to five times as long.

    Heads that are no whole tiles are widened and narrowed again by products with zeros and ones.
    """

    configuration: AttentionConfiguration
    configured_by = AttentionConfiguration

    def configure(self, configuration: Any) -> None:
        super().configure(configuration)
        self.compute_config = to_compute_config(configuration, self.device)
        self._widening: dict[int, Any] = {}
        self._narrowing: Any = None
        self.mask: Any = None
        """Bias and mask in one, on the device from the first call on; None where there is neither."""

    def __call__(self, x: Any, k: Any = None, v: Any = None) -> Any:
        """x is all of q, k and v (..., 3 * heads * head_dim), in this order; or q alone beside k and v, or beside k
        that is both of them (..., 2 * heads * head_dim). Tokens are (N, L, C), (N, 1, L, C), (1, N, L, C) or flattened
        (1, 1, N*L, C); the output has the leading dimensions of x. There may be other keys than queries."""
        given = [one for one in (x, k, v) if one is not None]
        for one in given:
            self._check_input(one)
        with named(self.name), telling(self.name):
            return self._first_alone(lambda: self._run(given))

    def _run(self, given: list[Any]) -> Any:
        config = self.configuration
        leading = tuple(given[0].shape)[:-1]
        in_l1 = given[0].memory_config().buffer_type == ttnn.BufferType.L1
        place = ttnn.L1_MEMORY_CONFIG if in_l1 else ttnn.DRAM_MEMORY_CONFIG
        flows = [Flow(one, config.deallocate_input) for one in given]
        tokens = [self._tokens(*each) for each in zip(flows, _SECTIONS[len(given)], strict=True)]
        heads = self._heads(tokens, place)
        attended = Flow(self._attended(heads, place), may_free=True)
        for one in heads:
            free(one)
        attended.then(ttnn.transformer.concatenate_heads, memory_config=place)
        if config.head_dim % TILE:
            if self._narrowing is None:
                narrowing = _widening(config.heads, config.head_dim).T.contiguous()
                self._narrowing = matrix_on_device(narrowing, self.device, ttnn.bfloat8_b)
            attended.then(self._product, self._narrowing, place)
        attended.then(ttnn.reshape, (*leading, config.heads * config.head_dim))
        return attended.move_to(config.memory_config or place).value

    # --- heads --------------------------------------------------------------------------------------------------------

    def _tokens(self, flow: Flow, sections: int) -> Flow:
        """(N, L, C), the heads as wide as whole tiles."""
        config = self.configuration
        width = config.heads * config.head_dim
        channels = flow.value.shape[-1]
        rows = prod(flow.value.shape) // channels
        if channels != sections * width or rows % config.batch_size:
            raise ValueError(
                f"the tokens are {shown(flow.value)}; they must be {config.batch_size} sequence(s) of "
                f"{sections} * {config.heads} * {config.head_dim} channels."
            )
        flow.in_tiles().interleaved().then(ttnn.reshape, (config.batch_size, rows // config.batch_size, channels))
        if config.head_dim % TILE:
            if sections not in self._widening:
                matrix = _widening(sections * config.heads, config.head_dim)
                self._widening[sections] = matrix_on_device(matrix, self.device, ttnn.bfloat8_b)
            flow.then(self._product, self._widening[sections], flow.value.memory_config())
        return flow

    def _product(self, x: Any, matrix: Any, place: Any) -> Any:
        """As a product of flattened tokens: of several matrices each has less to do for the cores."""
        batch, length, channels = tuple(x.shape)
        flat = Flow(x).then(ttnn.reshape, (1, 1, batch * length, channels) if length % TILE == 0 else (1, *x.shape))
        flat.then(
            ttnn.matmul,
            matrix,
            dtype=x.dtype,
            memory_config=place,
            compute_kernel_config=whole_values(self.device),
        )
        return flat.then(ttnn.reshape, (batch, length, matrix.shape[-1])).value

    def _heads(self, tokens: list[Flow], place: Any) -> list[Any]:
        """q, k and v as (N, heads, L, head_dim)."""
        lengths = {flow.value.shape[1] for flow in tokens}
        if len(lengths) == 1:
            if len(tokens) == 1:
                return self._split(tokens[0], place)
            joined = ttnn.concat([flow.value for flow in tokens], dim=2, memory_config=place)
            for flow in tokens:
                flow.end()
            return self._split(Flow(joined, may_free=True), place)
        return [self._split_queries(tokens[0], place), *self._split_others(tokens[1:], place)]

    def _split(self, flow: Flow, place: Any) -> list[Any]:
        found = ttnn.transformer.split_query_key_value_and_split_heads(
            flow.value, num_heads=self.configuration.heads, transpose_key=False, memory_config=place
        )
        flow.end()
        return list(found)

    def _split_queries(self, flow: Flow, place: Any) -> Any:
        """TT-NN has no op for queries alone: they stand in for the keys and values too."""
        joined = ttnn.concat([flow.value] * 3, dim=2, memory_config=place)
        flow.end()
        queries, *others = self._split(Flow(joined, may_free=True), place)
        for one in others:
            free(one)
        return queries

    def _split_others(self, tokens: list[Flow], place: Any) -> list[Any]:
        """Keys stand in for queries."""
        parts = [flow.value for flow in tokens]
        batch, length, channels = tuple(parts[0].shape)
        keys = parts[0] if len(parts) == 2 else ttnn.slice(parts[0], [0, 0, 0], [batch, length, channels // 2])
        joined = ttnn.concat([keys, *parts], dim=2, memory_config=place)
        if len(parts) == 1:
            free(keys)
        for flow in tokens:
            flow.end()
        unused, *others = self._split(Flow(joined, may_free=True), place)
        free(unused)
        return others

    # --- attention ----------------------------------------------------------------------------------------------------

    def _attended(self, heads: list[Any], place: Any) -> Any:
        config = self.configuration
        queries, keys, values = heads
        lengths = queries.shape[2], keys.shape[2]
        if self.mask is None and (config.bias is not None or config.mask is not None):
            self.mask = self._combined_mask(lengths)
        return ttnn.transformer.scaled_dot_product_attention(
            queries,
            keys,
            values,
            attn_mask=self.mask,
            is_causal=False,
            scale=config.scale if config.scale is not None else config.head_dim**-0.5,
            memory_config=place,
            program_config=self._chunks(*lengths),
            compute_kernel_config=self.compute_config,
        )

    def _combined_mask(self, lengths: tuple[int, int]) -> Any:
        """Of all sequences where a mask tells windows apart; TT-NN spreads one over all sequences and heads."""
        config = self.configuration
        given = [to_one_torch(one).float() for one in (config.bias, config.mask) if one is not None]
        if tuple(given[0].shape[2:]) != lengths:
            raise ValueError(f"bias and mask are for {tuple(given[0].shape[2:])} queries and keys, not for {lengths}.")
        total = torch.clamp(sum(given[1:], given[0]), min=_HIDDEN)
        if total.shape[0] > 1:
            total = total.repeat(config.batch_size // total.shape[0], 1, 1, 1)
        return ttnn.from_torch(
            total,
            dtype=ttnn.bfloat16,
            layout=ttnn.TILE_LAYOUT,
            device=self.device,
            pad_value=_HIDDEN,
            mesh_mapper=replicated(self.device),
        )

    def _chunks(self, queries: int, keys: int) -> Any:
        """As few rounds of queries as the cores allow, and keys together as far as there is room."""
        config = self.configuration
        grid = self.device.compute_with_storage_grid_size()

        def rows(chunk: int) -> int:
            """Of queries that the busiest core goes through."""
            count = config.batch_size * config.heads * -(-queries // chunk)
            return -(-count // (grid.x * grid.y)) * chunk

        together = min(-(-keys // TILE) * TILE, _MOST_KEYS)
        return ttnn.SDPAProgramConfig(
            compute_with_storage_grid_size=(grid.x, grid.y),
            q_chunk_size=min(_CHUNKS, key=rows),
            k_chunk_size=together,
        )


def _widening(heads: int, width: int) -> torch.Tensor:
    """Heads of a width side by side, to heads of whole tiles: a 1 where a channel goes, and nothing between heads."""
    wide = -(-width // TILE) * TILE
    return torch.block_diag(*[torch.eye(width, wide)] * heads)
