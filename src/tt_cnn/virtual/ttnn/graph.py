# SPDX-License-Identifier: Apache-2.0
"""`ttnn.graph`: captures of what calls do, and readings of them."""

from tt_cnn.virtual.ttnn.missing import resolver

__getattr__ = resolver("graph.", "tt_cnn.virtual.graphs.capture", "tt_cnn.virtual.graphs.queries")
