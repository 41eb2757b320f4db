# SPDX-License-Identifier: Apache-2.0
"""The demo runs, and the card agrees with PyTorch in it."""

from __future__ import annotations

from tt_cnn.models.efficientnet_lite0.demo import demo


def test_the_demo_agrees_with_pytorch() -> None:
    assert demo.main(count=2) >= 0.99
