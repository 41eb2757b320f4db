# SPDX-License-Identifier: Apache-2.0
"""Traces: commands recorded once and replayed, and the memory they stand on."""
