# SPDX-License-Identifier: Apache-2.0
"""Pools: max, average, global and adaptive."""
