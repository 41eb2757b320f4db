"""Ops that move data and leave its values alone: concat, slice, pad, reshape, permute, transpose, split, fold, ..."""
