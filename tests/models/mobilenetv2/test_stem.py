# SPDX-License-Identifier: Apache-2.0
"""The stem: planes to pixels, and the first convolution."""

from __future__ import annotations

from tests.models.inverted_residuals import Network


def test_the_stem_is_near_the_references(network: Network) -> None:
    assert network.pcc_of_stem() >= 0.9999
