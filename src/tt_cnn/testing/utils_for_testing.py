# SPDX-License-Identifier: Apache-2.0
"""The names of TT-NN's `tests.ttnn.utils_for_testing`."""

from tt_cnn.testing.pcc import (
    assert_allclose,
    assert_equal,
    assert_with_pcc,
    assert_with_ulp,
    check_with_pcc,
    comp_allclose,
    comp_equal,
    comp_pcc,
    comp_ulp,
)

__all__ = [
    "assert_allclose",
    "assert_equal",
    "assert_with_pcc",
    "assert_with_ulp",
    "check_with_pcc",
    "comp_allclose",
    "comp_equal",
    "comp_pcc",
    "comp_ulp",
]
