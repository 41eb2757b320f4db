# SPDX-License-Identifier: Apache-2.0
"""What ops should give, in plain torch: a reference for each op, independent of how the card computes it.

`ttnn.get_golden_function(ttnn.conv2d)` gives one; `ttnn.CONFIG.enable_comparison_mode` compares each call with it.
"""

from tt_cnn.virtual.references import convolution, eltwise, matmul, movement, normalization, pool, reduction
from tt_cnn.virtual.references.registry import GOLDEN, Golden, attach_golden_function, get_golden_function

__all__ = [
    "GOLDEN",
    "Golden",
    "attach_golden_function",
    "convolution",
    "eltwise",
    "get_golden_function",
    "matmul",
    "movement",
    "normalization",
    "pool",
    "reduction",
]
