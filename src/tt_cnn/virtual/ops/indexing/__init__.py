# SPDX-License-Identifier: Apache-2.0
"""Choosing elements by other tensors: where, gather, scatter, sort, embedding."""
