# SPDX-License-Identifier: Apache-2.0
"""Wormhole Galaxy: 32 chips behind the PCIe links of four."""

from dataclasses import replace

from tt_cnn.virtual.arch.n300 import N300

GALAXY = replace(N300, name="galaxy", chips=32, links=4)
