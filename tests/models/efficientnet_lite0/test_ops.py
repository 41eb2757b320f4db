# SPDX-License-Identifier: Apache-2.0
"""Every distinct layer of the model alone, with random inputs."""

from __future__ import annotations

import pytest

from tests.models.inverted_residuals import Network, distinct_convolutions
from tt_cnn.models.efficientnet_lite0.reference.model import STAGES

PCC = 0.9996
"""What bfloat8_b leaves; layers in bfloat16 are far above it."""


@pytest.mark.parametrize("name", distinct_convolutions(STAGES))
def test_convolutions(name: str, network: Network) -> None:
    network.verify_convolution(name, PCC)


def test_average(network: Network) -> None:
    network.verify_pool(0.99999)


def test_linear(network: Network) -> None:
    network.verify_linear(PCC)
