# SPDX-License-Identifier: Apache-2.0
"""Figures of the cards: one data file a card, every figure with its source."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from importlib.resources import files
from typing import Any

from tt_cnn.virtual.arch import Card
from tt_cnn.virtual.types.enums import DataType

Table = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Figures:
    """What costs are made from. Cycles are of the core's clock; rates are bytes per cycle and core unless `total`."""

    clock_ghz: float
    launch_ns: float
    """From a kernel's start to its first work, and from the last to its end; cores do not start at the same time."""
    launch_alone_ns: float
    """The same on one core."""

    local_issue_cycles: float
    local_bytes_per_cycle: float
    l1_read_issue_cycles: float
    l1_read_bytes_per_cycle: float
    l1_write_issue_cycles: float
    l1_write_bytes_per_cycle: float
    dram_issue_cycles: float
    dram_bytes_per_cycle: float
    multicast_bytes_per_cycle: float
    loopback_bytes_per_cycle: float
    """Of a multicast that its sender takes part in."""
    local_latency_cycles: float
    l1_latency_cycles: float
    dram_latency_cycles: float
    dram_banks: int
    """That the rates of all DRAM together are for."""
    dram_total_bytes_per_cycle: float
    dram_read_bytes_per_cycle: float
    dram_bank_bytes_per_cycle: float
    """Of interleaved pages, all cores together over one network."""
    dram_output_bytes_per_cycle: float
    """Of a grid's outputs written sub-block by sub-block, half of the cores over each network."""
    dram_read_against_bytes_per_cycle: float
    dram_write_against_bytes_per_cycle: float
    """All cores over the network that suits the other direction."""
    dram_queue_share: float
    """Of what other cores have asked for, how much is served before a further read."""
    network_total_bytes_per_cycle: float
    dram_read_access_bytes: float
    """What the banks could have moved in the time that an access costs them beside its bytes."""
    dram_write_access_bytes: float
    dram_write_bytes_per_cycle: float
    network_achieved_bytes_per_cycle: float
    l1_write_latency_cycles: float
    dram_write_latency_cycles: float
    dram_read_access_cycles: float
    dram_write_access_cycles: float
    index_cycles: float
    neighbours_bytes_per_cycle: float
    """Of cores that all send to those next to them, together."""
    loopback_latency_cycles: float
    shared_pages_factor: float
    """How much longer pages take that all cores read in the same order: they crowd the same banks."""
    page_cycles: float
    barrier_cycles: float
    handover_cycles: float
    handshake_cycles: float
    stick_cycles: float
    element_store_cycles: float

    product_cycles: float
    unpack_bytes_per_cycle: float
    phase_cycles: float
    stream_left_bytes_per_cycle: float
    stream_right_bytes_per_cycle: float
    block_call_cycles: float
    pack_bytes_per_cycle: float
    pack_tile_cycles: float
    accumulate_factor: float
    sync_cycles: float
    reconfigure_cycles: float
    elementwise_cycles: float
    copy_tile_cycles: float
    untilize_cycles: float
    untilize_row_cycles: float
    transpose_cycles: float
    pool_stick_cycles: float
    pool_tile_cycles: float
    pool_row_cycles: float
    tilize_cycles: Table
    tilize_float32_cycles: float
    compute_start_cycles: float
    fill_word_cycles: float
    fill_row_cycles: float
    offsets_cycles: float
    unary_cycles: float
    vector_rows: float
    pass_cycles: float
    reduce_tile_cycles: float
    constant_tile_cycles: float
    """Of a reader that fills a tile with a constant: the factor of a sum, an epsilon."""

    gap_traced_ns: float
    host_step_ns: float
    """The host's time to dispatch a step when there is no trace."""
    write_gb_per_s: Table
    read_gb_per_s: Table
    remote_write_gb_per_s: Table
    """To a chip that is reached over the ethernet of another."""
    remote_read_gb_per_s: Table
    write_start_ns: float
    read_start_ns: float

    pm_dram_gib_per_s: float
    pm_l1_gb_per_s: float
    pm_network_ghz: float
    pm_latency_cycles: Table
    pm_rates: Table

    def tilize(self, source: DataType, target: DataType, fp32_accumulation: bool) -> float:
        """Cycles to tilize a tile."""
        kept = DataType.FLOAT32 if source is DataType.FLOAT32 else DataType.BFLOAT16
        row = self.tilize_cycles.get(f"{kept.name.lower()}>{target.name.lower()}")
        return float((row or self.tilize_cycles["bfloat16>bfloat16"])[fp32_accumulation])

    def ns(self, cycles: float) -> float:
        return cycles / self.clock_ghz


@lru_cache
def sourced_figures(card: str) -> Mapping[str, Mapping[str, Any]]:
    """Every figure of a card by its name, with `value` and `source`."""
    text = files(__name__).joinpath(f"{card}.json").read_text(encoding="utf-8")
    table = json.loads(text, object_pairs_hook=_each_once)
    like = table.pop("like", None)
    return {**sourced_figures(like), **table} if like else table


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError(f"a figure stands twice among {', '.join(name for name, _ in pairs)}")
    return made


@lru_cache
def _figures_by_name(card: str) -> Figures:
    table = sourced_figures(card)
    return Figures(**{f.name: table[f.name]["value"] for f in fields(Figures)})


_OF_ALL_BANKS = (
    "dram_total_bytes_per_cycle",
    "dram_read_bytes_per_cycle",
    "dram_write_bytes_per_cycle",
    "dram_output_bytes_per_cycle",
    "dram_read_against_bytes_per_cycle",
    "dram_write_against_bytes_per_cycle",
)
"""Rates that follow the number of DRAM banks."""
_OF_EACH_ACCESS = ("dram_read_access_cycles", "dram_write_access_cycles")
"""What accesses of all cores take at least, the fewer banks the longer."""


@lru_cache
def figures_of(card: Card) -> Figures:
    """A card's figures, with its own number of DRAM banks."""
    figures = _figures_by_name(card.model)
    if card.dram_banks == figures.dram_banks:
        return figures
    share = card.dram_banks / figures.dram_banks
    rates = {name: getattr(figures, name) * share for name in _OF_ALL_BANKS}
    accesses = {name: getattr(figures, name) / share for name in _OF_EACH_ACCESS}
    return replace(figures, dram_banks=card.dram_banks, **accesses, **rates)
