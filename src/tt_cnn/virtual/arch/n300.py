# SPDX-License-Identifier: Apache-2.0
"""Wormhole n300: two chips, 8x8 cores each with ethernet dispatch, its default; 8x7 with dispatch on worker cores."""

from dataclasses import replace

from tt_cnn.virtual.arch.n150 import N150

N300 = replace(N150, name="n300", chips=2, tensix_dispatch_grid=(8, 7))
