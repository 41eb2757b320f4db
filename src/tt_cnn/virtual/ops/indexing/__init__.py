"""Choosing elements by other tensors: where, gather, scatter, sort, embedding."""
