# SPDX-License-Identifier: Apache-2.0
"""The demo runs, and the card agrees with PyTorch in it."""

from __future__ import annotations

import pytest

from tt_cnn.models.yolov4.demo import demo


@pytest.mark.long
def test_the_demo_agrees_with_pytorch(capsys: pytest.CaptureFixture[str]) -> None:
    pcc = demo.main()
    assert pcc["boxes"] >= 0.999 and pcc["confidences"] >= 0.99
    _, card, torch = capsys.readouterr().out.split("sure of:")
    assert card.split()[0] == torch.split()[0], "both find the same shape"
