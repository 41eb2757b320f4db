# SPDX-License-Identifier: Apache-2.0
"""Ops that move data and leave its values alone: concat, slice, pad, reshape, permute, transpose, split, fold, ..."""
