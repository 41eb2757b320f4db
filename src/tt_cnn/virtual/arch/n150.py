# SPDX-License-Identifier: Apache-2.0
"""Wormhole n150: one chip, 8x8 cores for ops. Figures read from TT-NN 0.81.1 with `get_memory_view`."""

from tt_cnn.virtual.arch.card import Card
from tt_cnn.virtual.types.enums import Arch

N150 = Card(
    name="n150",
    arch=Arch.WORMHOLE_B0,
    arch_name="wormhole_b0",
    chips=1,
    grid=(8, 8),
    l1_size=1_499_136,
    l1_base=105_824,
    dram_banks=12,
    dram_bank_size=1_072_693_184,
    dram_base=1_048_640,
    l1_alignment=16,
    dram_alignment=32,
    clock_ghz=1.0,
)
