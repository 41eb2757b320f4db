# SPDX-License-Identifier: Apache-2.0
"""Convolutions of e4m3 numbers, on GPUs that multiply those."""
