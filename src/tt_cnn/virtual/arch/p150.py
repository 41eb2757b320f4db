# SPDX-License-Identifier: Apache-2.0
"""Blackhole p150: one chip, 11x10 cores for ops. Figures read from TT-NN 0.81.1 with `get_memory_view`."""

from tt_cnn.virtual.arch.card import Card
from tt_cnn.virtual.types.enums import Arch

P150 = Card(
    name="p150",
    arch=Arch.BLACKHOLE,
    arch_name="blackhole",
    chips=1,
    grid=(11, 10),
    l1_size=1_572_864,
    l1_base=111_744,
    dram_banks=8,
    dram_bank_size=4_277_141_376,
    dram_base=1_048_704,
    l1_alignment=16,
    dram_alignment=64,
    clock_ghz=1.35,
)
