"""Ops that move values without computing: between layouts, memories, shards and dtypes, and new tensors."""
