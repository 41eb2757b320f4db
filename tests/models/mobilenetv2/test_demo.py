# SPDX-License-Identifier: Apache-2.0
"""The demo runs, and the card agrees with PyTorch in it."""

from __future__ import annotations

from tt_cnn.models.mobilenetv2.demo import demo


def test_the_demo_agrees_with_pytorch() -> None:
    assert demo.main() >= 0.94
