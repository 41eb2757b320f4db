# SPDX-License-Identifier: Apache-2.0
"""What comparison mode (`ttnn.CONFIG.enable_comparison_mode`) found, op by op."""

from __future__ import annotations

from typing import Any

from tt_cnn.runtime import is_virtual


def op_report() -> Any:
    """Every call that was compared with its golden function since comparison mode was turned on, in order.

    Each has the op, the layer that called it, PCC and largest error; `first_below` is the first under the threshold,
    and the text of the report marks it. The real TT-NN logs what it finds and keeps nothing.
    """
    if not is_virtual():
        raise RuntimeError("the real TT-NN writes comparisons to the log only; run on the virtual card for a report")
    from tt_cnn.virtual.references.comparison_mode import report

    return report()
