# SPDX-License-Identifier: Apache-2.0
"""MobileNetV2 in plain PyTorch."""

from tt_cnn.models.mobilenetv2.reference.model import InvertedResidual, MobileNetV2

__all__ = ["InvertedResidual", "MobileNetV2"]
