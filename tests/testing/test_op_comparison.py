# SPDX-License-Identifier: Apache-2.0
"""`op_report`: what comparison mode found."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tt_cnn import ttnn
from tt_cnn.builder import Conv2dConfiguration, TtConv2d
from tt_cnn.testing import op_comparison, op_report
from tt_cnn.virtual.references import comparison_mode as comparison


def test_ops_are_reported_under_their_layers(card: Any) -> None:
    """A layer whose weights have four bits stands out among those with sixteen."""
    torch.manual_seed(0)
    precise = {"padding": (1, 1), "math_fidelity": ttnn.MathFidelity.HiFi4, "fp32_dest_acc_en": True}
    fine = Conv2dConfiguration.with_random_weights(16, 16, 32, 32, 1, (3, 3), **precise)
    rough = Conv2dConfiguration.with_random_weights(16, 16, 32, 32, 1, (3, 3), weights_dtype=ttnn.bfloat4_b, **precise)
    x = ttnn.from_torch(torch.randn(1, 16, 16, 32), dtype=ttnn.bfloat16, device=card)
    with ttnn.manage_config("enable_comparison_mode", True), ttnn.manage_config("comparison_mode_pcc", 0.9995):
        TtConv2d(rough, card, name="body.1")(TtConv2d(fine, card, name="stem")(x))
    report = op_report()
    assert [(call.op, call.layer) for call in report.calls] == [("ttnn.conv2d", "stem"), ("ttnn.conv2d", "body.1")]
    assert report.first_below is report.calls[1]
    assert report.calls[0].pcc > 0.9995 > report.calls[1].pcc > 0.95
    assert str(report).endswith("► ttnn.conv2d of 'body.1' is the first call under PCC 0.9995")


def test_without_comparison_mode_there_is_no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "_last", None)
    with pytest.raises(RuntimeError, match="enable_comparison_mode = True before running"):
        op_report()


def test_the_real_library_keeps_no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(op_comparison, "is_virtual", lambda: False)
    with pytest.raises(RuntimeError, match="the real TT-NN writes comparisons to the log only"):
        op_report()
