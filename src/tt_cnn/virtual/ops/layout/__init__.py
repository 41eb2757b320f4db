# SPDX-License-Identifier: Apache-2.0
"""Ops that move values without computing: between layouts, memories, shards and dtypes, and new tensors."""
