# SPDX-License-Identifier: Apache-2.0
"""The head: the last convolution, the average over the image, the classifier."""

from __future__ import annotations

from tests.models.inverted_residuals import Network


def test_the_head_is_near_the_references(network: Network) -> None:
    assert network.pcc_of_head() >= 0.9995
