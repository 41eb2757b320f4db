# SPDX-License-Identifier: Apache-2.0
"""ttnn.concat: `composite.py` decides on the way, `program.py` checks and dispatches, the others are its programs."""

from tt_cnn.virtual.ops.shape.concat.composite import plan_concat

__all__ = ["plan_concat"]
