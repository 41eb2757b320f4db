# SPDX-License-Identifier: Apache-2.0
"""Blackhole p100: as p150, with 7 DRAM banks of 4 GB and 11x10 cores for ops. Derived from p150's figures."""

from dataclasses import replace

from tt_cnn.virtual.arch.p150 import P150

P100 = replace(P150, name="p100", grid=(11, 10), dram_banks=7)
