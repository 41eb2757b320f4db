# SPDX-License-Identifier: Apache-2.0
"""Tensors: specs with values on the host or on a card, and the ways between host and card."""
