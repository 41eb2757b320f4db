# SPDX-License-Identifier: Apache-2.0
"""Replays in 8 bits under a guard: what is common to all kinds of 8-bit numbers."""
