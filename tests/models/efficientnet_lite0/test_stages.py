# SPDX-License-Identifier: Apache-2.0
"""Each stage: blocks of inverted residuals, from what the reference has before them."""

from __future__ import annotations

import pytest

from tests.models.inverted_residuals import Network
from tt_cnn.models.efficientnet_lite0.reference.model import STAGES

CAREFUL_STAGES = 3
"""Those in bfloat16; the first block of the next one is too."""


@pytest.mark.parametrize("number", range(len(STAGES)))
def test_every_stage_is_near_the_references(number: int, network: Network) -> None:
    assert network.pcc_of_stage(number) >= (0.9999 if number < CAREFUL_STAGES else 0.998)
