# SPDX-License-Identifier: Apache-2.0
"""Architectures of the zoo as ONNX and as .pt2 give the code that the module gives, but for names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.bringup.files import code_of, imported, outputs_of, save_onnx, save_pt2, without_names
from tt_cnn.zoo import architecture

TEN = (
    *("squeezenet1_1", "mobilenet_v2", "yolov4_tiny"),
    *("resnet50", "googlenet", "efficientnet_b0", "ghostnet", "shufflenet_v2_x0_5", "pose_resnet50", "srresnet_x4"),
)
SAVED = {"onnx": save_onnx, "pt2": save_pt2}


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if i < 3 else pytest.mark.long) for i, n in enumerate(TEN)])
def test_files_give_the_code_of_the_module(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, inputs = architecture(name).factory().eval(), [architecture(name).example_input()]
    expected = code_of(model, inputs)
    for kind, save in SAVED.items():
        made: Any = imported(save(model, inputs, tmp_path / f"net.{kind}"))
        for mine, theirs in zip(outputs_of(made, inputs), outputs_of(model, inputs), strict=True):
            assert (mine - theirs).abs().max() <= 1e-4 * theirs.abs().max()
        assert without_names(code_of(made, inputs)) == without_names(expected), kind


def test_what_is_called_and_where_is_no_name() -> None:
    code = code_of(architecture("squeezenet1_1").factory().eval(), [architecture("squeezenet1_1").example_input()])
    renamed = (
        code.replace("TtFire", "TtOther").replace("self.classifier", "self.last").replace('"classifier.', '"last.')
    )
    assert renamed != code and without_names(renamed) == without_names(code)
    for change in (("max_pool2d", "avg_pool2d"), ("features[0]", "features[1]"), ("nn.ReLU()", "nn.SiLU()")):
        assert change[0] in code
        assert without_names(code.replace(*change)) != without_names(code)
