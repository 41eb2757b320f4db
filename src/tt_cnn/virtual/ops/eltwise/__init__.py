# SPDX-License-Identifier: Apache-2.0
"""Element-wise ops: unary, binary, typecast, and the activations that other ops fuse."""

from tt_cnn.virtual.ops.eltwise.numbers import apply_activation

__all__ = ["apply_activation"]
