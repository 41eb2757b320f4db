# SPDX-License-Identifier: Apache-2.0
"""Transposed convolutions: convolutions over an input with zeros put between its pixels."""
