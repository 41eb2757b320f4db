# SPDX-License-Identifier: Apache-2.0
"""Tensors in files: TT-NN's `.tensorbin`, read and written without running anything that stands in them."""
